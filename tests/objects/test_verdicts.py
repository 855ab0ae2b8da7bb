"""What is accepted and what is refused, and with which fields, as kube-apiserver has answered."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.api.kinds import Kind
from headrace.objects.local import LocalStore
from headrace.store.protocol import Invalid, StoreError
from tests.objects.manifests import served_kind

ROWS = [
    json.loads(line)
    for line in gzip.decompress((Path(__file__).parent / "vectors" / "verdicts.jsonl.gz").read_bytes()).splitlines()
]
KINDS = sorted({row["kind"] for row in ROWS})
OWN_TO_A_HOME = ("uid", "creationTimestamp", "resourceVersion", "managedFields")
TIMES = ("lastTransitionTime", "timeAdded")


def without_own(value: Any) -> Any:
    """An object without what differs between two homes."""
    if isinstance(value, dict):
        return {name: without_own(item) for name, item in value.items() if name not in TIMES + OWN_TO_A_HOME}
    return [without_own(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", KINDS)
async def test_the_verdict_is_that_of_kubernetes(store: LocalStore, kind: str) -> None:
    rows = [row for row in ROWS if row["kind"] == kind]
    assert len(rows) > 50
    await store.create(Kind("", "v1", "Namespace", "namespaces", False), {"metadata": {"name": "vs"}})
    for row in rows:
        code, fields, made = await answer(store, row["object"])
        assert (code, fields) == (row["code"], row.get("fields")), row
        if "result" in row:
            assert without_own(made) == without_own(row["result"]), row


async def answer(store: LocalStore, obj: dict[str, Any]) -> tuple[int, list[str] | None, dict[str, Any] | None]:
    """Status, the fields of an Invalid, and the object that would be created."""
    kind = served_kind(store.registry, obj)
    try:
        made = await store.create(kind, obj, "vs" if kind.namespaced else "", dry_run=True)
    except StoreError as error:
        fields = sorted({cause.field for cause in error.causes}) if isinstance(error, Invalid) else None
        return error.code, fields, None
    return 201, None, made
