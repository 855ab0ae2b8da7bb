"""Request bodies: read within limits of size and time, decoded from JSON or YAML, never deeper than the limit."""

import asyncio
from collections.abc import Iterable
from typing import Any

import orjson

from headrace.api.limits import BODY_IDLE_SECONDS, JSON_DEPTH
from headrace.apiserver.exchange import Exchange
from headrace.apiserver.statuses import Failure
from headrace.store.protocol import BadRequest

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
LONG_YAML_BYTES = 32 * 1024


class Disconnected(Exception):
    """The client went away in the middle of its request: nobody waits for an answer."""


async def read(exchange: Exchange, declared: bytes | None, limit: int) -> bytes:
    """The whole body, not all of which is there yet.

    `declared` is the Content-Length header: a body too large is refused before it is sent.
    """
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    await asyncio.sleep(0)  # timeouts belong to a task, which a request that waits for nothing has not
    pieces, size = [], 0
    while (piece := await _next(exchange)) is not None:
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
    return b"".join(pieces)


async def _next(exchange: Exchange) -> bytes | None:
    try:
        async with asyncio.timeout(BODY_IDLE_SECONDS):
            piece = await exchange.more()
    except TimeoutError:
        raise Failure(
            408, "Timeout", f"no part of the request's body arrived for {BODY_IDLE_SECONDS:g} seconds"
        ) from None
    if exchange.disconnected:
        raise Disconnected
    return piece


def _too_large(limit: int) -> Failure:
    return Failure(
        413,
        "RequestEntityTooLarge",
        f"Request entity too large: limit is {limit} bytes",
    )


async def decoded(body: bytes, content_type: str) -> Any:
    """As `decode`. Three megabytes of YAML take seconds: a long one is read beside the loop, which answers others."""
    if len(body) > LONG_YAML_BYTES and "yaml" in content_type.lower():
        return await asyncio.to_thread(decode, body, content_type)
    return decode(body, content_type)


def decode(body: bytes, content_type: str, accepted: Iterable[str] = (JSON, YAML)) -> Any:
    """The value in a body. `content_type` may carry parameters; empty means JSON."""
    kind = content_type.partition(";")[0].strip().lower() or JSON
    if kind == "application/x-yaml":
        kind = YAML
    if kind not in accepted:
        raise unsupported(kind, accepted)
    value = _yaml(body) if kind.endswith("yaml") else _json(body)
    if body.count(b"{") + body.count(b"[") > JSON_DEPTH or kind.endswith("yaml"):
        _check_depth(value)
    return value


def unsupported(kind: str, accepted: Iterable[str]) -> Failure:
    words = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    if kind == PROTOBUF:
        words += " (this server does not read protobuf)"
    return Failure(415, "UnsupportedMediaType", words)


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"couldn't get version/kind; json parse error: {error}") from None


def _yaml(body: bytes) -> Any:
    import yaml

    from headrace.apiserver.yaml_documents import load

    try:
        return orjson.loads(orjson.dumps(load(body)))
    except yaml.YAMLError as error:
        raise BadRequest(f"couldn't get version/kind; yaml parse error: {error}") from None
    except TypeError as error:
        raise BadRequest(f"the object provided is not JSON: {error}") from None
    except (ValueError, LookupError, AttributeError) as error:  # of a tag that does not suit its value, `!!int abc`
        raise BadRequest(f"couldn't get version/kind; yaml parse error: {error}") from None
    except RecursionError:
        raise BadRequest(f"the body is nested more than {JSON_DEPTH} levels deep") from None


def _check_depth(value: Any) -> None:
    level = [value]
    depth = 0
    while level:
        depth += 1
        if depth > JSON_DEPTH + 1:
            raise BadRequest(f"the body is nested more than {JSON_DEPTH} levels deep")
        deeper: list[Any] = []
        for entry in level:
            if type(entry) is dict:
                deeper.extend(entry.values())
            elif type(entry) is list:
                deeper.extend(entry)
        level = deeper
