"""Laws of the admission plan, on nodes with a few Pods whose users change their minds at any moment."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.api import patches_strategic
from headrace.ledger.pods import charged, contribution
from headrace.node.admitted import held_to
from headrace.node.pod import view
from headrace.objects import schemas
from headrace.resize.plan import Candidate, Seen, admitted, desired, plan, wishes
from headrace.runtime.actions import Patch
from tests.resize.pods import ledger, pending, pod, record, resources

NOW = 1_800_000_000.0
sizes = st.tuples(st.integers(1, 40).map(lambda n: n * 100), st.integers(1, 40).map(lambda n: n * 64))
NAMES = ("web", "db", "job")


def performed(pods, actions):
    """The Pods after the plan's patches."""
    by_name = {each["metadata"]["name"]: each for each in pods}
    schema = schemas.bare()["io.k8s.api.core.v1.Pod"]
    for action in actions:
        if isinstance(action, Patch):
            before = copy.deepcopy(by_name[action.name])
            by_name[action.name] = patches_strategic.apply(
                before, dict(action.fields), schema, schemas.resolve_for_patch
            )
    return list(by_name.values())


def look(pods):
    return plan(Seen(ledger(*pods), tuple(Candidate(each) for each in pods), {}), NOW)


@given(st.lists(st.tuples(sizes, sizes, st.none() | sizes, st.integers(0, 3)), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_acting_on_a_plan_leaves_nothing_to_do(drawn):
    pods = [
        pod(f"pod-{number}", wanted, has, actual, priority=priority)
        for number, (wanted, has, actual, priority) in enumerate(drawn)
    ]
    after = performed(pods, look(pods))
    assert look(after) == ()


@given(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_a_plan_admits_no_more_than_there_is(drawn):
    """Where nothing is overfull before, nothing is after, all its admissions together."""
    pods = [pod(f"pod-{number}", wanted, has, has) for number, (wanted, has) in enumerate(drawn)]
    before = ledger(*pods).available()
    after = ledger(*performed(pods, look(pods))).available()
    assert all(after[name] >= 0 or after[name] >= before[name] for name in before)


@given(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_what_waits_would_not_fit(drawn):
    """Nobody is told to wait for room that is there when the plan is done."""
    pods = [pod(f"pod-{number}", wanted, has, has) for number, (wanted, has) in enumerate(drawn)]
    after = performed(pods, look(pods))
    books = ledger(*after)
    for each in after:
        if desired(each) != admitted(each):
            wish = copy.deepcopy(each)
            (status,) = wish["status"]["containerStatuses"]
            limits = each["spec"]["containers"][0]["resources"]["limits"]
            status["allocatedResources"] = dict(limits) | {f"limits.{name}": limits[name] for name in limits}
            wanted = contribution(wish).wish(contribution(each))
            held = books.holders[charged(each).holder]
            assert any(wanted[name] - held.get(name, 0) > books.room(name) for name in ("cpu", "memory"))


@given(st.lists(st.tuples(sizes, sizes, st.none() | sizes, st.booleans()), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_a_node_on_which_nobody_wishes_need_not_be_looked_at(drawn):
    pods = [
        pod(f"pod-{number}", wanted, has, actual, conditions=[pending()] if waits else [])
        for number, (wanted, has, actual, waits) in enumerate(drawn)
    ]
    acted_on = {action.name for action in look(pods)}
    assert acted_on <= {each["metadata"]["name"] for each in pods if wishes(each)}


class Resizing(RuleBasedStateMachine):
    """Users, the controller and the node's agent take turns; the agent may act on a version that it heard long ago."""

    def __init__(self):
        super().__init__()
        self.pods = [pod(name, (500, 256), (500, 256), (500, 256)) for name in NAMES]
        self.real = dict.fromkeys(NAMES, (500, 256))
        self.under_way = {}

    def _pod(self, name):
        return next(each for each in self.pods if each["metadata"]["name"] == name)

    @rule(name=st.sampled_from(NAMES), wanted=sizes)
    def a_user_asks(self, name, wanted):
        self._pod(name)["spec"]["containers"][0]["resources"] = resources(*wanted)
        self._pod(name)["metadata"]["generation"] += 1

    @rule()
    def the_controller_looks(self):
        self.pods = performed(self.pods, look(self.pods))

    @rule(name=st.sampled_from(NAMES))
    def the_agent_begins_to_apply(self, name):
        if name not in self.under_way:
            self.under_way[name] = self._held_to(name)

    @rule(name=st.sampled_from(NAMES))
    def the_agent_is_done_and_reads_back(self, name):
        size = self.under_way.pop(name, None)
        if size is not None:
            self.real[name] = size
            self._pod(name)["status"]["containerStatuses"][0]["resources"] = resources(*self.real[name])

    @rule(name=st.sampled_from(NAMES))
    def the_agent_fails(self, name):
        self.under_way.pop(name, None)

    @rule(name=st.sampled_from(NAMES))
    def the_agent_tells_what_it_has_seen(self, name):
        """As the agent does: of a growth that was taken back, only when no call that has begun can apply it yet."""
        if name not in self.under_way:
            pod = self._pod(name)
            pod["status"]["observedGeneration"] = pod["metadata"]["generation"]

    def _held_to(self, name):
        pod = self._pod(name)
        (main,) = view(pod).spec.containers
        limits = held_to(main, pod["status"]["containerStatuses"][0])
        return limits.cpu_milli, limits.memory_bytes // 2**20

    @invariant()
    def nothing_runs_beyond_what_the_books_hold(self):
        held = ledger(*self.pods).holders
        for name, (cpu, memory) in self.real.items():
            has = held[f"Pod default/{name}"]
            assert has["cpu"] >= cpu
            assert has["memory"] >= memory * 1024 * 1024
        for name, (cpu, memory) in self.under_way.items():
            assert held[f"Pod default/{name}"]["cpu"] >= cpu
            assert held[f"Pod default/{name}"]["memory"] >= memory * 1024 * 1024

    @invariant()
    def the_node_is_never_overcommitted(self):
        assert all(amount >= 0 for amount in ledger(*self.pods).available().values())


TestResizing = Resizing.TestCase
TestResizing.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_builders_agree():
    assert record(100, 64) == {"cpu": "100m", "memory": "64Mi", "limits.cpu": "100m", "limits.memory": "64Mi"}
