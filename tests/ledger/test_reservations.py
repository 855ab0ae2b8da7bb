"""Laws of reservations: a floor on what its beneficiaries hold, consumed by being larger, there until it is deleted."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ledger.books import Books
from headrace.ledger.document import LedgerDocument, ledger_document
from headrace.ledger.node import Floor, Ledger, Shortfall
from tests.ledger.builders import container, key_of, node, pod

RESERVATION = ("capacityreservations.headrace.dev", "default")
amounts = st.integers(0, 12)
holders = st.sampled_from(["a", "b", "c"])
floors = st.tuples(st.sampled_from(["r", "s"]), amounts, st.frozensets(holders, max_size=2))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), holders, amounts),
        st.tuples(st.just("record"), holders, amounts),
        st.tuples(st.just("release"), holders, st.none()),
        st.tuples(st.just("reserve"), floors, st.none()),
        st.tuples(st.just("unreserve"), st.sampled_from(["r", "s"]), st.none()),
    ),
    max_size=25,
)


def reservation(name="r", *, cpu="2", node="node-a", pods=(), until=None, deleted=False):
    meta = {"name": name, "namespace": "default"}
    if deleted:
        meta |= {"deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": ["example.com/keep"]}
    spec = {"node": node, "resources": {"cpu": cpu}, "beneficiaries": {"pods": list(pods)}}
    if until is not None:
        spec["expirationTime"] = until
    return {"metadata": meta, "spec": spec}


def cpu(amount):
    return {"cpu": amount} if amount else {}


def stepped(ledger, step):
    """The ledger after a step, and whether it was a wish."""
    match step:
        case ("admit", holder, amount):
            return ledger.admit(holder, cpu(amount)), True
        case ("record", holder, amount):
            return ledger.record(holder, cpu(amount)), False
        case ("release", holder, _):
            return ledger.release(holder), False
        case ("reserve", (name, amount, beneficiaries), _):
            return ledger.reserve(name, Floor(cpu(amount), beneficiaries)), True
        case ("unreserve", name, _):
            return ledger.record_floor(name, None), False


@given(steps)
@settings(deadline=None)
def test_what_is_allocated_is_what_is_held_and_what_is_missing_to_each_floor(steps):
    ledger = Ledger({"cpu": 10}, {"cpu": 1})
    held, floors = {}, {}
    for step in steps:
        after, _ = stepped(ledger, step)
        if isinstance(after, Shortfall):
            continue
        ledger = after
        match step:
            case ("admit" | "record", holder, amount):
                held[holder] = amount
            case ("release", holder, _):
                held.pop(holder, None)
            case ("reserve", (name, amount, beneficiaries), _):
                floors[name] = (amount, beneficiaries)
            case ("unreserve", name, _):
                floors.pop(name, None)
        missing = sum(
            max(0, floor - sum(held.get(each, 0) for each in beneficiaries)) for floor, beneficiaries in floors.values()
        )
        assert ledger.allocated.get("cpu", 0) == sum(held.values()) + missing
        assert ledger.allocated.get("cpu", 0) == sum(each.get("cpu", 0) for each in ledger.holders.values())


@given(steps)
@settings(deadline=None)
def test_no_wish_takes_room_that_is_not_there(steps):
    ledger = Ledger({"cpu": 10}, {"cpu": 1})
    for step in steps:
        after, wish = stepped(ledger, step)
        if isinstance(after, Shortfall):
            assert after.missing["cpu"] > 0
            continue
        if wish:
            assert after.room("cpu") >= 0 or after.room("cpu") >= ledger.room("cpu")
        ledger = after


@given(amounts, amounts)
def test_a_beneficiary_grows_into_its_floor_although_nothing_else_is_free(floor, others):
    ledger = Ledger({"cpu": floor + others}, {}).record("other", cpu(others))
    reserved = ledger.reserve("r", Floor(cpu(floor), frozenset({"mine"})))
    assert isinstance(reserved, Ledger)
    assert isinstance(reserved.admit("mine", cpu(floor)), Ledger)
    assert isinstance(reserved.admit("mine", cpu(floor + 1)), Shortfall)
    if floor:
        assert isinstance(reserved.admit("stranger", cpu(1)), Shortfall)


@given(amounts, amounts)
def test_giving_up_what_a_floor_covers_frees_nothing_for_others(floor, held):
    ledger = (
        Ledger({"cpu": 100}, {}).record("mine", cpu(held)).record_floor("r", Floor(cpu(floor), frozenset({"mine"})))
    )
    assert ledger.room("cpu") == 100 - max(floor, held)
    assert ledger.release("mine").room("cpu") == 100 - floor
    assert ledger.release("mine").record_floor("r", None).room("cpu") == 100


class World:
    def __init__(self):
        self.books, self.objects = Books(), {}
        self.write(key_of(node()), node(cpu="4"))

    def write(self, key, after):
        if after is None and key not in self.objects:
            return None
        refused = self.books.apply(key, after, len(self.objects) + 1)
        if refused is None:
            self.objects[key] = after
            if after is None:
                del self.objects[key]
        return refused


LONG_AGO = "1970-01-01T00:00:05Z"
reservations = st.builds(
    reservation,
    st.sampled_from(["r", "s"]),
    cpu=st.integers(0, 5).map(str),
    node=st.sampled_from(["node-a", "node-b"]),
    pods=st.frozensets(st.sampled_from(["p", "q"])),
    until=st.sampled_from([LONG_AGO, "9999-12-31T23:59:59Z", None]),
    deleted=st.booleans(),
)
pods = st.builds(
    lambda name, cpu: pod(name, container(cpu=cpu)), st.sampled_from(["p", "q"]), st.integers(0, 5).map(str)
)
events = st.one_of(
    st.tuples(reservations.map(lambda obj: (*RESERVATION, obj["metadata"]["name"])), reservations),
    st.tuples(st.sampled_from([(*RESERVATION, "r"), (*RESERVATION, "s"), ("pods", "default", "p")]), st.none()),
    pods.map(lambda obj: (key_of(obj), obj)),
)


def happen(world, event):
    match event:
        case ((resource, namespace, _), obj) if obj is not None and resource == RESERVATION[0]:
            world.write((resource, namespace, obj["metadata"]["name"]), obj)
        case (key, obj):
            world.write(key, obj)


@given(st.lists(events, max_size=20))
@settings(deadline=None)
def test_the_books_with_reservations_are_the_fold_of_the_objects(events):
    world = World()
    for event in events:
        happen(world, event)
        assert world.books.difference(Books.fold(world.objects.items())) == ()


@given(st.lists(events, max_size=12), st.lists(events, max_size=12))
@settings(deadline=None)
def test_what_happened_to_reservations_is_undone_with_the_rest(kept, undone):
    world = World()
    for event in kept:
        happen(world, event)
    world.books.keep()
    before = Books.fold(world.objects.items())
    mark = world.books.mark()
    for event in undone:
        happen(world, event)
    world.books.undo(mark)
    assert world.books.difference(before) == ()


def test_a_reservation_is_refused_for_what_its_node_lacks():
    world = World()
    world.write(("pods", "default", "p"), pod("p", container(cpu="2")))
    assert world.write((*RESERVATION, "r"), reservation(cpu="4", pods=["p"])) is None
    assert world.books.nodes()["node-a"].room("cpu") == 0
    assert str(world.write((*RESERVATION, "s"), reservation("s", cpu="1"))) == (
        "node node-a: insufficient cpu: 1 more wanted, 0 available of 4 "
        "(most is held by CapacityReservation default/r 2, Pod default/p 2)"
    )


@pytest.mark.parametrize(
    ("after", "room"),
    [
        pytest.param(reservation(cpu="4", until=LONG_AGO), 0, id="an expiry, past or not, is for who deletes"),
        pytest.param(reservation(cpu="4", deleted=True), 4000, id="a finalizer keeps the object, not its room"),
        pytest.param(None, 4000, id="one that is gone reserves nothing"),
    ],
)
def test_what_releases_a_reservation(after, room):
    world, key = World(), (*RESERVATION, "r")
    assert world.write(key, reservation(cpu="4")) is None
    assert world.write(key, after) is None
    assert world.books.nodes()["node-a"].room("cpu") == room
    refused = world.write((*RESERVATION, "s"), reservation("s", cpu="1"))
    assert (refused is None) == (room > 0)


def test_the_books_that_are_told_admit_a_beneficiary_what_the_guard_admits_it():
    """(Read back they refused it what was reserved for it.)"""
    kept = Floor({"cpu": 4000}, frozenset({"Pod default/web"}))
    ledger = (
        Ledger({"cpu": 6000}, {}, node="node-a").record("Pod default/web", {"cpu": 1000}).record_floor("kept", kept)
    )
    told = msgspec.json.decode(msgspec.json.encode(ledger_document(ledger, ())), type=LedgerDocument).ledger("node-a")
    assert told.floors == ledger.floors
    for holder, cpu in (
        ("Pod default/web", 4000),
        ("Pod default/web", 6000),
        ("Pod default/web", 6001),
        ("other", 2001),
    ):
        assert told.admit(holder, {"cpu": cpu}) == ledger.admit(holder, {"cpu": cpu})
    assert not isinstance(told.admit("Pod default/web", {"cpu": 6000}), Shortfall)
