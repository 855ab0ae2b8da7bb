"""Extended resources that a DeviceClass backs: `nvidia.com/gpu: 1` becomes requests of a claim made for the Pod (pure).

The claim has one request per container and resource. Containers that start and end before the others (init containers
that are no sidecars) use what later ones ask for anyway. Source: KEP-5004, kube-scheduler's DynamicResources plug-in.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.api.kinds import RESOURCE_CLAIM
from headrace.api.objects import Fields, Object, marked_name, metadata, name_of, namespace_of, uid_of
from headrace.api.quantity import parse
from headrace.devices.plan import FINALIZER

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
NATIVE = "kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Backing:
    """What a Pod's claim for extended resources asks for, and which request serves which container's resource."""

    requests: tuple[Fields, ...]
    mappings: tuple[Fields, ...]


def is_extended(resource: str) -> bool:
    """Whether a DeviceClass may stand for it: the names of extended resources, and the implicit one of each class."""
    if resource.startswith(IMPLICIT_PREFIX):
        return True
    return "/" in resource and NATIVE not in resource and not resource.startswith(("requests.", "hugepages-"))


def classes_by_resource(classes: Iterable[Fields]) -> dict[str, str]:
    """Resource name to the class behind it. Of several classes with one name the newest counts, then the lower name."""
    found: dict[str, tuple[str, str]] = {}
    for each in sorted(classes, key=name_of, reverse=True):
        name, created = name_of(each), str(metadata(each).get("creationTimestamp", ""))
        explicit = (each.get("spec") or {}).get("extendedResourceName")
        if explicit and (explicit not in found or created >= found[explicit][0]):
            found[explicit] = (created, name)
        found[IMPLICIT_PREFIX + name] = (created, name)
    return {resource: name for resource, (_, name) in found.items()}


def asked(pod: Fields) -> dict[str, None]:
    """The extended resources of which any container requests more than zero, in the order of their names."""
    amounts = (item for _, each in _containers(pod) for item in _amounts(each).items())
    names = {name for name, amount in amounts if is_extended(name) and parse(str(amount)).value()}
    return dict.fromkeys(sorted(names))


def backing(pod: Fields, resources: Mapping[str, str]) -> Backing:
    """For these resources (name to class) of the Pod."""
    requests: list[Fields] = []
    mappings: list[Fields] = []
    for resource in sorted(resources):
        ours, mapped = _of_resource(pod, resource, resources[resource])
        requests += ours
        mappings += mapped
    return Backing(tuple(sorted(requests, key=lambda each: str(each["name"]))), tuple(mappings))


def _of_resource(pod: Fields, resource: str, device_class: str) -> tuple[list[Fields], list[Fields]]:
    containers = list(_containers(pod))
    lasting: dict[int, Fields] = {}
    mappings: list[Fields] = []
    for at, (is_short, container) in enumerate(containers):
        if not is_short:
            request, mapped = _of_container(at, container, resource, device_class, ())
            mappings += mapped
            if request is not None:
                lasting[at] = request
    largest: Fields | None = None
    names: set[str] = set()
    short: list[Fields] = []
    for at, (is_short, container) in enumerate(containers):
        if is_short:
            later = [lasting[other] for other in sorted(lasting) if other >= at]
            request, mapped = _of_container(at, container, resource, device_class, later)
            short += mapped
            if request is not None:
                names.add(str(request["name"]))
                if largest is None or largest["exactly"]["count"] < request["exactly"]["count"]:
                    largest = request
    if largest is not None:  # they run one after the other: the largest request serves all of them
        short = [{**each, "requestName": largest["name"]} if each["requestName"] in names else each for each in short]
    return [*([largest] if largest else []), *lasting.values()], [*mappings, *short]


def _of_container(
    at: int, container: Fields, resource: str, device_class: str, reusable: Sequence[Fields]
) -> tuple[Fields | None, list[Fields]]:
    amounts = _amounts(container)
    count = parse(str(amounts.get(resource, 0))).value()
    if not count:
        return None, []
    mappings: list[Fields] = []
    there = 0
    for each in reusable:
        there += each["exactly"]["count"]
        mappings.append(_mapping(container, resource, each["name"]))
        if there >= count:
            return None, mappings
    name = f"container-{at}-request-{sorted(amounts).index(resource)}"
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count - there}
    return {"name": name, "exactly": exactly}, [*mappings, _mapping(container, resource, name)]


def _mapping(container: Fields, resource: str, request: str) -> Fields:
    return {"containerName": container["name"], "resourceName": resource, "requestName": request}


def _containers(pod: Fields) -> Iterator[tuple[bool, Fields]]:
    """Each container, and whether it ends before the others start."""
    spec: Fields = pod.get("spec") or {}
    for each in spec.get("initContainers") or ():
        yield each.get("restartPolicy") != "Always", each
    for each in spec.get("containers") or ():
        yield False, each


def _amounts(container: Fields) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (container.get("resources") or {}).get("requests") or {}
    return found


def claim_name(pod: Fields) -> str:
    """The same for the same Pod, so that a plan made twice creates one claim."""
    mark = hashlib.sha256(f"{uid_of(pod)}/extended-resources".encode()).hexdigest()[:8]
    return marked_name(name_of(pod), f"extended-resources-{mark}")


def claim_for(pod: Fields, requests: Sequence[Fields]) -> Object:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod), "controller": True}
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.kind,
        "metadata": {
            "name": claim_name(pod),
            "namespace": namespace_of(pod),
            "annotations": {ANNOTATION: "true"},
            "finalizers": [FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": list(requests)}},
    }


def status_of(pod: Fields) -> str | None:
    """The claim for extended resources that the Pod's status names."""
    found = ((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return str(found) if found else None
