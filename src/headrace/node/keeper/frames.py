"""Frames of the keeper's socket: four bytes of length (network order), then one JSON object.

A request is `{"v": VERSION, "n": number, "op": name, …}`; its answer repeats `n` with either `ok` or `error`
(`code`, `message`). After `watch` come frames with `event`. Each operation may be repeated without harm.
"""

import json

VERSION = 1
FRAME_BYTES = 4 * 1024 * 1024

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class BadFrame(Exception):
    """The peer does not speak this protocol; its connection is closed."""


def encode(message: "dict[str, Any]") -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > FRAME_BYTES:
        raise BadFrame(f"frame of {len(body)} bytes: must have at most {FRAME_BYTES}")
    return len(body).to_bytes(4, "big") + body


def length(header: bytes) -> int:
    size = int.from_bytes(header, "big")
    if size > FRAME_BYTES:
        raise BadFrame(f"frame of {size} bytes: must have at most {FRAME_BYTES}")
    return size


def decode(body: bytes) -> "dict[str, Any]":
    try:
        message = json.loads(body)
    except ValueError as error:
        raise BadFrame(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadFrame("a frame must hold one JSON object")
    return message


def split(buffer: bytearray) -> "list[dict[str, Any]]":
    """Take all whole frames from the front of the buffer."""
    messages = []
    while len(buffer) >= 4:
        size = length(bytes(buffer[:4]))
        if len(buffer) < 4 + size:
            break
        messages.append(decode(bytes(buffer[4 : 4 + size])))
        del buffer[: 4 + size]
    return messages
