"""Runs one Pod: look, plan, do, and when there is nothing more to do, report and wait for a change.

Decisions are `pods_plan`'s and `pod_status`'s; this carries them out, one thing after the other.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from structlog.typing import FilteringBoundLogger

from headrace.api.cdi import InvalidCdi
from headrace.api.kinds import POD
from headrace.node import sources, volumes
from headrace.node.actuator import Actuators, Told
from headrace.node.admitted import admitted, desired, held_to, is_given_back, reported, wants_restart
from headrace.node.aside import Aside
from headrace.node.containers import Memory, Problem, Setup, attempt_of, container_id, runs_of
from headrace.node.devices import Devices
from headrace.node.driver_client import DeviceProblem, DriverGone
from headrace.node.environment import Source, Surroundings, Unresolved, references
from headrace.node.keeper.launch import KeeperFailed
from headrace.node.launch import container_spec, pod_directory, prune_logs
from headrace.node.pod import Pod, view
from headrace.node.pod_status import UNPREPARE_FAILED, Resources, change, wanted
from headrace.node.pods_plan import (
    CONFIG_ERROR,
    NO_COMMAND,
    Action,
    Finish,
    Kill,
    Look,
    Remove,
    Seen,
    SetUp,
    Start,
    TearDown,
    Terminate,
    plan,
)
from headrace.node.probes import Probes
from headrace.node.runtimes.protocol import (
    ContainerState,
    Executes,
    PullSecret,
    Releases,
    Runtime,
    RuntimeUnavailable,
    StartFailed,
)
from headrace.node.states import States
from headrace.runtime.actions import Event
from headrace.runtime.clock import Clock
from headrace.runtime.events import Recorder
from headrace.store.protocol import (
    Conflict,
    Deletion,
    Forbidden,
    NotFound,
    Preconditions,
    Store,
    StoreError,
    Unavailable,
)

SIGTERM = 15
SETTLE_SECONDS = 0.25  # a change of limits usually takes less: it is then reported with one write, not two
JUST_SEEN = frozenset({"observedGeneration", "conditions"})  # fields of a report that only says that a spec was read
REFRESH_SECONDS = 60.0  # how soon a changed ConfigMap or Secret reaches a volume
RETRY_SECONDS = 2.0
VOLUME_SECONDS = 120.0  # a kubelet's patience with volumes
PULL_FAILED = "ErrImagePull"
ARRIVAL_SECONDS = 5.0  # a driver that starts with its agent has not registered yet: no event tells of it so soon
HURRIED = 0.0  # when a problem is said to have been seen, so that it is looked at again now
ABANDON = "headrace.dev/abandon-devices"  # annotation of a Pod: "true" lets it go without drivers that are gone
ROUNDS = 100  # of looking and acting, before somebody else has a turn


@dataclass(frozen=True, slots=True)
class Means:
    """What a worker works with; one for all workers of an agent. `directory` holds what Pods have on this machine."""

    store: Store
    runtime: Runtime
    states: States
    actuators: Actuators
    devices: Devices
    recorder: Recorder
    clock: Clock
    log: FilteringBoundLogger
    directory: Path
    cdi_directory: Path
    address: str
    abandon_seconds: float
    allocatable: Callable[[], Mapping[str, str]]


class PodWorker:
    """`run` ends when the Pod is gone and nothing of it is left."""

    def __init__(self, pod: Pod, means: Means) -> None:
        self.pod, self.is_gone, self.is_finished = pod, False, False
        self.confirmed = False  # this worker itself deleted the object
        self._means = means
        self._memory: dict[str, Memory] = {}
        self._held: set[str] = set()  # containers with an actuator
        self._setup, self._aside = Setup(), Aside()
        self._refreshed = self._offered = 0.0
        self._said = ""  # of the problem of volumes and devices, in the latest event
        self._missing: float | None = None  # since when a driver that is to prepare devices is not there
        self._without_driver: float | None = None  # since when a driver that is gone keeps the Pod from ending
        self._alive: set[str] = set()  # containers that were last seen running
        self._begun: dict[str, int] = {}  # container id: the process that was last seen in it
        self._ended: dict[str, float] = {}  # container id: when it ended, by our time
        self._epoch = means.clock.wall() - means.clock.monotonic()
        self._wake = asyncio.Event()
        self._log = means.log.bind(pod=pod.key)
        inside = means.runtime if isinstance(means.runtime, Executes) else None
        self._probes = Probes(self._judge, means.clock, means.address, inside)

    def _now(self) -> float:
        """Wall seconds that do not jump: a clock that is put back must not prolong anybody's grace period."""
        return self._epoch + self._means.clock.monotonic()

    def offer(self, pod: Pod) -> None:
        """A version of the object that the watch told, or an answer to our own write."""
        if pod.version > self.pod.version:
            self.pod, self._offered = pod, self._now()
            self._aim()
            self.hurry()

    def _aim(self) -> None:
        """At once, beside whatever this worker is at: limits wait for no probe, no pull and no answer to a report."""
        states = self._means.states.of(self.pod.uid) if self._held else ()
        for container in (*self.pod.spec.init_containers, *self.pod.spec.containers):
            runs = runs_of(self.pod, container.name, states)
            actuator = self._means.actuators.get(runs[-1].state.id) if runs and runs[-1].is_running else None
            status = self.pod.container_status(container.name)
            if actuator is not None and not wants_restart(container, status, actuator.id):
                actuator.aim(held_to(container, status), self.pod.version)

    def hurry(self) -> None:
        """Something changed that volumes or devices may have waited for."""
        if self._setup.problem is not None:
            self._setup = replace(self._setup, problem=replace(self._setup.problem, at=HURRIED))
        self._wake.set()

    def gone(self) -> None:
        self.is_gone = True
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        while not self.is_finished:
            self._wake.clear()
            try:
                until = await self._step()
            except (StoreError, RuntimeUnavailable, KeeperFailed) as error:
                self._log.warning("looking again", error=str(error))
                until = self._now() + RETRY_SECONDS
            except Exception:  # one Pod's trouble is not the others'
                self._log.exception("looking again")
                until = self._now() + RETRY_SECONDS
            await self._wait(until)
        self._probes.stop()
        self._release(tuple(self._held))

    async def _wait(self, until: float | None) -> None:
        if self.is_finished or self._wake.is_set():
            return
        pause = REFRESH_SECONDS if until is None else max(0.01, until - self._now())
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wake.wait()

    async def _step(self) -> float | None:
        """Act until there is nothing to do now; answers when to look again."""
        for _ in range(ROUNDS):
            seen, now = self._see(), self._now()
            self._release(each.id for each in seen.states if each.state == "exited")
            actions = plan(seen, now)
            doing = [action for action in actions if not isinstance(action, Look)]
            again = [action.at for action in actions if isinstance(action, Look)]
            if (not doing or isinstance(doing[-1], Finish)) and (held_back := await self._report(seen)) is not None:
                again.append(held_back)
            if not doing:
                await self._refresh_volumes(now)
                return min(again, default=None)
            for action in doing:
                await self._perform(action)
            if self.is_finished:
                return None
        return self._now() + RETRY_SECONDS  # whatever keeps it busy: others have their turn

    def _release(self, ended: Iterable[str]) -> None:
        for id in self._held.intersection(ended):
            self._means.actuators.release(id)
            self._held.remove(id)

    def _see(self) -> Seen:
        states = self._means.states.of(self.pod.uid)
        self._ended = {each.id: self._end_of(each) for each in states if each.state == "exited"}
        self._alive = {each.id for each in states if each.state == "running"}
        self._look_for_restarts(states)
        can = self._means.runtime.capabilities()
        memory = dict(self._memory)
        return Seen(self.pod, states, memory, self._setup, self.is_gone, self._ended, can.name, can.images)

    def _look_for_restarts(self, states: Iterable[ContainerState]) -> None:
        """The same container, another process: somebody restarted it, and it has the limits of its creation again."""
        for each in states:
            if each.state != "running":
                continue
            actuator = self._means.actuators.get(each.id)
            if actuator is not None and self._begun.get(each.id, each.pid) != each.pid:
                said = f"container {each.container} was restarted by somebody else: {actuator.limits} are put back"
                self._event("Normal", "ResizeRestored", said)
                actuator.look()
            self._begun[each.id] = each.pid

    def _end_of(self, state: ContainerState) -> float:
        """When we saw it end; for what ended before we looked, when the runtime says that it did, but never later."""
        now = self._now()
        said = now if state.id in self._alive or state.finished_at is None else min(now, state.finished_at)
        return self._ended.get(state.id, said)

    async def _perform(self, action: Action) -> None:
        match action:
            case SetUp():
                await self._set_up()
            case Start():
                await self._start(action)
            case Terminate(container, id, _) | Kill(container, id) if self._lets_go(id):
                self._event("Normal", "Released", f"Let go of the adopted container {container}: it runs on")
            case Terminate(container, id, why):
                self._event("Normal", "Killing", f"Stopping container {container}: {why}")
                await self._means.runtime.signal(id, SIGTERM)
                memory = self._of(container)
                self._memory[container] = replace(memory, terminated={**memory.terminated, id: self._now()})
            case Kill(container, id):
                await self._means.runtime.kill(id)
                memory = self._of(container)
                self._memory[container] = replace(memory, killed={**memory.killed, id: self._now()})
            case Remove(id):
                await self._means.runtime.remove(id)
                self._means.states.drop(id)
            case TearDown():
                await self._tear_down()
            case Finish():
                await self._finish()
            case Look():
                pass

    def _lets_go(self, id: str) -> bool:
        runtime = self._means.runtime
        if not isinstance(runtime, Releases) or not runtime.release(id):
            return False
        self._means.states.drop(id)
        return True

    # Before and after containers

    async def _set_up(self) -> None:
        try:
            await self._fill_volumes()
            await self._means.devices.prepare(self.pod)
        except Unavailable:
            raise
        except (Unresolved, OSError, StoreError) as error:  # such as Forbidden
            self._problem("FailedMount", str(error))
        except DriverGone as gone:
            now = self._now()
            self._missing = self._missing or now
            self._problem("FailedPrepareDynamicResources", str(gone), is_told=now >= self._missing + ARRIVAL_SECONDS)
        except DeviceProblem as error:
            self._problem("FailedPrepareDynamicResources", str(error))
        else:
            self._setup = Setup("ready")

    def _problem(self, reason: str, message: str, is_told: bool = True) -> None:
        """In the Pod's status at once; in an event once, when it `is_told`."""
        known = self._setup.problem
        if is_told and (known is None or self._said != message):
            self._event("Warning", reason, message)
        self._said = message if is_told else ""
        # A try that something hurried does not make the next one later: many changes may come in one second.
        failures = 1 if known is None else self._setup.failures + (known.at != HURRIED)
        problem = Problem(reason, message, self._now())
        self._setup = replace(self._setup, problem=problem, failures=failures)

    async def _fill_volumes(self) -> None:
        needed = volumes.references(self.pod)
        around = await self._surroundings(needed)
        if self.pod.spec.volumes:  # paths of the machine may lie where nothing answers
            await self._aside.call(partial(volumes.set_up, self.pod, self._volumes, around), VOLUME_SECONDS)
        self._refreshed = self._now()

    async def _refresh_volumes(self, now: float) -> None:
        if self._setup.state != "ready" or now < self._refreshed + REFRESH_SECONDS or not volumes.references(self.pod):
            return
        try:
            await self._fill_volumes()
        except (Unresolved, OSError) as error:  # what is shown stays as it was
            self._refreshed = now
            self._event("Warning", "FailedMount", str(error))

    async def _surroundings(self, needed: set[Source]) -> Surroundings:
        found = await sources.read(self._means.store, self.pod.namespace, needed)
        return Surroundings(found, self._means.address, self._means.allocatable())

    async def _tear_down(self) -> None:
        try:
            await self._release_devices()
            await asyncio.to_thread(volumes.tear_down, self._volumes)
        except (DeviceProblem, OSError) as error:
            self._problem(UNPREPARE_FAILED, str(error))
        else:
            self._setup = Setup("torn down")

    async def _release_devices(self) -> None:
        """With what a driver that is gone leaves to do, a Pod is let go after a time, or when an operator says so."""
        try:
            await self._means.devices.release(self.pod.uid)
        except DriverGone as gone:
            now, longest = self._now(), self._means.abandon_seconds
            self._without_driver = self._without_driver or now
            annotations = self.pod.object["metadata"].get("annotations") or {}
            if now < self._without_driver + longest and annotations.get(ABANDON) != "true":
                raise DriverGone(
                    gone.driver,
                    f"{gone}; the Pod waits for driver {gone.driver} at most {longest:.0f} s, or until it is annotated "
                    f"{ABANDON}=true",
                ) from None
            self._event("Warning", "DevicesAbandoned", f"{gone}: its devices are unprepared when it is back")
            await self._means.devices.abandon(self.pod.uid)

    async def _finish(self) -> None:
        await asyncio.to_thread(volumes.tear_down, self._directory)
        if not self.is_gone:
            deletion = Deletion(preconditions=Preconditions(uid=self.pod.uid), grace_seconds=0)
            with suppress(NotFound):
                self.confirmed = True
                await self._means.store.delete(POD, self.pod.name, self.pod.namespace, deletion)
        self.is_finished = True

    # Containers

    async def _start(self, action: Start) -> None:
        container = self.pod.container(action.container)
        limits = held_to(container, self.pod.container_status(container.name))
        try:
            around = await self._surroundings(references(container))
            images = self._means.runtime.capabilities().images
            make = partial(
                container_spec,
                self.pod,
                container,
                container_id(self.pod.uid, container.name, action.attempt),
                around,
                limits=limits,
                root=self._means.directory,
                cdi_directory=self._means.cdi_directory,
                cdi_names=self._means.devices.cdi_names(self.pod, container),
                images=images,
                pull_secrets=await self._pull_secrets() if images else (),
            )
            spec = await self._aside.call(make, VOLUME_SECONDS) if container.volume_mounts else make()
            state = await self._means.runtime.start(spec)
        except Unresolved as error:
            self._cannot_start(action, error.problem(self._now()))
        except Forbidden as error:
            self._cannot_start(action, Problem(CONFIG_ERROR, str(error), self._now()))
        except (InvalidCdi, DeviceProblem) as error:
            self._cannot_start(action, Problem("CreateContainerError", str(error), self._now()))
        except StartFailed as error:
            self._cannot_start(action, Problem(error.reason, str(error), self._now()))
        except OSError as error:
            self._cannot_start(action, Problem("RunContainerError", str(error), self._now()))
        else:
            self._memory[container.name] = Memory(short_runs=action.short_runs)
            self._means.states.put(state)
            prune_logs(self._means.directory, spec.id)
            self._event("Normal", "Started", f"Started container {container.name}")
            for hook in container.lifecycle or ():
                if hook in ("postStart", "preStop"):
                    said = (
                        f"container {container.name}: lifecycle.{hook} is not supported by this node and is never run"
                    )
                    self._event("Warning", "LifecycleHookNotSupported", said)

    async def _pull_secrets(self) -> Sequence[PullSecret]:
        names = [str(each["name"]) for each in self.pod.spec.image_pull_secrets if each.get("name")]
        found, missing = await sources.pull_secrets(self._means.store, self.pod.namespace, names)
        if missing:
            said = f"Unable to retrieve some image pull secrets ({', '.join(missing)})"
            self._event(
                "Warning", "FailedToRetrieveImagePullSecret", f"{said}; attempting to pull the image may not succeed."
            )
        return found

    def _cannot_start(self, action: Start, problem: Problem) -> None:
        memory = self._of(action.container)
        if memory.problem is None or memory.problem.message != problem.message:
            self._event("Warning", "Failed", f"Error: {problem.message}")
        if problem.reason == PULL_FAILED and memory.failures:
            image = self.pod.container(action.container).image
            problem = replace(problem, reason="ImagePullBackOff", message=f'Back-off pulling image "{image}"')
        self._memory[action.container] = replace(memory, problem=problem, failures=memory.failures + 1)

    def _judge(self, id: str, *, ready: bool | None = None, started: bool | None = None, unhealthy: str = "") -> None:
        """A probe's verdict on a running container."""
        name, attempt = id.rsplit("_", 2)[1], attempt_of(id)
        memory = self._of(name)
        if memory.judged != attempt:
            memory = replace(memory, judged=attempt, ready=False, started=False, unhealthy="")
        if ready is not None:
            memory = replace(memory, ready=ready)
        if started is not None:
            memory = replace(memory, started=started)
        if unhealthy:
            self._event("Warning", "Unhealthy", unhealthy)
            memory = replace(memory, unhealthy=unhealthy)
        if memory != self._memory.get(name):
            self._memory[name] = memory
            self._wake.set()

    def _of(self, container: str) -> Memory:
        return self._memory.get(container, Memory())

    # What is told

    async def _report(self, seen: Seen) -> float | None:
        """One write, of what is not told yet; or when to tell it."""
        if seen.gone:  # nobody is left to tell, and nothing is known any more of what its containers were admitted
            return None
        actual, resizing = await self._converge(seen)
        stamp = self._means.clock.wall()
        status = wanted(seen, actual, resizing, self._means.address, self._now(), stamp)
        if self._may_still_grow(seen):
            status["observedGeneration"] = seen.pod.status.get("observedGeneration")
        for container, told in zip(seen.pod.spec.containers, status["containerStatuses"], strict=True):
            if health := self._means.devices.allocated_status(seen.pod, container):
                told["allocatedResourcesStatus"] = health
        fields = change(seen.pod, status, stamp)
        if fields is None:
            return None
        if fields.keys() <= JUST_SEEN and _is_undecided(seen.pod) and self._now() < self._offered + SETTLE_SECONDS:
            return self._offered + SETTLE_SECONDS  # told with what comes of it, not in the way of the decision
        body = {"metadata": {"uid": seen.pod.uid}, "status": fields}
        store, name, namespace = self._means.store, seen.pod.name, seen.pod.namespace
        with suppress(NotFound):
            try:
                answer = await store.patch(
                    POD,
                    name,
                    namespace,
                    fields=body,
                    # A late copy of an old report must not pass for what is so: a shrink is admitted on its strength.
                    version=str(seen.pod.version),
                    subresource="status",
                    strategic=True,
                )
            except Conflict:
                self.offer(view(await store.get(POD, name, namespace)))
                self._wake.set()
                return None
            self.offer(view(answer))
            self._tell_waiting(fields)
        return None

    def _tell_waiting(self, fields: Mapping[str, Any]) -> None:
        """An event for what people should see: a container that waits for more than its turn."""
        for status in (*fields.get("initContainerStatuses", ()), *fields.get("containerStatuses", ())):
            waiting = (status.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") == NO_COMMAND:
                self._event("Warning", NO_COMMAND, waiting["message"])
            elif waiting.get("reason") == "CrashLoopBackOff":
                self._event("Warning", "BackOff", waiting["message"].replace("back-off", "Back-off", 1))

    async def _converge(self, seen: Seen) -> tuple[Resources, Problem | None]:
        """Aim an actuator at each running container; what they read back, and the resize under way if there is one."""
        actual: dict[str, dict[str, dict[str, str]]] = {}
        resizing: Problem | None = None
        for container in (*seen.pod.spec.init_containers, *seen.pod.spec.containers):
            runs = runs_of(seen.pod, container.name, seen.states)
            if not runs or not runs[-1].is_running:
                continue
            whole = msgspec.structs.replace(container, security_context=seen.pod.security_of(container))
            self._probes.watch(whole, runs[-1].state)
            status = seen.pod.container_status(container.name)
            limits = held_to(container, status)
            if wants_restart(container, status, runs[-1].state.id):
                resizing = resizing or Problem("", "")
                continue  # it keeps what it has until it has ended
            self._held.add(runs[-1].state.id)
            actuator = self._means.actuators.hold(runs[-1].state.id, limits, seen.pod.version, self._told)
            if not actuator.is_converged and actuator.problem is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SETTLE_SECONDS):
                        await actuator.passed()
            if actuator.actual is not None:
                actual[container.name] = reported(container, status, actuator.actual)
            if not actuator.is_converged or actuator.problem is not None:
                resizing = actuator.problem or resizing or Problem("", "")
        return actual, resizing

    def _may_still_grow(self, seen: Seen) -> bool:
        """Whether a growth that was taken back might be applied yet, by a call that has begun: then this generation is
        not told as seen, because on its strength the growth is given back.
        """
        for container in (*seen.pod.spec.init_containers, *seen.pod.spec.containers):
            runs = runs_of(seen.pod, container.name, seen.states)
            actuator = self._means.actuators.get(runs[-1].state.id) if runs and runs[-1].is_running else None
            status = seen.pod.container_status(container.name)
            if actuator is None or not is_given_back(container, status):
                continue
            if not actuator.is_converged or actuator.limits != held_to(container, status):
                return True
        return False

    def _told(self, told: Told) -> None:
        if told.drifted:
            self._event("Warning", "ResourceDrift", f"container {told.id.rsplit('_', 2)[1]}: {told.drifted}")
        self._wake.set()

    def _event(self, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._means.recorder.record(Event(POD, self.pod.namespace, self.pod.name, self.pod.uid, type, reason, message))

    @property
    def _directory(self) -> Path:
        return pod_directory(self._means.directory, self.pod.uid)

    @property
    def _volumes(self) -> Path:
        return self._directory / "volumes"


def _is_undecided(pod: Pod) -> bool:
    """Whether a resize was asked for that is not admitted."""
    return any(
        desired(each) != admitted(each, pod.container_status(each.name))
        for each in (*pod.spec.init_containers, *pod.spec.containers)
    )
