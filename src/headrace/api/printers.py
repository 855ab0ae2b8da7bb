"""What every table is made of: columns, cells, and the texts of ages and selectors as kubectl prints them.

Source: k8s.io/apimachinery (duration, FormatLabelSelector). A column of priority 1 shows with `-o wide`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.api.objects import Object, metadata
from headrace.api.times import from_time

Cells = Callable[[Object, float], list[Any]]

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""

    def definition(self) -> dict[str, Any]:
        """As metav1.TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": self.priority,
        }


def no_conditions(_: Object) -> list[dict[str, str]]:
    return []


@dataclass(frozen=True, slots=True)
class Printer:
    """`cells` gives one value a column. `conditions` mark a row as completed, which `kubectl get` may leave out."""

    columns: tuple[TableColumn, ...]
    cells: Cells
    conditions: Callable[[Object], list[dict[str, str]]] = no_conditions


NAME = TableColumn("Name", format="name")
AGE = TableColumn("Age")


def wide(name: str) -> TableColumn:
    return TableColumn(name, priority=1)


def age(obj: Mapping[str, Any], now: float) -> str:
    return since(metadata(obj).get("creationTimestamp"), now)


def since(timestamp: Any, now: float) -> str:
    """How long ago, as kubectl shows it; `<unknown>` without a time."""
    if not timestamp:
        return "<unknown>"
    try:
        return human_duration(now - from_time(str(timestamp)))
    except ValueError:
        return "<invalid>"


def human_duration(span: float) -> str:
    """Two units at most, as k8s.io/apimachinery/pkg/util/duration prints them."""
    seconds = int(span)
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * MINUTE:
        return _two(seconds, MINUTE, "m", 1, "s")
    if seconds < 3 * HOUR:
        return f"{seconds // MINUTE}m"
    if seconds < 8 * HOUR:
        return _two(seconds, HOUR, "h", MINUTE, "m")
    if seconds < 2 * DAY:
        return f"{seconds // HOUR}h"
    if seconds < 8 * DAY:
        return _two(seconds, DAY, "d", HOUR, "h")
    if seconds < 2 * YEAR:
        return f"{seconds // DAY}d"
    if seconds < 8 * YEAR:
        return _two(seconds, YEAR, "y", DAY, "d")
    return f"{seconds // YEAR}y"


def _two(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")


def label_selector_text(selector: Mapping[str, Any] | None) -> str:
    """`app=web,tier in (a,b)`; `<none>` for no selector, as metav1.FormatLabelSelector."""
    if selector is None:
        return "<none>"
    terms = sorted(f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items())
    for entry in selector.get("matchExpressions") or ():
        key, values = entry.get("key", ""), ",".join(sorted(entry.get("values") or ()))
        match entry.get("operator"):
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(str(key))
            case "DoesNotExist":
                terms.append(f"!{key}")
    return ",".join(terms) or "<none>"
