"""What to do next about one Pod, as a kubelet would: from the object, what runs, what is remembered and the time.

Pure: the executor carries the actions out and looks again; a plan made twice is harmless.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.api.times import from_time
from headrace.node.admitted import wants_restart
from headrace.node.containers import Memory, Problem, Run, Setup, is_started, runs_of
from headrace.node.pod import Container, Pod, is_sidecar
from headrace.node.runtimes.protocol import ContainerState

BACK_OFF_SECONDS = 10.0
LONGEST_BACK_OFF_SECONDS = 300.0
OTHERS_RESTART_SECONDS = 2.0  # an engine that others command too: within this they have restarted what they stopped
LONG_RUN_SECONDS = 600.0  # after it, the back-off starts from the beginning
SET_UP_RETRY_SECONDS = 2.0  # doubled with each failure
LONGEST_SET_UP_RETRY_SECONDS = 30.0
CONFIG_RETRY_SECONDS = 10.0  # a missing ConfigMap or Secret may appear at any time
KILL_AGAIN_SECONDS = 1.0
KEPT_RUNS = 2  # the current one and the one before, which `lastState` and `logs --previous` tell of

NO_COMMAND = "ImageNotSupported"
CONFIG_ERROR = "CreateContainerConfigError"
RESIZED_BY_RESTART = "its resizePolicy restarts it to be resized"


@dataclass(frozen=True, slots=True)
class Seen:
    """`gone`: the object exists no more, and what it ran must go too. Times are wall seconds that do not jump.

    `ended`: when a run's end was seen, by container id; without it, it is when the runtime says that it was.
    `runtime` is the name of the node's, and `images`: it runs images, so that no command is needed.
    """

    pod: Pod
    states: Sequence[ContainerState] = ()
    memory: Mapping[str, Memory] = field(default_factory=dict)
    setup: Setup = field(default_factory=Setup)
    gone: bool = False
    ended: Mapping[str, float] = field(default_factory=dict)
    runtime: str = "process"
    images: bool = False


@dataclass(frozen=True, slots=True)
class SetUp:
    """Volumes and devices, before the first container."""


@dataclass(frozen=True, slots=True)
class Start:
    container: str
    attempt: int
    short_runs: int


@dataclass(frozen=True, slots=True)
class Terminate:
    """SIGTERM to a container's main process, once for a run."""

    container: str
    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to all of a container's processes."""

    container: str
    id: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Forget a run of which nothing is told any more."""

    id: str


@dataclass(frozen=True, slots=True)
class TearDown:
    """Unprepare devices, remove volumes: nothing of the Pod runs any more."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Delete the object for good (it is marked deleted), or forget the Pod whose object is gone."""


@dataclass(frozen=True, slots=True)
class Look:
    """Nothing to do before this wall time unless something changes."""

    at: float


Action = SetUp | Start | Terminate | Kill | Remove | TearDown | Finish | Look


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    """Actions in order. An empty plan means: wait for a change."""
    pod = seen.pod
    if seen.gone or pod.deleted or pod.is_terminal or past_deadline(pod, now):
        return _ending(seen, now)
    if seen.setup.state != "ready":
        at = _next_set_up(seen.setup)
        return (Look(at),) if now < at else (SetUp(),)
    return (*_running(seen, now), *_forget(seen))


def past_deadline(pod: Pod, now: float) -> bool:
    """activeDeadlineSeconds counts from status.startTime."""
    seconds, started = pod.spec.active_deadline_seconds, pod.status.get("startTime")
    return seconds is not None and bool(started) and now >= from_time(str(started)) + seconds


def unsupported(container: Container, images: bool) -> Problem | None:
    """What this runtime can never start, whatever is tried again."""
    if not container.command and not images:
        return Problem(
            NO_COMMAND,
            f'container "{container.name}" names only the image "{container.image}": the process runtime of this node '
            "runs commands of the machine and no images; set `command`",
        )
    return None


def back_off_seconds(short_runs: int) -> float:
    """Before the next start: none at first, then 10 s, doubling up to 5 min."""
    return min(LONGEST_BACK_OFF_SECONDS, BACK_OFF_SECONDS * 2.0 ** (short_runs - 1)) if short_runs else 0.0


def short_runs(run: Run, memory: Memory) -> int:
    """Starts in a row since the last long run, this one included; it counts once this run has ended."""
    known = run.attempt if memory.short_runs is None else memory.short_runs
    return 0 if not run.lost and run.seconds >= LONG_RUN_SECONDS else known


def restarts(container: Container, pod: Pod, run: Run) -> bool:
    """Whether a run that has ended is followed by another."""
    if is_sidecar(container, pod):
        return True
    if pod.spec.restart_policy == "Always":
        return container not in pod.spec.init_containers or not run.succeeded
    return pod.spec.restart_policy == "OnFailure" and not run.succeeded


def next_start(container: Container, seen: Seen) -> tuple[int, int, float]:
    """Attempt, short runs before it, and the earliest wall time of a container's next start."""
    memory = seen.memory.get(container.name, Memory())
    runs = runs_of(seen.pod, container.name, seen.states)
    attempt, count, at = 0, 0, 0.0
    if runs:
        last = runs[-1]
        if wants_restart(container, seen.pod.container_status(container.name), last.state.id):
            return last.attempt + 1, short_runs(last, memory), 0.0  # asked for, not a failure
        count = short_runs(last, memory)
        pause = max(back_off_seconds(count), OTHERS_RESTART_SECONDS if seen.images else 0.0)
        attempt, at = last.attempt + 1, seen.ended.get(last.state.id, last.state.finished_at or 0.0) + pause
        count += 1
    if memory.problem is not None:
        waits_for_config = memory.problem.reason == CONFIG_ERROR
        pause = CONFIG_RETRY_SECONDS if waits_for_config else back_off_seconds(memory.failures)
        at = max(at, memory.problem.at + pause)
    return attempt, count, at


def _next_set_up(setup: Setup) -> float:
    """When volumes and devices may be tried again; 0: now."""
    if setup.problem is None:
        return 0.0
    doublings = min(setup.failures - 1, 10)
    return setup.problem.at + min(LONGEST_SET_UP_RETRY_SECONDS, SET_UP_RETRY_SECONDS * 2.0**doublings)


def _running(seen: Seen, now: float) -> list[Action]:
    """Init containers one after the other, sidecars beside them, then the containers proper."""
    pod = seen.pod
    actions: list[Action] = []
    for container in pod.spec.init_containers:
        runs = runs_of(pod, container.name, seen.states)
        last = runs[-1] if runs else None
        if last is not None and last.succeeded and not is_sidecar(container, pod):
            continue
        actions += _converge(container, seen, now)
        begun = is_started(container, last, seen.memory.get(container.name, Memory()))
        if not (is_sidecar(container, pod) and begun):
            return actions
    for container in pod.spec.containers:
        actions += _converge(container, seen, now)
    if _finished(seen):
        actions += _stop_in_order(seen, now, "the Pod's containers have finished")
    return actions


def _converge(container: Container, seen: Seen, now: float) -> list[Action]:
    return [*_superseded(container, seen, now), *_newest(container, seen, now)]


def _superseded(container: Container, seen: Seen, now: float) -> list[Action]:
    """Somebody has started a former run again beside the one that took its place: nothing is charged for both."""
    memory = seen.memory.get(container.name, Memory())
    former = runs_of(seen.pod, container.name, seen.states)[:-1]
    why = "a newer one has taken its place"
    grace = seen.pod.grace_seconds
    return [
        action for run in former if run.is_running for action in _stop(container.name, run, memory, grace, why, now)
    ]


def _newest(container: Container, seen: Seen, now: float) -> list[Action]:
    pod = seen.pod
    runs = runs_of(pod, container.name, seen.states)
    last = runs[-1] if runs else None
    memory = seen.memory.get(container.name, Memory())
    if last is not None and last.is_running:
        if memory.unhealthy and memory.judged == last.attempt:
            return _stop(container.name, last, memory, pod.grace_seconds, memory.unhealthy, now)
        if wants_restart(container, pod.container_status(container.name), last.state.id):
            return _stop(container.name, last, memory, pod.grace_seconds, RESIZED_BY_RESTART, now)
        return []
    if last is not None and (not restarts(container, pod, last) or _sidecars_are_done(container, seen)):
        return []
    if unsupported(container, seen.images) is not None:
        return []
    attempt, count, at = next_start(container, seen)
    return [Look(at)] if now < at else [Start(container.name, attempt, count)]


def _finished(seen: Seen) -> bool:
    """Every container proper has ended and none is started again."""
    pod = seen.pod
    for container in pod.spec.containers:
        runs = runs_of(pod, container.name, seen.states)
        if not runs or runs[-1].is_running or restarts(container, pod, runs[-1]):
            return False
    return True


def _sidecars_are_done(container: Container, seen: Seen) -> bool:
    return is_sidecar(container, seen.pod) and _finished(seen)


def _ending(seen: Seen, now: float) -> tuple[Action, ...]:
    """Stop all, clean up when nothing runs, and let the object go if it is marked deleted."""
    pod = seen.pod
    stopping = _stop_in_order(seen, now, "the Pod is deleted" if pod.deleted or seen.gone else "the Pod has ended")
    if stopping:
        return tuple(stopping)
    if seen.setup.state != "torn down":
        at = _next_set_up(seen.setup)
        return (Look(at),) if now < at else (TearDown(),)
    if seen.gone or pod.deleted:
        return (*(Remove(state.id) for state in seen.states), Finish())
    return tuple(_forget(seen))


def _stop_in_order(seen: Seen, now: float, why: str) -> list[Action]:
    """Containers proper and plain init containers at once, then sidecars, the last one first."""
    sidecars = [container.name for container in seen.pod.spec.init_containers if is_sidecar(container, seen.pod)]
    alive = [state for state in seen.states if state.state == "running"]
    others = [state for state in alive if state.container not in sidecars]
    if not others and alive:
        alive.sort(key=lambda state: sidecars.index(state.container))
        others = alive[-1:]
    actions: list[Action] = []
    for state in others:
        memory = seen.memory.get(state.container, Memory())
        run = Run(0, state)
        actions += _stop(state.container, run, memory, seen.pod.grace_seconds, why, now)
    return actions


def _stop(container: str, run: Run, memory: Memory, grace: float, why: str, now: float) -> list[Action]:
    """SIGTERM once, SIGKILL when the grace period is over, and again every second until it is dead."""
    id = run.state.id
    asked = memory.terminated.get(id)
    if grace <= 0 or (asked is not None and now >= asked + grace):
        again = memory.killed.get(id, 0.0) + KILL_AGAIN_SECONDS
        return [Look(again)] if now < again else [Kill(container, id)]
    if asked is None:
        return [Terminate(container, id, why)]
    return [Look(asked + grace)]


def _forget(seen: Seen) -> list[Action]:
    """Runs older than the ones that are told of."""
    names = {state.container for state in seen.states}
    old: list[Action] = []
    for name in sorted(names):
        runs = runs_of(seen.pod, name, seen.states)
        old += [Remove(run.state.id) for run in runs[:-KEPT_RUNS] if not run.is_running and not run.lost]
    return old
