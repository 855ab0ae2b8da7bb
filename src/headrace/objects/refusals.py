"""The errors of the Store in Kubernetes' exact words (apimachinery's api/errors)."""

import orjson

from headrace.api.kinds import Kind
from headrace.api.objects import Object
from headrace.objects.validation.errors import FieldErrors, shown, summary
from headrace.store.protocol import AlreadyExists, Cause, Conflict, Forbidden, Invalid, NotFound, StoreError

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class TooLarge(StoreError):
    """A document beyond a limit of `headrace.api.limits`."""

    reason, code = "RequestEntityTooLarge", 413


class TooManyRequests(StoreError):
    """Not now: a disruption budget would be violated. Its causes say which."""

    reason, code = "TooManyRequests", 429

    def __init__(self, message: str, causes: tuple[Cause, ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes


def qualified(kind: Kind) -> str:
    """`Pod`, `Deployment.apps`."""
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found')


def already_exists(kind: Kind, name: str) -> AlreadyExists:
    return AlreadyExists(f'{kind.resource} "{name}" already exists')


def conflict(kind: Kind, name: str, why: str = MODIFIED) -> Conflict:
    return Conflict(f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}')


def bad_patch(patched: Object, why: str) -> Invalid:
    """The patch applies, but what it makes is no object of its kind."""
    message = f"Invalid value: {shown(orjson.dumps(patched).decode())}: {why.partition(': ')[2] or why}"
    return Invalid(f' "" is invalid: patch: {message}', (Cause("FieldValueInvalid", message, "patch"),))


def version_required(kind: Kind, name: str) -> Invalid:
    message = "Invalid value: 0: must be specified for an update"
    causes = (Cause("FieldValueInvalid", message, "metadata.resourceVersion"),)
    return Invalid(f'{kind.resource} "{name}" is invalid: metadata.resourceVersion: {message}', causes)


def other_uid(kind: Kind, name: str, wanted: str, found: str) -> Conflict:
    return conflict(kind, name, f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")


def forbidden(kind: Kind, name: str, why: str) -> Forbidden:
    return Forbidden(f'{kind.resource} "{name}" is forbidden: {why}')


def invalid(kind: Kind, name: str, errors: FieldErrors) -> Invalid:
    causes = tuple(dict.fromkeys(errors.causes))
    return Invalid(f'{qualified(kind)} "{name}" is invalid: {summary(causes)}', causes)
