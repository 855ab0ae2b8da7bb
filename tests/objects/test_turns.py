"""Rules that cost all they may hold nobody up: they are judged in turns, and what they judged is what is stored."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.api.objects import Object
from headrace.api.resting import TURN_STEPS, Resting, finished
from headrace.cel import counting
from headrace.objects import writing
from headrace.objects.admission import NamespaceTerminating
from headrace.objects.crd import cel_values, judging
from headrace.objects.crd.structural import RULES
from headrace.objects.local import LocalStore
from headrace.objects.turns import Turns
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.expressions import Expressions
from headrace.store.protocol import Conflict, Invalid, NotFound
from headrace.store.rows import Key
from tests.objects.stores import opened

RULED = Kind("turns.example.com", "v1", "Ruled", "ruleds", True)
COSTLY = "self.numbers.all(x, self.numbers.all(y, x + y >= 0))"
NUMBERS = list(range(80))  # 6,400 pairs, 40,000 steps: about twenty turns
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "numbers": {"type": "array", "maxItems": 200, "items": {"type": "integer"}},
        "size": {"type": "integer", RULES: [{"rule": "self >= oldSelf", "message": "only grows"}]},
    },
    RULES: [{"rule": COSTLY, "message": "a sum below zero"}],
}
WHOLE = {"type": "object", "properties": {"spec": SPEC}}


def definition() -> Object:
    return {
        "metadata": {"name": RULED.resource},
        "spec": {
            "group": RULED.group,
            "scope": "Namespaced",
            "names": {"plural": RULED.plural, "kind": RULED.kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": WHOLE}}],
        },
    }


def ruled(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"numbers": NUMBERS, **spec}}


async def serving_ruled() -> LocalStore:
    store = await opened()
    await store.create(kinds.CUSTOM_RESOURCE_DEFINITION, definition())
    await store.create(RULED, ruled("first", numbers=[]), "default")  # whose rules are compiled then
    return store


def turns_of(work: Resting[Any], spent: Callable[[], int]) -> list[int]:
    """What is spent in each turn."""
    found, before = [], spent()
    for _ in work:
        found.append(spent() - before)
        before = spent()
    return [*found, spent() - before]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many values expressions have had until now."""
    pushed, push = [0], counting.Run.push

    def noted(run: counting.Run, number: int, value: Any) -> None:
        pushed[0] += 1
        push(run, number, value)

    monkeypatch.setattr(counting.Run, "push", noted)
    return lambda: pushed[0]


@pytest.mark.parametrize(
    ("rule", "numbers", "said"),
    [
        pytest.param(COSTLY, NUMBERS, "", id="a rule over all pairs"),
        pytest.param(COSTLY, list(range(200)), "", id="almost all that one rule may cost"),
        pytest.param(
            "self.numbers.all(x, self.numbers.all(y, self.numbers.all(z, x + y + z >= 0)))",
            list(range(200)),
            "call cost exceeds limit",
            id="more than one rule may cost",
        ),
        pytest.param("self.numbers.map(x, x + 1).exists(x, x == 9999)", NUMBERS * 100, "failed rule", id="a long list"),
        pytest.param("true", NUMBERS * 500, "", id="a long list that no expression walks along"),
    ],
)
def test_no_turn_is_longer_than_others(evaluated: Callable[[], int], rule: str, numbers: list[int], said: str) -> None:
    schema = {**SPEC, RULES: [{"rule": rule}] * 3}
    schema["properties"] = {"numbers": {"type": "array", "items": {"type": "integer"}}}
    judge = finished(judging.judge_of({"type": "object", "properties": {"spec": schema}}))
    errors = FieldErrors()
    turns = turns_of(judging.judge(judge, {"spec": {"numbers": numbers}}, None, errors), evaluated)
    assert len(turns) > 10
    assert max(turns) <= 2 * TURN_STEPS  # not every value costs something
    assert [said in each.message for each in errors.causes] == [True] * len(errors.causes)
    assert bool(errors.causes) == bool(said)


def test_each_rule_of_a_definition_is_compiled_in_a_turn_of_its_own() -> None:
    schema = {**WHOLE, "properties": {"spec": {**SPEC, RULES: [{"rule": COSTLY}] * 50}}}
    assert len(list(judging.judge_of(schema))) == 51


def test_a_value_is_read_once_however_many_levels_have_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    read, scalar = [0], cel_values._scalar

    def noted(data: Any, schema: Any) -> Any:
        read[0] += 1
        return scalar(data, schema)

    monkeypatch.setattr(cel_values, "_scalar", noted)
    schema: dict[str, Any] = {"type": "string"}
    data: Any = "x"
    for level in range(20):
        inner, name = schema, f"in-{level}"
        schema = {"type": "object", "properties": {name: inner, "at": {"type": "integer"}}}
        schema[RULES] = [{"rule": "self.at >= 0"}, {"rule": "self == oldSelf"}]
        data = {name: data, "at": level}
    judge = finished(judging.judge_of({"type": "object", "properties": {"spec": schema}}))
    errors = FieldErrors()
    finished(judging.judge(judge, {"spec": data}, {"spec": data}, errors))
    assert errors.causes == []
    assert read[0] == 2 * 21, "the new object and the old one, each once"


async def test_others_are_served_while_a_costly_rule_is_judged() -> None:
    store = await serving_ruled()
    slow = asyncio.ensure_future(store.create(RULED, ruled("slow"), "default"))
    served = 0
    while not slow.done():
        await asyncio.sleep(0)
        await store.patch(RULED, "first", "default", fields={"metadata": {"labels": {"at": str(served)}}})
        served += 1
    assert served > 10
    assert (await slow)["spec"]["numbers"] == NUMBERS


async def test_the_long_work_of_all_holds_the_loop_for_one_turn_at_a_time() -> None:
    turns, rounds, seen = Turns(), [0], []

    def work(name: str) -> Resting[None]:
        for _ in range(5):
            yield
            seen.append((rounds[0], name))

    async def count() -> None:
        while True:
            rounds[0] += 1
            await asyncio.sleep(0)

    counting_rounds = asyncio.ensure_future(count())
    assert await asyncio.gather(*(turns.finish(work(name)) for name in "abc")) == [True] * 3
    counting_rounds.cancel()
    assert len({at for at, _ in seen}) == 15, "never two in one round"
    assert [name for _, name in seen] == [*"abc"] * 5, "each in its turn"


async def test_what_changed_meanwhile_is_judged_again() -> None:
    store = await serving_ruled()
    await store.create(RULED, ruled("one", size=1), "default")
    slow = asyncio.ensure_future(store.patch(RULED, "one", "default", fields={"spec": {"size": 3}}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not slow.done()
    await _behind_its_back(store, "one", size=5)
    with pytest.raises(Invalid, match="only grows"):
        await slow
    assert (await store.get(RULED, "one", "default"))["spec"]["size"] == 5


async def test_who_is_overtaken_again_and_again_is_told() -> None:
    store = await serving_ruled()
    await store.create(RULED, ruled("one"), "default")
    slow = asyncio.ensure_future(store.patch(RULED, "one", "default", fields={"metadata": {"labels": {"a": "b"}}}))
    writes = 0
    while not slow.done():
        await _behind_its_back(store, "one", size=writes)
        writes += 1
        await asyncio.sleep(0)
    assert writes > writing.LONG_ATTEMPTS
    with pytest.raises(Conflict, match="the object has been modified"):
        await slow


async def test_nothing_is_made_in_a_namespace_that_began_to_end_meanwhile() -> None:
    store = await serving_ruled()
    await store.create(kinds.NAMESPACE, {"metadata": {"name": "short"}})
    await store.create(kinds.CONFIG_MAP, {"metadata": {"name": "a", "finalizers": ["a.example.com/b"]}}, "short")
    slow = asyncio.ensure_future(store.create(RULED, ruled("one"), "short"))
    await asyncio.sleep(0)
    await store.delete(kinds.NAMESPACE, "short")
    with pytest.raises(NamespaceTerminating):
        await slow


async def test_nothing_is_made_of_a_kind_that_went_meanwhile() -> None:
    store = await serving_ruled()
    slow = asyncio.ensure_future(store.create(RULED, ruled("one"), "default"))
    await asyncio.sleep(0)
    await store.delete(kinds.CUSTOM_RESOURCE_DEFINITION, RULED.resource)
    with pytest.raises(NotFound):
        await slow
    assert store.rows.page(RULED.resource).rows == []


async def test_each_selector_of_a_claim_is_compiled_in_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    store = await opened()
    rests, rest = [0], store.turns.rest

    async def noted() -> None:
        rests[0] += 1
        await rest()

    monkeypatch.setattr(store.turns, "rest", noted)
    selectors = [{"cel": {"expression": f'device.attributes["turns.example.com"].a > {at}'}} for at in range(32)]
    wanted = {"deviceClassName": "any", "selectors": selectors}
    requests = [{"name": "one", "exactly": wanted}, {"name": "two", "firstAvailable": [{"name": "a", **wanted}]}]
    await store.create(
        kinds.RESOURCE_CLAIM, {"metadata": {"name": "a"}, "spec": {"devices": {"requests": requests}}}, "default"
    )
    assert rests[0] == 32
    template = {"spec": {"devices": {"requests": requests}}}
    await store.create(kinds.RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": "a"}, "spec": template}, "default")
    assert rests[0] == 32, "known by now"


def test_the_expressions_asked_for_last_are_kept() -> None:
    kept = Expressions(most=20)
    assert kept.verdict("1 + 1").fault.startswith("must evaluate to bool")
    assert kept.verdict("true") == ("", 0)
    assert list(kept._known) == ["true"]
    assert list(kept.compile_ahead(["true", "false", "true"])) == [None]
    assert list(kept._known) == ["true", "false"]


async def _behind_its_back(store: LocalStore, name: str, size: int) -> None:
    """Another write of the object, without its rules, which would take as long."""
    row = store.rows.get(Key(RULED.resource, "default", name))
    assert row is not None
    obj = writing.decode(row.body)
    obj["spec"]["size"] = size
    body = writing.body_of(store._home.served(RULED), obj)
    await store.rows.commit(writing.Write(row.key, row.revision, body, obj))
