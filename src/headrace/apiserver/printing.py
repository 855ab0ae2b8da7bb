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

    def table(
        self,
        request: Request,
        served: Served,
        objects: list[Object],
        revision: str = "",
        resume: str = "",
        remaining: int | None = None,
    ) -> dict[str, Any]:
        """A Table of these objects; without a `revision` that of the first."""
        if not revision and objects:
            revision = version_of(objects[0])
        table = self._table(_printer(served), objects, _include(request))
        table["metadata"] = list_metadata(revision, resume, remaining)
        return table

    def row_tables(self, request: Request, served: Served) -> Callable[[bytes], bytes]:
        """For a watch: each change is a Table of one row; only the first carries the columns."""
        printer, include = _printer(served), _include(request)
        first = True

        def form(body: bytes) -> bytes:
            nonlocal first
            obj = orjson.loads(body)
            table = self._table(printer, [obj], include)
            table["metadata"] = {"resourceVersion": version_of(obj)}
            if not first:
                table["columnDefinitions"] = None
            first = False
            return orjson.dumps(table)

        return form

    def _table(self, printer: Printer, objects: list[Object], include: str) -> dict[str, Any]:
        now = self._wall()
        rows = []
        for obj in objects:
            row: dict[str, Any] = {"cells": printer.cells(obj, now)}
            conditions = printer.conditions(obj)
            if conditions:
                row["conditions"] = conditions
            if include == "Object":
                row["object"] = obj
            elif include != "None":
                row["object"] = partial_object(obj)
            rows.append(row)
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {},
            "columnDefinitions": [column.definition() for column in printer.columns],
            "rows": rows,
        }


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
