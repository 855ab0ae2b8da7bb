"""Requests that name a subresource (status, scale, resize, binding, eviction, finalize), and those that name none."""

from headrace.api.objects import Object
from headrace.objects import binding, decoding, eviction, reading, refusals, scaling, schemas, writing
from headrace.objects.bodies import clone, decode
from headrace.objects.home import Caller, Home
from headrace.objects.patching import Patch
from headrace.objects.registry import Served
from headrace.objects.writing import Update
from headrace.store.protocol import BadRequest, NotFound

SUCCESS: Object = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}


def _check(served: Served, subresource: str) -> None:
    if subresource and subresource not in served.subresources:
        raise NotFound("the server could not find the requested resource")


def get(home: Home, served: Served, name: str, namespace: str, subresource: str) -> Object:
    _check(served, subresource)
    obj = decode(reading.get_body(home, served, name, namespace))
    return scaling.scale_of(served, obj) if subresource == "scale" else obj


async def replace(
    home: Home, served: Served, name: str, namespace: str, obj: Object, subresource: str, caller: Caller
) -> Object:
    """PUT of an object or of its subresource."""
    _check(served, subresource)
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        raise BadRequest("metadata: Required value")
    if not meta.get("name"):
        raise BadRequest(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if meta["name"] != name:
        raise BadRequest(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    if meta.get("namespace") in (None, "") and served.kind.namespaced:
        meta["namespace"] = namespace
    if served.kind.namespaced and meta["namespace"] != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    version = meta.get("resourceVersion") or None
    if subresource == "scale":
        return await scaling.change(home, served, name, namespace, lambda _: obj, version, caller)

    def whole(now: Object) -> Object:
        if meta.get("uid", now["metadata"]["uid"]) != now["metadata"]["uid"]:
            raise refusals.other_uid(served.kind, name, meta["uid"], now["metadata"]["uid"])
        return clone(obj)

    return await writing.update(home, served, Update(name, namespace, whole, version, subresource, whole=True), caller)


async def patch(
    home: Home,
    served: Served,
    name: str,
    namespace: str,
    document: Patch,
    subresource: str,
    caller: Caller,
    version: str | None = None,
) -> Object:
    _check(served, subresource)
    if subresource == "scale":
        document.check(custom=False)
        return await scaling.change(
            home, served, name, namespace, lambda scale: document.apply(scale, scaling.SCHEMA), version, caller
        )
    document.check(custom=served.custom)
    schema = "" if served.custom else writing.schema_name(served)
    update = Update(name, namespace, lambda obj: document.apply(obj, schema), version, subresource)
    return await writing.update(home, served, update, caller)


async def create(
    home: Home, served: Served, name: str, namespace: str, subresource: str, body: Object, caller: Caller
) -> Object:
    """POST of binding and eviction; PUT of scale, as the Store has it."""
    _check(served, subresource)
    if subresource == "scale":
        return await replace(home, served, name, namespace, body, subresource, caller)
    if subresource not in schemas.SUBRESOURCE_BODIES:
        raise NotFound("the server could not find the requested resource")
    what = subresource.capitalize()
    try:
        body = decoding.decode(schemas.SUBRESOURCE_BODIES[subresource], body).object
    except decoding.UndecodableError as error:
        raise BadRequest(f'{what} in version "v1" cannot be handled as a {what}: {error}') from error
    given = body.setdefault("metadata", {}).setdefault("name", name)
    if given != name:
        raise BadRequest(f"name in URL does not match name in {what} object")
    act = binding.bind if subresource == "binding" else eviction.evict
    await act(home, served, name, namespace, body, caller)
    return dict(SUCCESS)
