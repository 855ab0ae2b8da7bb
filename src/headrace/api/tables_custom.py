"""The columns of definitions and of custom kinds (additionalPrinterColumns); their JSONPath is a subset of kubectl's.

Read are `.a.b`, `['a.b']`, `[0]`, `[*]`, `[?(@.type=="Ready")]`: what CRDs in the wild use.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from headrace.api.objects import Object, metadata, name_of
from headrace.api.printers import AGE, NAME, Printer, TableColumn, age, since, wide

Step = str | int | None | tuple[str, str]

_STEP = re.compile(
    r"""\.(?P<field>[A-Za-z0-9_\-/]+)
      | \[(?P<quoted>'[^']*'|"[^"]*")\]
      | \[(?P<index>-?[0-9]+)\]
      | (?P<all>\[\*\]|\.\*)
      | \[\?\(\s*@\.(?P<key>[A-Za-z0-9_\-]+)\s*==\s*(?P<value>'[^']*'|"[^"]*")\s*\)\]""",
    re.VERBOSE,
)


class BadPath(ValueError):
    """The JSONPath is outside the subset; the message says where."""


@lru_cache(maxsize=1024)
def parse_path(text: str) -> tuple[Step, ...]:
    """A field name, an index, None for all, or (key, value) for a filter. Raises BadPath."""
    path = text.strip().removeprefix("{").removesuffix("}").removeprefix("$").replace("\\.", "\0")
    if path and path[0] not in ".[":
        path = "." + path
    steps: list[Step] = []
    at = 0
    pattern = _STEP
    while at < len(path):
        if path[at] == "." and at + 1 < len(path) and "\0" in path[at:]:
            end = _field_end(path, at + 1)
            steps.append(path[at + 1 : end].replace("\0", "."))
            at = end
            continue
        match = pattern.match(path, at)
        if match is None:
            raise BadPath(f"jsonPath {text!r}: cannot read {path[at:]!r}")
        steps.append(_step(match))
        at = match.end()
    return tuple(steps)


def _field_end(path: str, at: int) -> int:
    while at < len(path) and path[at] not in ".[":
        at += 1
    return at


def _step(match: re.Match[str]) -> Step:
    if match["field"] is not None:
        return match["field"]
    if match["quoted"] is not None:
        return match["quoted"][1:-1].replace("\0", ".")
    if match["index"] is not None:
        return int(match["index"])
    if match["all"] is not None:
        return None
    return match["key"], match["value"][1:-1]


def find(obj: Any, path: str) -> list[Any]:
    """All values at a path; what is absent gives none."""
    found = [obj]
    for step in parse_path(path):
        found = [value for each in found for value in _next(each, step)]
    return found


def _next(value: Any, step: Step) -> list[Any]:
    match step:
        case str():
            return [value[step]] if isinstance(value, dict) and value.get(step) is not None else []
        case int():
            return [value[step]] if isinstance(value, list) and -len(value) <= step < len(value) else []
        case None:
            if isinstance(value, dict):
                return list(value.values())
            return list(value) if isinstance(value, list) else []
        case (key, wanted):
            entries = value if isinstance(value, list) else []
            return [entry for entry in entries if isinstance(entry, dict) and str(entry.get(key)) == wanted]


def custom_printer(columns: Iterable[tuple[str, str, str, int]]) -> Printer:
    """Of (name, type, jsonPath, priority); a CRD without columns shows name and age."""
    wanted = list(columns)
    if not wanted:
        return Printer((NAME, AGE), lambda obj, now: [name_of(obj), age(obj, now)])
    shown = tuple(TableColumn(name, kind, priority) for name, kind, _, priority in wanted)

    def cells(obj: Object, now: float) -> list[Any]:
        return [name_of(obj), *(_cell(obj, kind, path, now) for _, kind, path, _ in wanted)]

    return Printer((NAME, *shown), cells)


def _cell(obj: Object, kind: str, path: str, now: float) -> Any:
    try:
        found = find(obj, path)
    except BadPath:
        return "<invalid>"
    if not found:
        return None
    first = found[0]
    match kind:
        case "integer":
            return int(first) if isinstance(first, int | float) and not isinstance(first, bool) else None
        case "number":
            return first if isinstance(first, int | float) and not isinstance(first, bool) else None
        case "boolean":
            return first if isinstance(first, bool) else None
        case "date":
            return since(first, now)
    return ",".join(_text(value) for value in found)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _definition(obj: Object, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    versions = sorted(
        f"{each['name']}(storage)" if each.get("storage") else str(each["name"])
        for each in spec.get("versions") or ()
        if each.get("served")
    )
    conditions = (obj.get("status") or {}).get("conditions") or ()
    established = any((each.get("type"), each.get("status")) == ("Established", "True") for each in conditions)
    created = metadata(obj).get("creationTimestamp", "")
    short = ",".join(names.get("shortNames") or ())
    name, scope, group = name_of(obj), spec.get("scope", ""), spec.get("group", "")
    return [name, scope, ",".join(versions), created, group, names.get("kind", ""), short, established]


PRINTERS = {
    "customresourcedefinitions.apiextensions.k8s.io": Printer(
        (
            NAME,
            TableColumn("Scope"),
            TableColumn("Versions"),
            TableColumn("Created At", "date"),
            wide("Group"),
            wide("Kind"),
            wide("ShortNames"),
            TableColumn("Established", "boolean", priority=1),
        ),
        _definition,
    ),
}
