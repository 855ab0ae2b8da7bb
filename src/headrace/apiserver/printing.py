"""Table answers: what kubectl prints. `headrace.api.tables` knows the columns of a kind; here they become a Table."""

from collections.abc import Callable
from typing import Any

import orjson

from headrace.api import tables
from headrace.api.objects import Object, version_of
from headrace.api.printers import Printer
from headrace.api.tables_custom import custom_printer
from headrace.apiserver.listing import list_metadata, partial_object
from headrace.apiserver.requests import Request
from headrace.objects.registry import Served
from headrace.store.protocol import BadRequest

_INCLUDES = ("", "Metadata", "Object", "None")


class Printing:
    """`wall`: seconds since the epoch, for ages."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall

    def table(self, request: Request, served: Served, obj: Object) -> dict[str, Any]:
        """A Table of one object."""
        return {**self.heading(served, version_of(obj)), "rows": [self.rows(request, served)(obj)]}

    def heading(self, served: Served, revision: str, resume: str = "", remaining: int | None = None) -> dict[str, Any]:
        """A Table but for its rows."""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": list_metadata(revision, resume, remaining),
            "columnDefinitions": [column.definition() for column in _printer(served).columns],
        }

    def rows(self, request: Request, served: Served) -> Callable[[Object], dict[str, Any]]:
        """From objects to their rows."""
        printer, include, now = _printer(served), _include(request), self._wall()
        return lambda obj: _row(printer, include, obj, now)

    def row_tables(self, request: Request, served: Served) -> Callable[[bytes], bytes]:
        """For a watch: each change is a Table of one row; only the first carries the columns."""
        printer, include = _printer(served), _include(request)
        table = self.heading(served, "")

        def form(body: bytes) -> bytes:
            obj = orjson.loads(body)
            table["metadata"] = {"resourceVersion": version_of(obj)}
            table["rows"] = [_row(printer, include, obj, self._wall())]
            formed = orjson.dumps(table)
            table["columnDefinitions"] = None
            return formed

        return form


def _row(printer: Printer, include: str, obj: Object, now: float) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": printer.cells(obj, now)}
    conditions = printer.conditions(obj)
    if conditions:
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = partial_object(obj)
    return row


def _printer(served: Served) -> Printer:
    if served.custom:
        return custom_printer(
            [(column.name, column.type, column.json_path, column.priority) for column in served.columns]
        )
    return tables.printer(served.kind)


def _include(request: Request) -> str:
    include = request.query.get("includeObject", "")
    if include not in _INCLUDES:
        raise BadRequest(f"includeObject: {include!r} must be Metadata, Object or None")
    return include
