"""The scale subresource: a small object (autoscaling/v1 Scale) through which replicas are read and set."""

from collections.abc import Callable
from typing import Any

from headrace.api.objects import Object
from headrace.objects import decoding, refusals, schemas, writing
from headrace.objects.home import Caller, Home
from headrace.objects.registry import ScalePaths, Served
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.writing import Update
from headrace.store.protocol import BadRequest

SCHEMA = schemas.SUBRESOURCE_BODIES["scale"]


def scale_of(served: Served, obj: Object) -> Object:
    paths = served.scale or ScalePaths()
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": read(obj, paths.status_replicas) or 0}
    selector = read(obj, paths.selector) if paths.selector else None
    if selector:
        status["selector"] = selector if isinstance(selector, str) else selector_text(selector)
    replicas = read(obj, paths.spec_replicas)
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


async def change(
    home: Home,
    served: Served,
    name: str,
    namespace: str,
    make: Callable[[Object], Object],
    version: str | None,
    caller: Caller,
) -> Object:
    """Set the replicas that the changed Scale says."""
    paths = served.scale or ScalePaths()

    def apply(obj: Object) -> Object:
        scale = _typed(make(scale_of(served, obj)))
        wanted = scale["metadata"].get("resourceVersion")
        if wanted and wanted != obj["metadata"]["resourceVersion"]:
            raise refusals.conflict(served.kind, name)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            errors = FieldErrors()
            errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise refusals.invalid(served.kind, name, errors)
        _write(served, obj, paths.spec_replicas, replicas)
        return obj

    changed = await writing.update(home, served, Update(name, namespace, apply, version), caller)
    return scale_of(served, changed)


def _typed(scale: Object) -> Object:
    try:
        read = decoding.decode(SCHEMA, scale).object
    except decoding.UndecodableError as error:
        raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {error}') from error
    if (read.get("apiVersion", "autoscaling/v1"), read.get("kind", "Scale")) != ("autoscaling/v1", "Scale"):
        raise BadRequest(f"wrong object passed to Scale update: {read.get('kind')} of {read.get('apiVersion')}")
    return read


def read(obj: Object, path: tuple[str, ...]) -> Any:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _write(served: Served, obj: Object, path: tuple[str, ...], value: Any) -> None:
    """Raises Invalid where a custom object has something else on the way."""
    inner: Any = obj
    for at, part in enumerate(path[:-1], 1):
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            errors = FieldErrors()
            errors.invalid(".".join(path[:at]), inner, "must be an object, to hold the replicas")
            raise refusals.invalid(served.kind, obj["metadata"]["name"], errors)
    inner[path[-1]] = value


def selector_text(selector: dict[str, Any]) -> str:
    """A LabelSelector as kubectl writes it."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        values = ",".join(sorted(each.get("values") or ()))
        match each["operator"]:
            case "In":
                parts.append(f"{each['key']} in ({values})")
            case "NotIn":
                parts.append(f"{each['key']} notin ({values})")
            case "Exists":
                parts.append(each["key"])
            case _:
                parts.append(f"!{each['key']}")
    return ",".join(sorted(parts))
