"""A runtime without processes: containers run until the test says they end. It keeps what outlives an agent."""

import asyncio
from dataclasses import replace

from headrace.node.runtimes.protocol import Capabilities, ContainerSpec, ContainerState, Limits


class SimulatedRuntime:
    """`script` decides how a container ends: the seconds it runs and its exit code; without one it runs for ever."""

    def __init__(self, wall, script=lambda spec: None):
        self.wall, self.script = wall, script
        self.states: dict[str, ContainerState] = {}
        self.specs: dict[str, ContainerSpec] = {}
        self.limits: dict[str, Limits] = {}
        self.starts: list[tuple[str, float]] = []
        self.signals: list[tuple[str, int]] = []
        self.applied: list[tuple[str, Limits]] = []
        self.obeys_sigterm = True
        self.apply_error: Exception | None = None
        self.start_error: Exception | None = None
        self._watchers: list[asyncio.Queue[str]] = []
        self._pids = iter(range(1000, 10**6))

    def capabilities(self):
        return Capabilities("enforced", "enforced", "simulated", "v1")

    async def start(self, spec):
        if spec.id in self.states:
            return self.states[spec.id]
        if self.start_error is not None:
            raise self.start_error
        self.starts.append((spec.id, self.wall()))
        self.specs[spec.id], self.limits[spec.id] = spec, spec.limits
        state = ContainerState(
            spec.id,
            spec.pod_uid,
            spec.container,
            "running",
            pid=next(self._pids),
            start_ticks=1,
            started_at=self.wall(),
        )
        self.states[spec.id] = state
        self._tell(spec.id)
        ending = self.script(spec)
        if ending is not None:
            seconds, code = ending
            asyncio.get_running_loop().call_later(seconds, self.end, spec.id, code)
        return state

    def end(self, id, code, signal=None):
        state = self.states.get(id)
        if state is not None and state.state == "running":
            self.states[id] = replace(
                state, state="exited", finished_at=self.wall(), exit_code=code, signal=signal, oom_killed=False
            )
            self._tell(id)

    async def signal(self, id, number):
        self.signals.append((id, number))
        if self.obeys_sigterm:
            self.end(id, 143, number)

    async def kill(self, id):
        self.signals.append((id, 9))
        self.end(id, 137, 9)

    async def remove(self, id):
        assert self.states[id].state == "exited"
        del self.states[id]

    async def list(self):
        return list(self.states.values())

    async def apply(self, id, limits):
        self.applied.append((id, limits))
        if self.apply_error is not None:
            raise self.apply_error
        self.limits[id] = limits
        return limits

    async def read(self, id):
        return self.limits[id]

    async def changes(self):
        queue = asyncio.Queue()
        self._watchers.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.remove(queue)

    def _tell(self, id):
        for queue in self._watchers:
            queue.put_nowait(id)
