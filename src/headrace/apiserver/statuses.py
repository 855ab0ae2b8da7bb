"""Errors as Kubernetes' Status objects: the one place where an exception becomes an HTTP answer."""

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from headrace.store.protocol import Cause, Invalid, Refused, StoreError


class Failure(StoreError):
    """An answer that only HTTP gives (401, 405, 413, 415, 429 …)."""

    def __init__(self, code: int, reason: str, message: str, *, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


def not_found_path() -> Failure:
    return Failure(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> Failure:
    return Failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unauthorized() -> Failure:
    return Failure(401, "Unauthorized", "Unauthorized")


def too_many(message: str = "too many requests in flight, try again later") -> Failure:
    return Failure(429, "TooManyRequests", message, retry_after=1)


def status_of(error: StoreError, *, group: str = "", resource: str = "", name: str = "") -> dict[str, Any]:
    """The Status of a refusal; the request's resource and name go into its details."""
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if resource:
        details["kind"] = resource
    if isinstance(error, Invalid):
        details["causes"] = _causes(error.causes)
    elif isinstance(error, Refused):
        details |= shortfall_details(error)
    elif isinstance(error, Failure) and error.retry_after:
        details["retryAfterSeconds"] = error.retry_after
    return status(error.code, error.reason, str(error), details)


def shortfall_details(error: Refused) -> dict[str, Any]:
    """One cause a resource, for people and for every client; the amounts beside them, for ours."""
    shortfall = error.shortfall
    causes = [Cause("InsufficientCapacity", str(shortfall), resource) for resource in shortfall.missing]
    return {"causes": _causes(causes), "shortfall": msgspec.to_builtins(shortfall)}


def _causes(causes: Sequence[Cause]) -> list[dict[str, str]]:
    return [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]


def status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    found |= {"message": message, "reason": reason}
    if details:
        found["details"] = details
    found["code"] = code
    return found


def status_body(code: int, reason: str, message: str) -> bytes:
    return orjson.dumps(status(code, reason, message))
