"""Who we are towards a server, kept fresh: what runs out, or was refused, is read anew before the next request."""

import asyncio
import dataclasses
import time
from collections.abc import Callable

from headrace.client.errors import Unreachable
from headrace.client.exec_plugin import Credential
from headrace.client.kubeconfig import BadKubeconfig, Cluster


class Credentials:
    """The credential of a cluster at any time. `wall`: seconds since the epoch."""

    def __init__(self, cluster: Cluster, wall: Callable[[], float] = time.time) -> None:
        self._cluster, self._wall = cluster, wall
        self._now = Credential(cluster.token, cluster.certificate_pem, cluster.key_pem, cluster.good_until)
        self._reading = asyncio.Lock()

    @property
    def can_change(self) -> bool:
        return self._cluster.renew is not None

    async def current(self) -> Credential:
        """Raises Unreachable (nothing was sent) when there is no credential to be had."""
        now = self._now
        renew = self._cluster.renew
        if renew is None or now.good_until is None or self._wall() < now.good_until:
            return now
        async with self._reading:
            if self._now is now:  # else another request has just read it
                try:
                    self._now = await asyncio.to_thread(renew)
                except BadKubeconfig as error:
                    raise Unreachable(str(error), sent=False) from None
        return self._now

    def refuse(self, credential: Credential) -> None:
        """The server did not take it: the next request reads a new one."""
        if self.can_change and self._now is credential:
            self._now = dataclasses.replace(credential, good_until=0.0)
