from hypothesis import given
from hypothesis import strategies as st

from headrace.ledger.node import Ledger, Shortfall

amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 50))
totals = st.fixed_dictionaries({"cpu": st.integers(0, 50), "memory": st.integers(0, 50)})
holders = st.sampled_from(["a", "b", "c"])
steps = st.lists(st.tuples(holders, st.one_of(st.none(), amounts)), max_size=20)


@given(total=totals, steps=steps)
def test_no_sequence_of_admissions_overcommits_a_node(total, steps):
    ledger = Ledger(total, reserved={})
    for holder, wanted in steps:
        if wanted is None:
            ledger = ledger.release(holder)
        else:
            answer = ledger.admit(holder, wanted)
            ledger = ledger if isinstance(answer, Shortfall) else answer
        assert all(amount >= 0 for amount in ledger.available().values())


@given(total=totals, steps=steps, wanted=amounts)
def test_release_gives_back_exactly_what_was_admitted(total, steps, wanted):
    ledger = Ledger(total, reserved={})
    for holder, held in steps:
        ledger = ledger.record(holder, held or {})
    admitted = ledger.admit("new", wanted)
    if isinstance(admitted, Ledger):
        assert admitted.release("new") == ledger


@given(steps=steps)
def test_the_running_sum_is_the_sum_over_holders(steps):
    ledger = Ledger({}, {})
    for holder, held in steps:
        ledger = ledger.release(holder) if held is None else ledger.record(holder, held)
    for name in ("cpu", "memory"):
        assert ledger.allocated.get(name, 0) == sum(held.get(name, 0) for held in ledger.holders.values())


@given(total=totals, held=amounts, smaller=amounts)
def test_shrinking_is_allowed_after_a_node_lost_capacity(total, held, smaller):
    smaller = {name: min(smaller.get(name, 0), amount) for name, amount in held.items()}
    overfull = Ledger(total, reserved={}, holders={"a": held}, allocated=held)
    assert isinstance(overfull.admit("a", smaller), Ledger)


def test_the_shortfall_of_an_overfull_node_counts_what_it_is_over():
    overfull = Ledger({"cpu": 4}, reserved={}, holders={"a": {"cpu": 6}}, allocated={"cpu": 6})
    answer = overfull.admit("b", {"cpu": 3})
    assert isinstance(answer, Shortfall)
    assert (answer.missing, answer.holders) == ({"cpu": 5}, ("a",))


def test_a_shortfall_says_what_is_missing_where_and_who_holds_it():
    gibi = 2**30
    ledger = Ledger({"cpu": 4000, "memory": 8 * gibi}, reserved={"cpu": 500, "memory": gibi}, node="node-a")
    ledger = ledger.record("Pod default/db", {"cpu": 2000, "memory": 5 * gibi}).record("Pod default/web", {"cpu": 800})
    answer = ledger.admit("Pod default/new", {"cpu": 1500, "memory": 4 * gibi, "example.com/card": 1})
    assert str(answer) == (
        "node node-a: insufficient cpu: 1500m more wanted, 700m available of 4 "
        "(most is held by Pod default/db 2, Pod default/web 800m); "
        "insufficient example.com/card: 1 more wanted, 0 available of 0; "
        "insufficient memory: 4Gi more wanted, 2Gi available of 8Gi (most is held by Pod default/db 5Gi)"
    )


def test_growth_is_what_is_told_when_a_holder_wants_more_than_it_has():
    ledger = Ledger({"cpu": 4000}, {}, node="node-a").record("Pod default/web", {"cpu": 3000})
    answer = ledger.admit("Pod default/web", {"cpu": 5000})
    assert str(answer) == (
        "node node-a: insufficient cpu: 2 more wanted, 1 available of 4 (most is held by Pod default/web 3)"
    )


def test_a_node_that_does_not_count_pods_takes_any_number():
    assert isinstance(Ledger({"cpu": 1}, {}).admit("a", {"pods": 1}), Ledger)
    assert isinstance(Ledger({"cpu": 1, "pods": 0}, {}).admit("a", {"pods": 1}), Shortfall)
