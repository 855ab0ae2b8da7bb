"""Device drivers that ship with headrace, each a process of its own: beside our agent, or beside a real kubelet."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster, load
from headrace.devices.driver import host
from headrace.devices.driver.interface import Driver
from headrace.devices.driver.inventory import PLAIN
from headrace.devices.driver.plugin import Plugin
from headrace.devices.driver.simulated import NAME, NIC_NAME, SimulatedGpus, SimulatedNics
from headrace.node.certificate import Credentials
from headrace.node.joining import cluster
from headrace.runtime.clock import LoopClock
from headrace.serve.sole import sole_driver
from headrace.store.kubernetes import KubernetesStore

DRIVERS = (NAME, NIC_NAME, host.NAME)


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """`directory` has plugins/ and plugins_registry/, CDI documents go to `cdi`; `profile` is gpu.example.com's."""

    name: str
    node: str
    directory: Path
    cdi: Path
    server: Cluster
    profile: str = PLAIN

    def driver(self) -> Driver:
        """Raises ValueError."""
        if self.profile != PLAIN and self.name != NAME:
            raise ValueError(f"--profile {self.profile}: only {NAME} has profiles")
        match self.name:
            case "gpu.example.com":
                return SimulatedGpus(self.node, self.cdi, self.profile)
            case "nic.example.com":
                return SimulatedNics(self.node, self.cdi)
            case "host.headrace.dev":
                return host.HostDevices(self.node, self.cdi)
        raise ValueError(f"driver {self.name!r}: headrace ships {', '.join(DRIVERS)}")


def beside_agent(name: str, node: str, data_dir: Path, url: str, profile: str) -> DriverSettings:
    """With the certificate of the agent of `data_dir`."""
    server = cluster(url, Credentials(data_dir / "pki"))
    return DriverSettings(name, node, data_dir, data_dir / "cdi", server, profile)


def beside_kubelet(
    name: str, node: str, kubeconfig: Path, kubelet_dir: Path, cdi_dir: Path, profile: str
) -> DriverSettings:
    """With an account that may read ResourceClaims and write ResourceSlices. Raises BadKubeconfig."""
    return DriverSettings(name, node, kubelet_dir, cdi_dir, load(kubeconfig), profile)


async def run_driver(settings: DriverSettings, log: FilteringBoundLogger, ready: Callable[[], None]) -> None:
    """Until cancelled. Raises ValueError, RuntimeError where it runs already."""
    driver = settings.driver()
    async with (
        sole_driver(settings.directory, driver.name),
        Client(settings.server, user_agent=f"headrace-driver-{driver.name}") as client,
    ):
        store = KubernetesStore(client, field_manager=driver.name)
        clock = LoopClock(time.time)
        await Plugin(driver, settings.node, store, settings.directory, clock=clock, log=log).run(ready)
