"""A device driver without sockets, which virtual time does not have: slow now and then, and busy now and then."""

import asyncio
import random
from collections.abc import Callable

from headrace.node.device_record import PreparedClaim, PreparedDevice
from headrace.node.driver_client import DeviceProblem
from headrace.node.plugins import Plugin

BUSY = 0.1


class SimulatedDriverClient:
    """Stands where the DriverClient would. Its claims need nothing of CDI."""

    def __init__(self, find: Callable[[str], Plugin | None]) -> None:
        del find

    def plugin(self, driver: str) -> Plugin:
        return Plugin(driver, "")

    async def prepare(self, driver: str, claim: PreparedClaim) -> tuple[PreparedDevice, ...]:
        await self._call(driver, claim)
        return ()

    async def unprepare(self, driver: str, claim: PreparedClaim) -> None:
        await self._call(driver, claim)

    async def _call(self, driver: str, claim: PreparedClaim) -> None:
        await asyncio.sleep(random.choice((0.005, 0.005, 0.005, 4.0)))
        if random.random() < BUSY:
            raise DeviceProblem(f"driver {driver}: claim {claim.name!r}: the device is busy")
