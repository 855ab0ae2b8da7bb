"""The columns of devices: classes, claims, templates, slices, taint rules."""

from collections.abc import Mapping
from typing import Any

from headrace.api.objects import Object, metadata, name_of
from headrace.api.printers import AGE, NAME, Printer, TableColumn, age, since


def _named(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), age(obj, now)]


def _claim(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), claim_state(obj), age(obj, now)]


def claim_state(claim: Object) -> str:
    """`pending`, `allocated`, `allocated,reserved`, with `deleted` first where it is going."""
    deleted = bool(metadata(claim).get("deletionTimestamp"))
    status: Mapping[str, Any] = claim.get("status") or {}
    words = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        words.append("allocated")
        if status.get("reservedFor"):
            words.append("reserved")
    elif not deleted:
        words.append("pending")
    return ",".join(words)


def _slice(obj: Object, now: float) -> list[Any]:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    return [name_of(obj), spec.get("nodeName") or "", spec.get("driver", ""), pool, age(obj, now)]


def _taint_rule(obj: Object, now: float) -> list[Any]:
    taint: Mapping[str, Any] = (obj.get("spec") or {}).get("taint") or {}
    added = since(taint["timeAdded"], now) if taint.get("timeAdded") else ""
    return [
        name_of(obj),
        taint.get("key", ""),
        taint.get("value", ""),
        taint.get("effect", ""),
        added,
        age(obj, now),
    ]


PRINTERS = {
    "deviceclasses.resource.k8s.io": Printer((NAME, AGE), _named),
    "resourceclaims.resource.k8s.io": Printer((NAME, TableColumn("State"), AGE), _claim),
    "resourceclaimtemplates.resource.k8s.io": Printer((NAME, AGE), _named),
    "resourceslices.resource.k8s.io": Printer(
        (NAME, TableColumn("Node"), TableColumn("Driver"), TableColumn("Pool"), AGE), _slice
    ),
    "devicetaintrules.resource.k8s.io": Printer(
        (
            NAME,
            TableColumn("Key"),
            TableColumn("Value"),
            TableColumn("Effect"),
            TableColumn("TimeAdded"),
            AGE,
        ),
        _taint_rule,
    ),
}
