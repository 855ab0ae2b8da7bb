"""The books against their laws: they are the fold of the objects, undo restores them, no admission overcommits."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ledger.books import Books
from headrace.ledger.node import Shortfall
from tests.ledger.builders import claim, container, key_of, node, pod, resource_slice, result, status

NODE_A = node(cpu="4", memory="8Gi")
nodes = st.sampled_from(["node-a", "node-b"])
names = st.sampled_from(["p", "q", "r"])
cores = st.integers(0, 5).map(str)


@st.composite
def pods(draw):
    allocated = draw(st.none() | st.fixed_dictionaries({"cpu": cores}))
    actual = draw(st.none() | st.fixed_dictionaries({"cpu": cores}))
    return pod(
        draw(names),
        container(cpu=draw(cores), memory="1Mi"),
        container("side", cpu=draw(cores)),
        node=draw(nodes),
        phase=draw(st.sampled_from(["Running", "Running", "Failed"])),
        statuses=[status(allocated=allocated, actual=actual)],
    )


@st.composite
def node_objects(draw):
    annotations = {"confirmed-revision": draw(st.integers(0, 40))}
    if draw(st.booleans()):
        annotations["strays"] = '{"old": {"cpu": 500}}'
    return node(draw(nodes), cpu=draw(st.integers(0, 9).map(str)), annotations=annotations)


@st.composite
def claims(draw):
    chosen = draw(
        st.lists(st.tuples(st.sampled_from(["g0", "g1", "g2"]), st.sampled_from(["", "s1", "s2"])), max_size=3)
    )
    results = [
        result(device, shareID=share, consumedCapacity={"memory": f"{draw(st.integers(1, 6))}Gi"})
        if share
        else result(device)
        for device, share in chosen
    ]
    return claim(draw(names), *results, node=draw(nodes), users=tuple(draw(st.sets(names, max_size=2))))


@st.composite
def slices(draw):
    devices = [
        {"name": name, "capacity": {"memory": {"value": "8Gi"}}} for name in draw(st.sets(st.sampled_from("012")))
    ]
    for device in devices:
        device["name"] = f"g{device['name']}"
    return resource_slice(draw(st.sampled_from(["s1", "s2"])), *devices, generation=draw(st.integers(1, 2)))


writes = st.one_of(pods(), pods(), node_objects(), claims(), slices()).map(lambda obj: (key_of(obj), obj))
deletes = st.tuples(st.one_of(pods(), node_objects(), claims(), slices()).map(key_of), st.none())
steps = st.lists(st.tuples(st.one_of(writes, writes, deletes), st.booleans()), max_size=25)


class World:
    """Objects as a store would hold them, beside the books that guard them."""

    def __init__(self):
        self.books = Books()
        self.objects = {}
        self.departed = []
        self.revision = 1
        self.write(key_of(NODE_A), NODE_A)

    def write(self, key, after, confirmed=True):
        before = self.objects.get(key)
        if after is None and before is None:
            return None
        after = copy.deepcopy(after)
        if before is not None and after is not None and key[0] == "pods":
            after["spec"]["nodeName"] = before["spec"]["nodeName"]
            after["metadata"]["uid"] = before["metadata"]["uid"]
        elif after is not None and key[0] == "pods":
            after["metadata"]["uid"] += f"-{self.revision}"  # no two Pods ever have one
        elif after is not None:
            for each in after.get("status", {}).get("reservedFor", ()):
                pod = self.objects.get(("pods", "default", each["name"]))
                each["uid"] = pod["metadata"]["uid"] if pod else each["uid"]
        refused = self.books.apply(key, after, self.revision + 1, confirmed)
        if refused is None:
            self.revision += 1
            self._store(key, before, after)
        return refused

    def _store(self, key, before, after):
        self.objects[key] = after
        if after is None:
            del self.objects[key]
        if self.books.departed_at(self.revision) is not None:
            self.departed.append((self.revision, key[0], before))
        self.departed = [each for each in self.departed if each[0] not in self.books.settled()]

    def folded(self):
        return Books.fold(self.objects.items(), self.departed)


@given(steps)
@settings(deadline=None)
def test_the_books_are_the_fold_of_the_objects_after_any_history(steps):
    world = World()
    for (key, after), confirmed in steps:
        world.write(key, after, confirmed)
        assert world.books.difference(world.folded()) == ()


@given(steps, steps)
@settings(deadline=None)
def test_undo_restores_the_books_exactly(kept, undone):
    world = World()
    for (key, after), confirmed in kept:
        world.write(key, after, confirmed)
    world.books.keep()
    before = world.folded()
    mark = world.books.mark()
    for (key, after), confirmed in undone:
        world.write(key, after, confirmed)
    world.books.undo(mark)
    assert world.books.difference(before) == ()


@given(steps)
@settings(deadline=None)
def test_no_admission_leaves_less_than_nothing(steps):
    """Writes of facts alone may. So statuses are written as they were before, only what is admitted changes."""
    world = World()
    for (key, after), confirmed in steps:
        before = world.objects.get(key)
        if key[0] == "pods" and after is not None:
            after = copy.deepcopy(after)
            for told in after["status"]["containerStatuses"]:
                told.pop("resources", None)
        elif key[0] == "nodes" and before is not None:
            continue
        room = {name: ledger.available() for name, ledger in world.books.nodes().items()}
        if world.write(key, after, confirmed) is None and key[0] == "pods":
            for name, ledger in world.books.nodes().items():
                for resource, left in ledger.available().items():
                    assert left >= min(0, room[name].get(resource, 0))


@given(steps)
@settings(deadline=None)
def test_no_device_has_two_owners(steps):
    world = World()
    for (key, after), confirmed in steps:
        world.write(key, after, confirmed)
        for pool in world.books.pools().values():
            for shares in pool.used.values():
                claims = {share.owner.partition(" (let go at")[0] for share in shares}
                assert len(claims) == 1 or all(share.id for share in shares)


def resized(*, admitted, actual, desired="1"):
    told = status(allocated={"cpu": admitted}, actual={"cpu": actual})
    return pod("web", container(cpu=desired), statuses=[told])


def written(*objects):
    world = World()
    for obj in objects:
        assert world.write(key_of(obj), obj) is None
    return world


def test_growth_that_does_not_fit_is_refused_and_changes_nothing():
    world = written(resized(admitted="1", actual="1"), pod("other", container(cpu="2")))
    refused = world.write(key_of(resized(admitted="1", actual="1")), resized(admitted="3", actual="1"))
    assert isinstance(refused, Shortfall)
    assert refused.missing == {"cpu": 1000}
    assert world.books.nodes()["node-a"].available()["cpu"] == 1000


def test_what_is_desired_blocks_nobody():
    world = written(resized(admitted="1", actual="1", desired="64"), pod("other", container(cpu="3")))
    assert world.books.nodes()["node-a"].available()["cpu"] == 0


def test_a_fact_is_never_refused_even_beside_a_wish():
    world = written(pod("other", container(cpu="2")), resized(admitted="1", actual="1"))
    drifted = resized(admitted="2", actual="9")
    assert world.write(key_of(drifted), drifted) is None
    assert world.books.nodes()["node-a"].available()["cpu"] == -7000


def test_shrinking_is_allowed_on_an_overfull_node():
    world = written(resized(admitted="1", actual="9"))
    shrunk = resized(admitted="500m", actual="8")
    assert world.write(key_of(shrunk), shrunk) is None


def test_containers_of_one_pod_are_reserved_before_they_grow():
    """What one container gives up is not there for the other until it is really free."""
    told = [status("a", allocated={"cpu": "3"}, actual={"cpu": "3"}), status("b", allocated={"cpu": "1"})]
    both = pod("web", container("a", cpu="3"), container("b", cpu="1"), statuses=told)
    world = written(both)
    swapped = copy.deepcopy(both)
    swapped["status"]["containerStatuses"][0]["allocatedResources"] = {"cpu": "1"}
    swapped["status"]["containerStatuses"][1]["allocatedResources"] = {"cpu": "3"}
    assert world.write(key_of(both), swapped).missing == {"cpu": 2000}


def test_a_pod_deleted_without_its_node_is_charged_until_the_node_confirms():
    world = written(pod("web", container(cpu="3")))
    deleted = key_of(pod("web", container()))
    assert world.write(deleted, None, confirmed=False) is None
    again = pod("web", container(cpu="3"))
    assert "Pod default/web (deleted at 4, not confirmed) 3" in str(world.write(key_of(again), again))
    too_old = node(annotations={"confirmed-revision": 3})
    world.write(key_of(too_old), too_old)
    assert world.write(key_of(again), again) is not None
    confirming = node(annotations={"confirmed-revision": 4})
    world.write(key_of(confirming), confirming)
    assert world.write(key_of(again), again) is None


def test_what_a_deleted_node_did_not_confirm_ends_with_it():
    world = written(pod("web", container(cpu="3")))
    world.write(key_of(pod("web", container())), None, confirmed=False)
    world.write(key_of(NODE_A), None)
    world.write(key_of(NODE_A), NODE_A)
    assert world.books.nodes()["node-a"].available()["cpu"] == 4000


def test_strays_are_charged_as_facts():
    strays = '{"4711": {"cpu": 3500, "memory": 1048576}}'
    world = written(node(annotations={"strays": strays}))
    refused = world.write(key_of(pod("web", container(cpu="1"))), pod("web", container(cpu="1")))
    assert "stray 4711 3500m" in str(refused)


def test_pods_of_a_node_that_is_not_registered_are_charged_when_it_comes():
    world = written(pod("web", container(cpu="3"), node="node-b"))
    assert "node-b" not in world.books.nodes()
    world.write(key_of(node("node-b")), node("node-b"))
    assert world.books.nodes()["node-b"].available()["cpu"] == 1000


def test_an_annotation_that_no_agent_wrote_says_nothing():
    written(node(annotations={"strays": "[1", "confirmed-revision": "soon"}))
