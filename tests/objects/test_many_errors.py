"""An object may be wrong in more places than anybody reads, and a wrong value may be most of the object."""

import time
from typing import Any

import pytest

from headrace.api import kinds
from headrace.api.limits import ERRORS_TEXT, ERRORS_TOLD
from headrace.objects.decoding import UNKNOWN_FIELDS_SHOWN
from headrace.objects.local import Caller, LocalStore
from headrace.store.protocol import Invalid

SECONDS = 4.0  # of CPU; each of these takes 0.3 at most, and took 10 and more when it grew with the square


def owners(count: int, **given: Any) -> list[dict[str, Any]]:
    return [
        {"apiVersion": "v1", "kind": "Pod", "name": f"n{number}", "uid": f"u{number}", **given}
        for number in range(count)
    ]


async def refused(store: LocalStore, **meta: Any) -> Invalid:
    started = time.process_time()
    with pytest.raises(Invalid) as found:
        await store.create(kinds.CONFIG_MAP, {"metadata": {"name": "a", **meta}}, "default")
    assert time.process_time() - started < SECONDS
    return found.value


async def test_so_many_errors_are_told_and_no_more(store: LocalStore) -> None:
    said = await refused(store, finalizers=[f"-{number}" for number in range(20_000)])
    assert len(said.causes) == ERRORS_TOLD + 1
    assert said.causes[-1].message == f"too many errors: only these {ERRORS_TOLD} are told"


async def test_an_error_that_shows_a_large_value_is_not_told_again_and_again(store: LocalStore) -> None:
    said = await refused(store, ownerReferences=owners(4_000, controller=True))
    assert len(str(said)) < 2 * ERRORS_TEXT


async def test_many_owners_of_whom_none_is_told_twice(store: LocalStore) -> None:
    await store.create(
        kinds.CONFIG_MAP, {"metadata": {"name": "a", "ownerReferences": [*owners(3), *owners(2)]}}, "default"
    )
    kept = (await store.get(kinds.CONFIG_MAP, "a", "default"))["metadata"]["ownerReferences"]
    assert [each["name"] for each in kept] == ["n0", "n1", "n2"]
    await refused(store, ownerReferences=owners(20_000))


async def test_what_is_wrong_beyond_what_is_told_counts_too(store: LocalStore) -> None:
    """Nobody compiles a schema that is not structural, although that is not told any longer."""
    properties = {f"p{number}": {"type": "string", "$schema": "x", "default": "y"} for number in range(ERRORS_TOLD + 5)}
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "a-kinds", "kind": "AKind"}
    wrong = {"name": "v2", "served": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version, wrong]}
    with pytest.raises(Invalid, match="too many errors"):
        await store.create(
            kinds.CUSTOM_RESOURCE_DEFINITION, {"metadata": {"name": "a-kinds.example.com"}, "spec": spec}
        )


async def test_few_of_many_unknown_fields_are_told(store: LocalStore) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    kind = kinds.Kind("example.com", "v1", "AKind", "a-kinds", True)
    names = {"plural": kind.plural, "kind": kind.kind}
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    await store.create(kinds.CUSTOM_RESOURCE_DEFINITION, {"metadata": {"name": kind.resource}, "spec": spec})
    told: list[str] = []
    acting = store.acting_as(Caller(user="system:admin", validation="Warn", warn=told.append))
    unknown = {f"b{number}": 1 for number in range(10_000)}
    made = await acting.create(kind, {"metadata": {"name": "a"}, "a": "known", **unknown}, "default")
    assert sorted(made.keys() - {"metadata"}) == ["a", "apiVersion", "kind"]
    assert len(told) == UNKNOWN_FIELDS_SHOWN
