"""What can go wrong between a client and a server: an answer that refuses, or no answer."""

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """The server answered with a Status. `details` are Kubernetes' (`causes`, `retryAfterSeconds`, …)."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details


class Unreachable(Exception):
    """No answer came. `sent`: the request may have reached the server, so the outcome of a write is unknown."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


def from_answer(code: int, body: Any, text: str) -> ApiError:
    """The error of an answer; a proxy may send something that is no Status."""
    if isinstance(body, Mapping) and body.get("kind") == "Status":
        message = str(body.get("message") or body.get("reason") or f"HTTP status {code}")
        details = body.get("details") or {}
        return ApiError(int(body.get("code") or code), str(body.get("reason") or ""), message, details)
    return ApiError(code, "", f"HTTP status {code}: {text[:200]}", {})
