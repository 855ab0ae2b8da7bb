"""`headrace explain`: where a Pod is or why nowhere, what each container wants, may have and has, and its devices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from headrace.cli import explain_claim
from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.explain_claim import Devices, classless, gather, wanting
from headrace.cli.groups import Named
from headrace.cli.objects import columns

if TYPE_CHECKING:
    from headrace.ledger.document import BooksDocument

LATEST_EVENTS = 5


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a Pod: its claims by name (None: not there), the nodes, every Pod of them, its events.

    `devices` is looked up for a Pod that waits with claims, `reservations` and the books that the server keeps (None:
    none are served, or they may not be read) for any that waits.
    """

    pod: Mapping[str, Any]
    nodes: Sequence[Mapping[str, Any]]
    pods: Sequence[Mapping[str, Any]]
    claims: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()
    devices: Devices | None = None
    reservations: Sequence[Mapping[str, Any]] = ()
    served: "BooksDocument | None" = None


@click.group(cls=Named)
def explain() -> None:
    """Say why an object is as it is."""


explain.add_command(explain_claim.claim)


@explain.command(short_help="Where a Pod is, or why nowhere.")
@click.argument("name")
@targeted
def pod(name: str, target: Target) -> None:
    """Where a Pod is or why nowhere; what each container wants, may have and has; its devices."""
    run(_pod(name.removeprefix("pod/"), target))


async def _pod(name: str, target: Target) -> None:
    from headrace.api.kinds import CAPACITY_RESERVATION, EVENT, NODE, POD, RESOURCE_CLAIM
    from headrace.cli.capacity import committed
    from headrace.devices.plan import claim_of_entry
    from headrace.scheduling import extended
    from headrace.store.kubernetes import KubernetesStore
    from headrace.store.protocol import NotFound

    async with connected(target) as (client, namespace):
        store = KubernetesStore(client)
        pod = await store.get(POD, name, namespace)
        nodes = (await store.list(NODE)).items
        pods = (await store.list(POD)).items
        events = (await store.list(EVENT, namespace, fields=f"involvedObject.uid={pod['metadata']['uid']}")).items
        claims: dict[str, Mapping[str, Any] | None] = {}
        for entry in pod["spec"].get("resourceClaims") or ():
            claim = claim_of_entry(pod, entry)
            try:
                claims[claim or f"(entry {entry['name']})"] = (
                    await store.get(RESOURCE_CLAIM, claim, namespace) if claim else None
                )
            except NotFound:
                claims[claim or ""] = None
        if (claim := extended.status_of(pod)) is not None:
            with suppress(NotFound):
                claims[claim] = await store.get(RESOURCE_CLAIM, claim, namespace)
        waits = (claims or extended.asked(pod)) and not pod["spec"].get("nodeName")
        devices = await gather(store) if waits else None
        reservations, served = [], None
        if not pod["spec"].get("nodeName"):
            with suppress(NotFound):  # a cluster may not have the kind
                reservations = (await store.list(CAPACITY_RESERVATION)).items
            served = await committed(client)
    for line in lines(Found(pod, nodes, pods, claims, events, devices, reservations, served)):
        click.echo(line)


def lines(found: Found) -> Iterator[str]:
    """The explanation, as people read it."""
    pod = found.pod
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    where = f"on {spec['nodeName']}" if spec.get("nodeName") else "on no node yet"
    leaving = ", being deleted" if meta.get("deletionTimestamp") else ""
    yield f"Pod {meta['namespace']}/{meta['name']}: {status.get('phase', 'Unknown')}, {where}{leaving}"
    if status.get("reason") or status.get("message"):
        yield f"  {': '.join(each for each in (status.get('reason'), status.get('message')) if each)}"
    if not spec.get("nodeName"):
        yield from _placement(found)
    yield ""
    yield from _containers(spec, status)
    if found.claims:
        yield ""
        yield from _claims(found.claims)
    missing = [each for each in found.claims.values() if each and not (each.get("status") or {}).get("allocation")]
    if found.devices is not None and (wanted := [*missing, *_for_extended(found)]):
        yield from wanting(wanted, found.devices)
        yield from classless(wanted, found.devices)
    told = [each for each in status.get("conditions") or () if each.get("message")]
    if told:
        yield ""
        yield "Conditions"
        for each in told:
            yield f"  {each['type']}={each['status']} {each.get('reason', '')}: {each['message']}"
    if found.events:
        yield ""
        yield "Events"
        for each in sorted(found.events, key=lambda one: one.get("lastTimestamp") or "")[-LATEST_EVENTS:]:
            count = f" (x{each['count']})" if each.get("count", 1) > 1 else ""
            yield f"  {each['type']:<8} {each['reason']}: {each['message']}{count}"


def _backed(found: Found) -> dict[str, str]:
    """The extended resources that the Pod asks for and a class stands for, with the class."""
    from headrace.scheduling.extended import asked, classes_by_resource

    classes = classes_by_resource(found.devices.classes) if found.devices is not None else {}
    return {name: classes[name] for name in asked(found.pod) if name in classes}


def _for_extended(found: Found) -> list[dict[str, Any]]:
    """The claim that the scheduler would make for them."""
    from headrace.scheduling.extended import backing, claim_for

    backed = _backed(found)
    return [claim_for(found.pod, backing(found.pod, backed).requests)] if backed else []


def _placement(found: Found) -> Iterator[str]:
    """Each node with the first filter that refuses, and where amounts are short, the ledger's own sentence.

    The books are those that the server's guard keeps, which know too what was deleted and not confirmed yet.
    """
    from headrace.api.kinds import CAPACITY_RESERVATION
    from headrace.api.objects import key_of, name_of, namespace_of
    from headrace.cli.capacity import readable
    from headrace.ledger.books import Books
    from headrace.ledger.node import Shortfall
    from headrace.ledger.pods import contribution
    from headrace.scheduling.filters import Candidate, Wanted, host_ports, reasons

    pods, unreadable = readable([each for each in found.pods if key_of(each) != key_of(found.pod)])
    [asking], odd = readable([found.pod])
    yield from (f"  {each}" for each in (*odd, *unreadable))
    books = Books.fold(
        [
            *((("nodes", "", name_of(node)), dict(node)) for node in found.nodes),
            *((("pods", namespace_of(each), name_of(each)), each) for each in pods),
            *(
                ((CAPACITY_RESERVATION.resource, namespace_of(dict(each)), name_of(dict(each))), dict(each))
                for each in found.reservations
            ),
        ]
    )
    kept = found.served.nodes if found.served is not None else {}
    spec = found.pod["spec"]
    amounts = contribution(asking).admitted()
    wanted = Wanted(key_of(found.pod), spec, amounts, host_ports(spec), frozenset(_backed(found)))
    for condition in (found.pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield f"  {condition.get('reason')}: {condition.get('message')}"
    for node in found.nodes:
        told = kept.get(name_of(node))
        ledger = told.ledger(name_of(node)) if told is not None else books.nodes()[name_of(node)]
        ports = frozenset[tuple[str, str, int]]().union(
            *(host_ports(each["spec"]) for each in found.pods if each["spec"].get("nodeName") == name_of(node))
        )
        refused = reasons(wanted, Candidate(node, ledger, ports))
        answer = ledger.admit(f"Pod {wanted.key}", wanted.amounts_on(ledger))
        lacks = f" ({answer})" if refused and isinstance(answer, Shortfall) else ""
        fits = "has room; what is missing is a device or a claim" if found.claims or wanted.backed else "has room"
        yield f"  {name_of(node)}: {', '.join(refused) or fits}{lacks}"


def _containers(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterable[str]:
    """Desired, admitted and actual amounts side by side."""
    from headrace.ledger.pods import LISTS

    known = {each["name"]: each for _, statuses in LISTS for each in status.get(statuses) or ()}
    rows = []
    for container in (each for containers, _ in LISTS for each in spec.get(containers) or ()):
        told = known.get(container["name"], {})
        desired = container.get("resources") or {}
        rows.append(
            [
                container["name"],
                _amounts(desired),
                _amounts(_admitted(told.get("allocatedResources"))) if told.get("allocatedResources") else "as desired",
                _amounts(told["resources"]) if told.get("resources") else "-",
                _state(told),
            ]
        )
    return columns(["CONTAINER", "DESIRED", "ADMITTED", "ACTUAL", "STATE"], rows)


def _admitted(allocated: Mapping[str, str] | None) -> dict[str, dict[str, str]]:
    """allocatedResources names limits `limits.cpu`; requests go by their own names."""
    amounts = allocated or {}
    return {
        "requests": {name: value for name, value in amounts.items() if not name.startswith("limits.")},
        "limits": {name[7:]: value for name, value in amounts.items() if name.startswith("limits.")},
    }


def _amounts(resources: Mapping[str, Any]) -> str:
    """`cpu 250m/500m memory 64Mi`: request and limit, once where they are equal."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    told = []
    for name in dict.fromkeys((*requests, *limits)):
        request, limit = requests.get(name, "0"), limits.get(name, "no limit")
        told.append(f"{name} {request if request == limit else f'{request}/{limit}'}")
    return " ".join(told) or "nothing"


def _state(status: Mapping[str, Any]) -> str:
    for name, told in (status.get("state") or {}).items():
        reason, message = told.get("reason"), told.get("message")
        detail = ": ".join(each for each in (reason, message) if each)
        return f"{name} ({detail})" if detail else str(name)
    return "not started"


def _claims(claims: Mapping[str, Mapping[str, Any] | None]) -> Iterator[str]:
    yield "Claims"
    for name, claim in claims.items():
        if claim is None:
            yield f"  {name}: does not exist"
            continue
        status = claim.get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        if not status.get("allocation"):
            yield f"  {name}: not allocated"
        for each in results:
            yield f"  {name}: request {each['request']} has {each['driver']}/{each['pool']}/{each['device']}"
