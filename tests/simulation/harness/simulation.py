"""One history: the control plane, two agents and their machines, users and faults, all of it decided by a seed."""

import asyncio
import gc
import random as global_random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import structlog

from headrace.api.kinds import NAMESPACE, Kind
from headrace.ledger.node import Ledger
from headrace.metrics.memory import MemoryMetrics
from headrace.node import devices
from headrace.node import machine as node_machine
from headrace.node.agent import Agent, Settings
from headrace.node.runtimes.protocol import Limits
from headrace.resize.monitoring import Monitoring
from headrace.runtime.clock import LoopClock
from headrace.runtime.manager import ControllerManager
from headrace.serve.controllers import unconfirmed_end
from headrace.store.protocol import AlreadyExists
from headrace.store.verify import folded
from tests.simulation.harness.containers import MEBIBYTE, Machine, SimulatedRuntime, Trouble
from tests.simulation.harness.control_plane import control_plane
from tests.simulation.harness.device_users import found
from tests.simulation.harness.driver import SimulatedDriverClient
from tests.simulation.harness.faults import Faults, FaultyStore
from tests.simulation.harness.laws import Laws, Violation
from tests.simulation.harness.loop import run
from tests.simulation.harness.metering import Metering
from tests.simulation.harness.processes import Process
from tests.simulation.harness.server import Server
from tests.simulation.harness.settled import growing, stale, unsettled
from tests.simulation.harness.users import NAMESPACES, Users

EPOCH = 1_800_000_000.0
NODES = ("node-a", "node-b")
TROUBLE_SECONDS = 240.0
HEAL_SECONDS = 600.0  # twice what the longest of the program's delays is
QUIET_SECONDS = 60.0
WITH_POLICIES = 3  # one history in so many: measuring takes as long as all the rest
LEAST_CPUS, LEAST_MEMORY = 4, 8192 * MEBIBYTE


@dataclass(slots=True)
class Told:
    """What became of a seed. `trace` is what happened, in order; two runs of a seed have the same."""

    seed: int
    commits: int = 0
    faults: int = 0
    devices_given: int = 0
    by_policies: int = 0
    trace: list[str] = field(default_factory=list)


class Simulation:
    """`faults` are those of its messages, until it is time to heal."""

    def __init__(self, seed: int, directory: Path, faults: Faults | None = None) -> None:
        self.told = Told(seed)
        self._seed, self._directory = seed, directory
        self._troubled = faults or Faults()
        self._faults = self._troubled
        self._skew = 0.0
        self._with_policies = seed % WITH_POLICIES == 0
        self._random = self._stream("world")
        self._server = Server(directory, self.wall)
        self._machines = {name: Machine(self._stream(name), self.wall, self._changed) for name in NODES}
        self._laws = Laws(self._machines, self._ledgers, self._server.last, self.wall)
        self._metering = Metering(self._machines, self.wall, self._stream("metering"))
        self._manager: ControllerManager | None = None
        self._processes = {
            "server": self._process("server", self._serve),
            "controllers": self._process("controllers", self._control),
            **{name: self._process(name, self._agent(name)) for name in NODES},
        }
        people = self._process("users", self._never)
        self._users = Users(
            self._client(people, "system:admin"),
            lambda: self._server.store("system:admin"),
            self._server.last,
            self._stream("users"),
            NODES,
            self._note,
            self.wall,
            self._with_policies,
        )

    def _stream(self, name: str) -> Random:
        return Random(f"{self._seed}/{name}")

    def _process(self, name: str, main: Callable[[Process], object]) -> Process:
        return Process(name, main, self._stream(f"process {name}"), self._note)  # type: ignore[arg-type]

    def _client(self, process: Process, user: str) -> FaultyStore:
        random = self._stream(f"faults of {process.name} {process.starts}")
        mortal = process.name in self._processes
        return FaultyStore(
            self._server,
            process,
            user,
            lambda: self._faults if mortal else replace(self._faults, crash=0),
            random,
            self._interfere,
        )

    async def _interfere(self, kind: Kind, name: str, namespace: str) -> None:
        await self._users.interfere(kind, name, namespace)

    def wall(self) -> float:
        return EPOCH + asyncio.get_running_loop().time() + self._skew

    def _ledgers(self) -> Mapping[str, Ledger]:
        return self._server.rows.ledgers if self._server.is_open else {}

    def _note(self, text: str) -> None:
        self.told.trace.append(f"{asyncio.get_running_loop().time():.3f} {text}")

    def _changed(self) -> None:
        self._laws.truth()

    # The processes

    async def _serve(self, process: Process) -> None:
        rows = await self._server.open(self._laws)
        try:
            stored = {each: row.revision for each in self._server.last if (row := rows.get(each)) is not None}
            self._laws.nothing_acknowledged_is_lost(stored, self._server.last)
            await asyncio.Event().wait()
        finally:
            self._laws.books_are_the_fold(rows.books, folded(rows._writing, "the file"))
            await self._server.kill()

    async def _control(self, process: Process) -> None:
        store = self._client(process, "system:headrace")
        random = self._stream(f"controllers {process.starts}")
        monitoring = Monitoring(MemoryMetrics(), self.wall)
        self._manager, self._metering.scraper = control_plane(store, self.wall, random, self._unconfirmed, monitoring)
        self._metering.monitoring = monitoring
        try:
            await self._manager.run()
        finally:
            self._metering.monitoring = self._metering.scraper = None

    def _is_heard(self, node: str) -> bool:
        return not self._processes[node].is_cut_off() and not self._processes["controllers"].is_cut_off()

    def _unconfirmed(self, pod: str) -> str:
        return unconfirmed_end(self._server.store("system:headrace"))(pod)

    def _agent(self, name: str) -> Callable[[Process], object]:
        async def main(process: Process) -> None:
            settings = Settings(node=name, directory=self._directory / name)
            facts = node_machine.Machine(LEAST_CPUS, LEAST_MEMORY, "amd64", "linux", "6", "simulated", name, name)
            await Agent(
                settings,
                facts,
                self._client(process, f"system:node:{name}"),
                SimulatedRuntime(self._machines[name]),
                clock=LoopClock(self.wall),
                log=structlog.get_logger(),
            ).run()

        return main

    async def _never(self, process: Process) -> None:
        await asyncio.Event().wait()

    # The history

    async def run(self) -> Told:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(process.run()) for process in self._processes.values()]
            watching = tasks.create_task(self._watch_laws())
            if self._with_policies:
                running.append(tasks.create_task(self._metering.run(self._is_heard)))
            try:
                await self._found()
                trouble = tasks.create_task(self._cause_trouble())
                await self._users.run(TROUBLE_SECONDS)
                trouble.cancel()
                await self._heal()
                await self._be_settled()
            finally:
                watching.cancel()
                for task in running:
                    task.cancel()
        self._laws.check()
        self.told.commits, self.told.devices_given = self._laws.commits, self._laws.devices.handed_out
        self.told.by_policies = self._laws.actions.by_policies
        return self.told

    async def _watch_laws(self) -> None:
        """A violation ends the history at once, whoever's step it was."""
        await self._laws.alarm.wait()
        self._laws.check()

    async def _found(self) -> None:
        """Namespaces, without faults: an empty house is of no interest."""
        await self._server.opened.wait()
        for name in (*NAMESPACES, "kube-node-lease"):
            try:
                await self._server.store("system:admin").create(NAMESPACE, {"metadata": {"name": name}})
            except AlreadyExists:
                continue
        await found(self._server.store("system:admin"), NODES, NAMESPACES)

    async def _cause_trouble(self) -> None:
        for machine in self._machines.values():
            machine.trouble = Trouble(slow=0.02, fails=0.05)
        kinds: list[tuple[int, Callable[[], None]]] = [
            (3, self._kill_controllers),
            (3, self._kill_server),
            (5, self._kill_agent),
            (3, self._cut_off),
            (2, self._jump),
            (6, self._drift),
            (8, self._exit),
            (6, self._use_memory),
            (12, self._load),
        ]
        while True:
            await asyncio.sleep(self._random.expovariate(0.2))
            chosen = self._random.choices([each for _, each in kinds], [weight for weight, _ in kinds])[0]
            self.told.faults += 1
            chosen()

    def _kill_controllers(self) -> None:
        self._note("kill controllers")
        self._processes["controllers"].kill()

    def _kill_server(self) -> None:
        self._note("kill server")
        self._processes["server"].kill()
        if self._random.random() < 0.5:
            self._processes["controllers"].kill()

    def _kill_agent(self) -> None:
        name = self._random.choice(NODES)
        self._note(f"kill {name}")
        self._processes[name].kill()

    def _cut_off(self) -> None:
        name = self._random.choice((*NODES, "controllers"))
        seconds = self._random.choice((1.0, 10.0, 60.0, 300.0))
        self._note(f"cut off {name} for {seconds} s")
        self._processes[name].cut_off(seconds)
        if name == "controllers":
            self._laws.actions.quota.cut_off(seconds)

    def _jump(self) -> None:
        self._laws.actions.jumps += 1
        self._skew += self._random.choice((-86400.0, -3600.0, 3600.0, 86400.0, 0.5))
        self._note(f"the wall clock is {self._skew} s off")

    def _container(self) -> tuple[Machine, str] | None:
        running = [(machine, each.spec.id) for machine in self._machines.values() for each in machine.running()]
        return self._random.choice(running) if running else None

    def _drift(self) -> None:
        if found := self._container():
            machine, id = found
            limits = Limits(self._random.choice((100, 2000, 8000)), 512 * MEBIBYTE, 100)
            self._note(f"{id} drifts to {limits}")
            machine.drift(id, limits)

    def _exit(self) -> None:
        if found := self._container():
            machine, id = found
            code = self._random.choice((0, 0, 1, 137))
            self._note(f"{id} exits with {code}")
            machine.exit(id, code, 9 if code == 137 else None)

    def _use_memory(self) -> None:
        if found := self._container():
            machine, id = found
            container = machine.containers[id]
            limit = container.limits.memory_bytes or 64 * MEBIBYTE
            container.memory_used = min(limit, self._random.choice((8, 48, 200)) * MEBIBYTE)

    def _load(self) -> None:
        """The application has more or less to do than before; of no limit exactly what a policy compares with."""
        if found := self._container():
            machine, id = found
            machine.containers[id].demand_milli = self._random.choice((20, 190, 790, 2500, 2500))
            self._note(f"{id} needs {machine.containers[id].demand_milli}m of cpu")

    async def _heal(self) -> None:
        """The last fault is over. From here on everything must come right by itself, in bounded time."""
        self._note("healing")
        self._faults = Faults.none()
        self._laws.actions.quota.healed()
        for machine in self._machines.values():
            machine.trouble = Trouble()
            for container in machine.containers.values():
                container.memory_used = 8 * MEBIBYTE
        for process in self._processes.values():
            process.heal()
            await process.settle()
        await asyncio.sleep(HEAL_SECONDS)

    async def _be_settled(self) -> None:
        self._laws.check()
        manager = self._manager
        if manager is None:
            raise Violation("the controllers never ran")
        found = [
            *unsettled(self._server.last, self._laws, self._machines, self._users),
            *stale(manager, self._server.last),
            *self._laws.actions.starved(self._machines, {node: self._laws.room_on(node) for node in NODES}),
        ]
        before = self._writes_that_matter()
        await asyncio.sleep(QUIET_SECONDS)
        after = self._writes_that_matter()
        found += [
            f"law 2: {key} was still written, when nothing was left to do"
            for key in after
            if after[key] != before.get(key) and not self._laws.actions.is_asking(key)
        ]
        found += growing(manager)
        if found:
            raise Violation("\n".join(found[:20]))
        rows = self._server.rows
        self._laws.books_are_the_fold(rows.books, folded(rows._writing, "the file"))

    def _writes_that_matter(self) -> dict[object, str]:
        """Versions of all but heartbeats and Events, which never end."""
        return {
            key: obj["metadata"]["resourceVersion"]
            for key, obj in self._server.last.items()
            if key.resource not in ("leases.coordination.k8s.io", "nodes", "events")
        }


def simulate(seed: int, faults: Faults | None = None) -> Told:
    """Run one seed to its end. Raises Violation, with the trace in its notes."""
    global_random.seed(seed)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    shared = Path("/dev/shm")
    place = shared if shared.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place, prefix="headrace-simulation-") as directory:
        simulation = None

        async def main() -> Told:
            nonlocal simulation
            simulation = Simulation(seed, Path(directory), faults)
            return await simulation.run()

        gc.disable()  # a history is short and is thrown away as a whole
        try:
            with patch.object(devices, "DriverClient", SimulatedDriverClient):
                return run(main())
        except BaseExceptionGroup as group:
            first = _first(group)
            first.add_note(f"replay it with: make simulate SEED={seed}")
            if simulation is not None:
                first.add_note("\n".join(simulation.told.trace[-60:]))
            raise first from None
        finally:
            gc.enable()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The violation if there is one among them, else the first that is no cancellation."""
    leaves: list[BaseException] = []

    def collect(error: BaseException) -> None:
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                collect(each)
        else:
            leaves.append(error)

    collect(group)
    violations = [each for each in leaves if isinstance(each, Violation)]
    return (violations or leaves)[0]
