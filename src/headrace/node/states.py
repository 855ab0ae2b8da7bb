"""What the runtime says runs here, by Pod: read again whenever it tells of a change, never guessed."""

from collections.abc import Callable, Iterable

from headrace.node.containers import pod_uid_of
from headrace.node.runtimes.protocol import ContainerState, Runtime


class States:
    """`changed` is told the uid of each Pod whose containers changed."""

    def __init__(self, runtime: Runtime, changed: Callable[[str], None]) -> None:
        self._runtime, self._changed = runtime, changed
        self._states: dict[str, dict[str, ContainerState]] = {}
        self._since: dict[str, ContainerState | None] = {}  # put or dropped while the runtime is read

    def of(self, pod_uid: str) -> tuple[ContainerState, ...]:
        return tuple(self._states.get(pod_uid, {}).values())

    def pods(self) -> Iterable[str]:
        return tuple(self._states)

    def put(self, state: ContainerState) -> None:
        self._since[state.id] = state
        self._states.setdefault(state.pod_uid, {})[state.id] = state

    def drop(self, id: str) -> None:
        self._since[id] = None
        of_pod = self._states.get(pod_uid_of(id), {})
        of_pod.pop(id, None)
        if not of_pod:
            self._states.pop(pod_uid_of(id), None)

    async def refresh(self) -> None:
        """Read everything anew; tells of every Pod that looks different. Not twice at once.

        The runtime may have looked before what was put or dropped meanwhile: a start must not be forgotten.
        """
        self._since.clear()
        found = {state.id: state for state in await self._runtime.list()}
        for id, state in self._since.items():
            if state is None:
                found.pop(id, None)
            else:
                found.setdefault(id, state)
        fresh: dict[str, dict[str, ContainerState]] = {}
        for state in found.values():
            fresh.setdefault(state.pod_uid, {})[state.id] = state
        before, self._states = self._states, fresh
        for uid in before.keys() | fresh.keys():
            if before.get(uid) != fresh.get(uid):
                self._changed(uid)

    async def follow(self) -> None:
        """Until cancelled."""
        async for _ in self._runtime.changes():
            await self.refresh()
