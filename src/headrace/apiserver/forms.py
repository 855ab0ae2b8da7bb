"""The forms an object or a list is answered in: JSON as stored, a Table, metadata only, or YAML.

The form is agreed on before anything is done: a write whose answer nobody can read must not happen.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from headrace.api.objects import Object
from headrace.apiserver.answers import Answer, Header, json_answer
from headrace.apiserver.listing import list_body, partial_list_body, partial_object
from headrace.apiserver.printing import Printing
from headrace.apiserver.requests import Request
from headrace.objects.registry import Served


class Forms:
    def __init__(self, printing: Printing) -> None:
        self._printing = printing

    def stored(self, request: Request, served: Served, body: bytes) -> Answer:
        """One object as it lies in the store."""
        if request.form == "json":
            return Answer(200, body)
        return self.one(request, served, orjson.loads(body))

    def one(
        self, request: Request, served: Served, obj: Object, code: int = 200, headers: Sequence[Header] = ()
    ) -> Answer:
        match request.form:
            case "table":
                return json_answer(self._printing.table(request, served, [obj]), code, headers)
            case "metadata":
                return json_answer(partial_object(obj), code, headers)
            case "yaml":
                return _yaml(obj, code, headers)
        return json_answer(obj, code, headers)

    def many(
        self,
        request: Request,
        served: Served,
        bodies: list[bytes],
        revision: str,
        resume: str = "",
        remaining: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Answer:
        match request.form:
            case "table":
                objects = [orjson.loads(body) for body in bodies]
                table = self._printing.table(request, served, objects, revision, resume, remaining)
                return json_answer(table, 200, headers)
            case "metadata":
                return Answer(200, partial_list_body(bodies, revision, resume, remaining), headers=headers)
        body = list_body(served, bodies, revision, resume, remaining)
        return _yaml(orjson.loads(body), 200, headers) if request.form == "yaml" else Answer(200, body, headers=headers)


def _yaml(value: Any, code: int, headers: Sequence[Header]) -> Answer:
    from headrace.apiserver.yaml_documents import dump

    return Answer(code, dump(value), b"application/yaml", headers)
