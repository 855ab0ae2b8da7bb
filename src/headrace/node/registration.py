"""Keeps this machine's Node and Lease: the Lease every ten seconds, the Node on a change or every five minutes.

At each renewal the Node is read: who was taken for silent says at once that it is ready, and what others removed of its
annotations is written again.

The annotations tell what a fold over objects cannot know: enforcement, strays, and up to which revision all that runs
here corresponds to the Pods seen.
"""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import LEASE, NODE
from headrace.api.objects import Object, metadata, uid_of
from headrace.api.times import to_micro_time, to_time
from headrace.node.machine import Machine
from headrace.node.runtimes.protocol import Capabilities
from headrace.runtime.clock import Clock
from headrace.store.protocol import AlreadyExists, NotFound, Store, StoreError, Unauthorized

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
STATUS_SECONDS = 300.0
LOOK_SECONDS = 1.0
ENFORCEMENT = "headrace.dev/enforcement"
CONFIRMED = "headrace.dev/confirmed-revision"
STRAYS = "headrace.dev/strays"

_PRESSURES = (
    ("MemoryPressure", "HasSufficientMemory", "the agent has sufficient memory available"),
    ("DiskPressure", "HasNoDiskPressure", "the agent has no disk pressure"),
    ("PIDPressure", "HasSufficientPID", "the agent has sufficient PID available"),
)


def node_fields(
    name: str, machine: Machine, capabilities: Capabilities, reserved: Mapping[str, str], *, version: str, address: str
) -> Object:
    """The Node as this machine is, without times."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": machine.operating_system,
        "kubernetes.io/arch": machine.architecture,
    }
    enforcement = {"cpu": capabilities.cpu, "memory": capabilities.memory, "detail": capabilities.detail}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {ENFORCEMENT: orjson.dumps(enforcement).decode()},
        },
        "status": {
            "capacity": machine.capacity(),
            "allocatable": machine.allocatable(reserved),
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": machine.architecture,
                "operatingSystem": machine.operating_system,
                "kernelVersion": machine.kernel,
                "osImage": machine.os_image,
                "machineID": machine.machine_id,
                "systemUUID": machine.machine_id,
                "bootID": machine.boot_id,
                "containerRuntimeVersion": f"{capabilities.name}://{capabilities.version or version}",
                "kubeletVersion": f"v{version}",
                "kubeProxyVersion": "",
            },
        },
    }


def conditions(now: float, problem: str = "") -> list[dict[str, Any]]:
    """A kubelet's four; the agent that can write them is ready, unless there is a problem."""
    rows = [(kind, "False", f"Agent{reason}", message) for kind, reason, message in _PRESSURES]
    if problem:
        rows.append(("Ready", "False", "AgentNotReady", problem))
    else:
        rows.append(("Ready", "True", "AgentReady", "the agent is posting ready status"))
    return [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": to_time(now)}
        for kind, status, reason, message in rows
    ]


class Registration:
    """`strays`: what runs here that no object owns, None while nobody knows; `confirmed`: see the module; `problem`:
    why the node is not ready, else empty. All are asked for at each look.
    """

    def __init__(
        self,
        store: Store,
        fields: Object,
        *,
        strays: Callable[[], Mapping[str, Mapping[str, int]] | None],
        confirmed: Callable[[], str | None],
        problem: Callable[[], str],
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        self.node: Object = {}
        self._store, self._fields, self._clock, self._log = store, fields, clock, log
        self._strays, self._confirmed, self._problem = strays, confirmed, problem
        self._name = str(metadata(fields)["name"])
        self._told_at = -STATUS_SECONDS

    @property
    def allocatable(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._fields["status"]["allocatable"]
        return found

    async def register(self) -> None:
        """Create the Node, whole, or bring an existing one up to date. Raises StoreError."""
        meta, now = self._fields["metadata"], self._clock.wall()
        ready = [{**each, "lastTransitionTime": to_time(now)} for each in conditions(now, self._problem())]
        try:
            status = {**self._fields["status"], "conditions": ready}
            self.node = await self._store.create(NODE, {**self._fields, "status": status})
            self._told_at = self._clock.monotonic()
        except AlreadyExists:
            fields = {"metadata": {key: meta[key] for key in ("labels", "annotations")}}
            self.node = await self._store.patch(NODE, self._name, fields=fields)
            await self._write_status()
        await self._renew()

    async def run(self) -> None:
        """Until cancelled. What fails is tried again; a deleted Node is made anew."""
        renewed = self._clock.monotonic()
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            now = self._clock.monotonic()
            try:
                await self._write_annotations()
                if now - renewed >= RENEW_SECONDS:
                    renewed = now
                    await self._renew()
                    self.node = await self._store.get(NODE, self._name)
                if now - self._told_at >= STATUS_SECONDS or not self._is_told():
                    await self._write_status()
            except NotFound:
                await self._again()
            except StoreError as error:
                self._log.warning("node not reported", error=words_of(error, self._name))

    def _is_told(self) -> bool:
        """Whether the Node, as last read, says of its conditions what we say: not if it was taken for silent."""
        told = {each["type"]: each["status"] for each in (self.node.get("status") or {}).get("conditions") or ()}
        return all(told.get(each["type"]) == each["status"] for each in conditions(0.0, self._problem()))

    async def _again(self) -> None:
        try:
            await self.register()
        except StoreError as error:
            self._log.warning("node not registered", error=words_of(error, self._name))

    async def _write_status(self) -> None:
        known = {each["type"]: each for each in (self.node.get("status") or {}).get("conditions") or ()}
        now = self._clock.wall()
        told = conditions(now, self._problem())
        for each in told:
            if known.get(each["type"], {}).get("status") != each["status"]:
                each["lastTransitionTime"] = to_time(now)
        status = {**self._fields["status"], "conditions": told}
        self.node = await self._store.patch(
            NODE, self._name, fields={"status": status}, subresource="status", strategic=True
        )
        self._told_at = self._clock.monotonic()

    async def _write_annotations(self) -> None:
        """What changed of the annotations, in one write."""
        known: Mapping[str, str] = metadata(self.node).get("annotations") or {}
        strays = self._strays()
        told = orjson.dumps(strays, option=orjson.OPT_SORT_KEYS).decode() if strays else None
        wanted: dict[str, str | None] = {}
        if strays is not None and known.get(STRAYS) != told:
            wanted[STRAYS] = told
        confirmed = self._confirmed()
        if confirmed is not None and confirmed != known.get(CONFIRMED):  # whatever another has written there
            wanted[CONFIRMED] = confirmed
        if wanted:
            self.node = await self._store.patch(NODE, self._name, fields={"metadata": {"annotations": wanted}})

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": to_micro_time(self._clock.wall()),
        }
        try:
            await self._store.patch(LEASE, self._name, LEASE_NAMESPACE, fields={"spec": spec})
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": uid_of(self.node)}
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
                "spec": spec,
            }
            await self._store.create(LEASE, lease, LEASE_NAMESPACE)


def words_of(error: StoreError, node: str) -> str:
    """What kept a node from its server, and for what does not pass by itself also what would help."""
    if not isinstance(error, Unauthorized):
        return str(error)
    return (
        f"{error}: the server does not take this node's certificate: it was revoked, or is of another server. To come "
        "back, remove pki from the agent's data directory and start the agent with --join and a token of "
        f"`headrace token create --node {node}`"
    )
