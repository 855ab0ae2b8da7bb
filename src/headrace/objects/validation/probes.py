"""The rules of probes and lifecycle hooks: what they ask, and how often (pkg/apis/core/validation.validateProbe)."""

import re
from typing import Any

from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.numbers import not_negative

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_HEADER_WORDS = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)


def validate_probes(container: dict[str, Any], path: str, errors: FieldErrors) -> None:
    """Lifecycle and the three probes of a container that may have them."""
    for hook in ("postStart", "preStop"):
        if hook in (container.get("lifecycle") or {}):
            _handler(container["lifecycle"][hook], f"{path}.lifecycle.{hook}", errors)
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if kind in container:
            _probe(container[kind], f"{path}.{kind}", kind, errors)


def _probe(probe: dict[str, Any], path: str, kind: str, errors: FieldErrors) -> None:
    _handler(probe, path, errors)
    not_negative(probe, _COUNTS, path, errors)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        errors.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")
    if kind == "readinessProbe" and grace is not None:
        errors.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")


def _handler(handler: dict[str, Any], path: str, errors: FieldErrors) -> None:
    given = [part for part in _HANDLERS if part in handler]
    if not given:
        errors.required(path, "must specify a handler type")
        return
    first, here = given[0], f"{path}.{given[0]}"
    action = handler[first]
    match first:
        case "exec" if not action.get("command"):
            errors.required(f"{here}.command")
        case "httpGet":
            _http_get(action, here, errors)
        case "tcpSocket" | "grpc":
            validate_port(action.get("port", 0), f"{here}.port", errors)
    for extra in given[1:]:
        errors.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")


def _http_get(action: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not action.get("path"):
        errors.required(f"{path}.path")
    validate_port(action.get("port", 0), f"{path}.port", errors)
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        errors.not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        if not _HEADER.fullmatch(header.get("name", "")):
            errors.invalid(f"{path}.httpHeaders", header.get("name", ""), _HEADER_WORDS)


def validate_port(port: int | str, path: str, errors: FieldErrors) -> None:
    """A number or the name of one."""
    for message in names.port_number(port) if isinstance(port, int) else names.port_name(port):
        errors.invalid(path, port, message)
