"""What the agent does next about a Pod: tables of states, and laws over all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.node.containers import Memory, Problem, Setup, container_id
from headrace.node.pods_plan import (
    Finish,
    Kill,
    Look,
    Remove,
    SetUp,
    Start,
    TearDown,
    Terminate,
    back_off_seconds,
    plan,
)
from tests.node.agent.builders import NOW, UID, a_pod, a_sidecar, after, exited, running, seen

IMAGE_ONLY = {"name": "main", "image": "trainer:latest"}


def the(name="main", attempt=0):
    return container_id(UID, name, attempt)


def asked(name="main", attempt=0, *, at):
    return {name: Memory(terminated={the(name, attempt): at})}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(seen(setup="needed"), (SetUp(),), id="volumes and devices come before the first container"),
        pytest.param(
            seen(setup=Setup("needed", Problem("FailedMount", "no", NOW - 0.5))),
            (Look(NOW + 1.5),),
            id="what could not be set up is tried again after a moment",
        ),
        pytest.param(seen(), (Start("main", 0, 0),), id="a container that never ran is started"),
        pytest.param(
            seen(setup=Setup("needed", Problem("FailedMount", "no", NOW - 0.5), failures=9)),
            (Look(NOW + 29.5),),
            id="and then less and less often",
        ),
        pytest.param(
            seen(memory={"main": Memory(problem=Problem("CreateContainerConfigError", "no", NOW - 3), failures=9)}),
            (Look(NOW + 7),),
            id="a missing ConfigMap is looked for every ten seconds",
        ),
        pytest.param(
            seen(a_pod(IMAGE_ONLY)), (), id="a container that names only an image waits for a change of heart"
        ),
        pytest.param(seen(a_pod(IMAGE_ONLY, "other")), (Start("other", 0, 0),), id="and holds nobody else back"),
        pytest.param(seen(None, running()), (), id="a running container is left alone"),
        pytest.param(
            seen(None, exited(at=NOW - 0.5), images=True),
            (Look(NOW + 1.5),),
            id="what an engine ran may be about to be started again by whoever stopped it",
        ),
        pytest.param(
            seen(None, exited(at=NOW - 2), images=True),
            (Start("main", 1, 1),),
            id="and when nobody has, it gets a successor",
        ),
        pytest.param(
            seen(None, running(attempt=0), running(attempt=1)),
            (Terminate("main", the(), "a newer one has taken its place"),),
            id="a former run that somebody has started again is stopped",
        ),
        pytest.param(
            seen(
                a_pod(terminationGracePeriodSeconds=5), running(attempt=0), running(attempt=1), memory=asked(at=NOW - 9)
            ),
            (Kill("main", the()),),
            id="and killed when its grace period is over",
        ),
        pytest.param(seen(None, exited()), (Start("main", 1, 1),), id="the first end is followed by a start at once"),
        pytest.param(
            seen(None, exited(attempt=1), memory={"main": after(1)}),
            (Look(NOW + 9),),
            id="the second end by one ten seconds after it",
        ),
        pytest.param(
            seen(None, exited(attempt=1, at=NOW - 10), memory={"main": after(1)}),
            (Start("main", 2, 2),),
            id="and that start comes when the ten seconds are over",
        ),
        pytest.param(
            seen(None, exited(attempt=9, ran=600), memory={"main": after(9)}),
            (Start("main", 10, 1),),
            id="ten minutes of running forgive what was before",
        ),
        pytest.param(
            seen(None, exited(attempt=3, at=NOW - 39)),
            (Look(NOW + 1),),
            id="an agent that has just started does not restart a crash loop faster",
        ),
        pytest.param(seen(a_pod(restartPolicy="Never"), exited()), (), id="Never means never"),
        pytest.param(seen(a_pod(restartPolicy="OnFailure"), exited(code=0)), (), id="OnFailure leaves a success"),
        pytest.param(
            seen(a_pod(restartPolicy="OnFailure"), exited(code=1)),
            (Start("main", 1, 1),),
            id="OnFailure restarts a failure",
        ),
        pytest.param(
            seen(None, memory={"main": Memory(problem=Problem("RunContainerError", "no", NOW - 3), failures=1)}),
            (Look(NOW + 7),),
            id="what could not be started is tried again after ten seconds",
        ),
        pytest.param(
            seen(a_pod(init=["first", "second"])), (Start("first", 0, 0),), id="init containers go one at a time"
        ),
        pytest.param(seen(a_pod(init=["first"]), running("first")), (), id="and the rest waits for them"),
        pytest.param(
            seen(a_pod(init=["first", "second"]), exited("first", 0)),
            (Start("second", 0, 0),),
            id="the second after the first has succeeded",
        ),
        pytest.param(
            seen(a_pod(init=["first"]), exited("first", 0)), (Start("main", 0, 0),), id="the Pod's own after the last"
        ),
        pytest.param(
            seen(a_pod(init=["first"], restartPolicy="Never"), exited("first", 1)),
            (),
            id="a failed init container ends a Pod that never restarts",
        ),
        pytest.param(
            seen(a_pod(init=["first"]), exited("first", 1)), (Start("first", 1, 1),), id="otherwise it runs again"
        ),
        pytest.param(
            seen(a_pod(init=[a_sidecar("side")]), running("side")),
            (Start("main", 0, 0),),
            id="a sidecar only has to have started",
        ),
        pytest.param(
            seen(a_pod(init=[a_sidecar("side")], restartPolicy="Never"), running("side"), exited(code=0)),
            (Terminate("side", the("side"), "the Pod's containers have finished"),),
            id="a sidecar ends when what it serves has ended",
        ),
        pytest.param(
            seen(a_pod(init=[a_sidecar("side")], restartPolicy="Never"), exited("side", 143), exited(code=0)),
            (),
            id="and is not started again",
        ),
        pytest.param(
            seen(a_pod(deleted=True), running()),
            (Terminate("main", the(), "the Pod is deleted"),),
            id="a deleted Pod's container gets SIGTERM",
        ),
        pytest.param(
            seen(a_pod(deleted=True), running(), memory=asked(at=NOW - 10)),
            (Look(NOW + 20),),
            id="and then its grace period",
        ),
        pytest.param(
            seen(a_pod(deleted=True), running(), memory=asked(at=NOW - 30)),
            (Kill("main", the()),),
            id="and then SIGKILL",
        ),
        pytest.param(
            seen(a_pod(deleted=True, grace=5), running(), memory=asked(at=NOW - 10)),
            (Kill("main", the()),),
            id="a shorter grace period asked for later counts",
        ),
        pytest.param(
            seen(
                a_pod(deleted=True),
                running(),
                memory={"main": Memory(terminated={the(): NOW - 40}, killed={the(): NOW - 0.25})},
            ),
            (Look(NOW + 0.75),),
            id="SIGKILL is not repeated at once",
        ),
        pytest.param(
            seen(a_pod(init=[a_sidecar("a"), a_sidecar("b")], deleted=True), running("a"), running("b"), running()),
            (Terminate("main", the(), "the Pod is deleted"),),
            id="sidecars outlive what they serve",
        ),
        pytest.param(
            seen(a_pod(init=[a_sidecar("a"), a_sidecar("b")], deleted=True), running("a"), running("b"), exited()),
            (Terminate("b", the("b"), "the Pod is deleted"),),
            id="and end in the reverse of their order",
        ),
        pytest.param(
            seen(a_pod(deleted=True), exited()), (TearDown(),), id="devices and volumes go after the last process"
        ),
        pytest.param(
            seen(a_pod(deleted=True), exited(), setup="torn down"),
            (Remove(the()), Finish()),
            id="and the object last of all",
        ),
        pytest.param(
            seen(a_pod(deleted=True), exited(), setup=Setup("ready", Problem("x", "no driver", NOW - 0.5))),
            (Look(NOW + 1.5),),
            id="the object stays while a device cannot be let go",
        ),
        pytest.param(
            seen(None, running(), gone=True),
            (Terminate("main", the(), "the Pod is deleted"),),
            id="what an object left behind is ended too",
        ),
        pytest.param(
            seen(a_pod(status={"phase": "Failed"}), running()),
            (Terminate("main", the(), "the Pod has ended"),),
            id="nothing runs in a Pod that has failed",
        ),
        pytest.param(
            seen(a_pod(status={"phase": "Succeeded"}), exited(code=0)),
            (TearDown(),),
            id="an ended Pod lets go of devices",
        ),
        pytest.param(
            seen(a_pod(status={"phase": "Succeeded"}), exited(code=0), setup="torn down"),
            (),
            id="and is kept until somebody deletes it",
        ),
        pytest.param(
            seen(a_pod(activeDeadlineSeconds=60, status={"startTime": "1970-01-01T02:45:00Z"}), running()),
            (Terminate("main", the(), "the Pod has ended"),),
            id="a Pod past its deadline is ended",
        ),
        pytest.param(
            seen(None, running(), memory={"main": Memory(judged=0, unhealthy="Liveness probe failed: no")}),
            (Terminate("main", the(), "Liveness probe failed: no"),),
            id="a container that is not alive is stopped to be restarted",
        ),
        pytest.param(
            seen(None, exited(attempt=1, at=NOW - 60), exited(attempt=2, at=NOW - 30), running(attempt=3)),
            (Remove(the(attempt=1)),),
            id="the run before the last is remembered, older ones are not",
        ),
    ],
)
def test_the_next_step(state, expected):
    assert plan(state, NOW) == expected


def test_the_back_off_doubles_up_to_five_minutes():
    assert [back_off_seconds(runs) for runs in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


names = st.sampled_from(["main", "other", "first", "side"])
states = st.lists(
    st.one_of(
        st.builds(running, names, st.integers(0, 3)),
        st.builds(exited, names, st.sampled_from([0, 1, 137]), st.integers(0, 3), at=st.floats(NOW - 900, NOW)),
    ),
    max_size=6,
    unique_by=lambda state: state.id,
)
pods = st.builds(
    a_pod,
    st.just("main"),
    st.just("other"),
    init=st.sampled_from([(), ("first",), (a_sidecar("side"),), ("first", a_sidecar("side"))]),
    deleted=st.booleans(),
    status=st.sampled_from([{}, {"phase": "Running"}, {"phase": "Failed"}]),
    restartPolicy=st.sampled_from(["Always", "OnFailure", "Never"]),
)
everything = st.builds(
    lambda pod, states, setup, gone: seen(
        pod, *(state for state in states if state.container in declared(pod)), setup=setup, gone=gone
    ),
    pods,
    states,
    st.sampled_from(["needed", "ready", "torn down"]),
    st.booleans(),
)


def declared(pod):
    return {each.name for each in (*pod.spec.init_containers, *pod.spec.containers)}


@given(everything)
def test_an_id_is_never_started_twice_and_nothing_is_started_beside_its_own_former_run(state):
    for action in plan(state, NOW):
        if isinstance(action, Start):
            of_container = [each for each in state.states if each.container == action.container]
            assert the(action.container, action.attempt) not in [each.id for each in of_container]
            newest = max(of_container, key=lambda each: int(each.id.rpartition("_")[2]), default=None)
            assert newest is None or newest.state == "exited"


@given(everything)
def test_nothing_starts_in_a_pod_that_ends(state):
    if state.gone or state.pod.deleted or state.pod.is_terminal:
        assert not [action for action in plan(state, NOW) if isinstance(action, Start | SetUp)]


@given(everything)
def test_nothing_is_let_go_while_anything_runs(state):
    if any(each.state == "running" for each in state.states):
        assert not [action for action in plan(state, NOW) if isinstance(action, TearDown | Finish)]


@given(everything)
def test_an_ending_pod_ends_in_a_bounded_number_of_steps(state):
    """Acting on the plan again and again, with processes that die only of SIGKILL, leaves nothing to do."""
    pod, memory, setup, now = a_pod("main", "other", init=["first"], deleted=True), {}, "ready", NOW
    alive = [each for each in state.states if each.container in declared(pod)]
    for _ in range(40):
        actions = plan(seen(pod, *alive, memory=memory, setup=setup), now)
        assert actions, "a deleted Pod always has a next step"
        for action in actions:
            match action:
                case Terminate(container, id, _):
                    known = memory.get(container, Memory())
                    memory[container] = Memory(terminated={**known.terminated, id: now}, killed=known.killed)
                case Kill(container, id):
                    dead = next(each for each in alive if each.id == id)
                    alive.remove(dead)
                    alive.append(exited(container, 137, int(id.rpartition("_")[2]), at=now))
                case Remove(id):
                    alive = [each for each in alive if each.id != id]
                case TearDown():
                    setup = "torn down"
                case Look(at):
                    now = max(now, at)
                case Finish():
                    assert not alive
                    return
    raise AssertionError("never finished")
