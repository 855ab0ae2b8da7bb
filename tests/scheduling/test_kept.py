"""The order of nodes that is kept for a sort of Pods is what asking every node anew would give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduling.filters import Wanted, host_ports
from headrace.scheduling.kept import Kept, offers_of
from headrace.scheduling.plan import Placement, best_of
from headrace.scheduling.view import View

NODES = [f"n{number}" for number in range(4)]


class Told:
    """An informer's readers' side: what it knows, and who is told of changes."""

    def __init__(self):
        self.objects, self.handlers = {}, []

    def subscribe(self, handler):
        self.handlers.append(handler)

    def get(self, key):
        return self.objects.get(key)

    def __iter__(self):
        return iter(self.objects.values())

    def tell(self, key, after):
        before = self.objects.pop(key, None)
        if after is not None:
            self.objects[key] = after
        if before is not None or after is not None:
            for handler in self.handlers:
                handler(before, after)


class World:
    def __init__(self):
        self.nodes, self.pods, self.reservations = Told(), Told(), Told()
        self.view = View(self.nodes, self.pods, Told(), Told(), Told(), self.reservations, Told())
        self.kept = Kept(self.view)

    def node(self, name, cpu, tainted=False):
        spec = {"taints": [{"key": "t", "effect": "NoSchedule"}]} if tainted else {}
        capacity = {"cpu": str(cpu), "memory": "8Gi", "pods": "10"}
        node = {"metadata": {"name": name}, "spec": spec, "status": {"capacity": capacity, "allocatable": capacity}}
        self.nodes.tell(name, node if cpu else None)

    def pod(self, name, node, cpu):
        key = f"default/{name}"
        container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
        pod = {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"nodeName": node, "containers": [container]},
        }
        self.pods.tell(key, pod if node else None)

    def reservation(self, name, node, cpu):
        spec = {"node": node, "resources": {"cpu": str(cpu)}}
        self.reservations.tell(name, {"metadata": {"name": name}, "spec": spec} if cpu else None)


names = st.sampled_from(NODES)
events = st.one_of(
    st.tuples(st.just("node"), names, st.integers(0, 4), st.booleans()),
    st.tuples(st.just("pod"), st.sampled_from("abcd"), st.sampled_from(["", *NODES]), st.integers(1, 3)),
    st.tuples(st.just("reservation"), st.sampled_from("xy"), names, st.integers(0, 3)),
    st.tuples(st.just("ask"), st.integers(1, 3)),
)


def wanted(cpu, **spec):
    return Wanted("default/new", spec, {"cpu": cpu * 1000, "pods": 1}, host_ports(spec))


@given(st.lists(events, max_size=40))
def test_what_is_kept_is_what_asking_anew_gives(history):
    world = World()
    for what, *details in history:
        if what != "ask":
            getattr(world, what)(*details)
            continue
        pod = wanted(details[0])
        kept, anew = world.kept.offers(pod), Kept(world.view).offers(pod)
        assert kept.fitting == anew.fitting
        assert kept.by_node == anew.by_node
        fitting = [each for _, _, each in kept.fitting]
        assert kept.best() == (best_of(fitting) if fitting else None)


def test_only_nodes_that_changed_are_asked_again():
    world = World()
    for name in NODES:
        world.node(name, 4)
    before = world.kept.offers(wanted(1)).by_node.copy()
    world.pod("a", "n2", 1)
    after = world.kept.offers(wanted(1)).by_node
    assert [name for name in NODES if after[name] is not before[name]] == ["n2"]


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        pytest.param({"a": 10, "b": 30, "c": 20}, "b", id="the best score"),
        pytest.param({"a": 30, "b": 30, "c": 20}, "b", id="of equal ones the last by name"),
        pytest.param({}, None, id="none fits"),
    ],
)
def test_the_best_of_all_offers(scores, best):
    found = offers_of(Placement(name, score=score) for name, score in scores.items()).best()
    assert (found.node if found else None) == best
