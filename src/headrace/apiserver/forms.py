"""The forms an object or a list is answered in: JSON as stored, a Table, metadata only, or YAML.

The form is agreed on before anything is done: a write whose answer nobody can read must not happen.
"""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from headrace.api.objects import Object
from headrace.api.resting import Resting, Turn
from headrace.apiserver.answers import Answer, Header, json_answer
from headrace.apiserver.listing import list_body, list_head, partial_list_head, partial_object
from headrace.apiserver.printing import Printing
from headrace.apiserver.requests import Request
from headrace.objects.registry import Served

YAML = b"application/yaml"


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
                return json_answer(self._printing.table(request, served, obj), code, headers)
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
    ) -> Resting[Answer]:
        """A list. Stored bodies are spliced at once; where each has to be looked into, the work rests."""
        match request.form:
            case "table":
                head = self._printing.heading(served, revision, resume, remaining)
                row = self._printing.rows(request, served)
                body = yield from _spliced(head, b"rows", bodies, row)
            case "metadata":
                body = yield from _spliced(
                    partial_list_head(revision, resume, remaining), b"items", bodies, partial_object
                )
            case "yaml":
                body = yield from _yaml_list(list_head(served, revision, resume, remaining), bodies)
                return Answer(200, body, YAML, headers)
            case _:
                body = list_body(served, bodies, revision, resume, remaining)
        return Answer(200, body, headers=headers)


def _spliced(
    head: dict[str, Any], name: bytes, bodies: list[bytes], form: Callable[[Object], dict[str, Any]]
) -> Resting[bytes]:
    pieces, turn = [], Turn()
    for body in bodies:
        if turn.is_over(20 + len(body) // 100):
            yield
        pieces.append(orjson.dumps(form(orjson.loads(body))))
    return b'%s,"%s":[%s]}' % (orjson.dumps(head)[:-1], name, b",".join(pieces))


def _yaml_list(head: dict[str, Any], bodies: list[bytes]) -> Resting[bytes]:
    """As one document: a list is written in it as it is alone."""
    from headrace.apiserver.yaml_documents import dump

    if not bodies:
        return dump({**head, "items": []})
    pieces, turn = [dump(head), b"items:\n"], Turn()
    for body in bodies:
        if turn.is_over(len(body)):
            yield
        pieces.append(dump([orjson.loads(body)]))
    return b"".join(pieces)


def _yaml(value: Any, code: int, headers: Sequence[Header]) -> Answer:
    from headrace.apiserver.yaml_documents import dump

    return Answer(code, dump(value), YAML, headers)
