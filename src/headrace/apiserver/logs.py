"""GET pods/NAME/log: which container of which node is meant, and what the node's agent sends, passed on."""

from collections.abc import Mapping
from typing import Any

from headrace.api.kinds import POD
from headrace.api.objects import Object, uid_of
from headrace.apiserver.answers import Stream
from headrace.apiserver.nodes import LogOptions, Nodes
from headrace.apiserver.requests import Request
from headrace.objects.local import LocalStore
from headrace.store.protocol import BadRequest


class PodLogs:
    def __init__(self, store: LocalStore, nodes: Nodes) -> None:
        self._store = store
        self._nodes = nodes

    async def stream(self, request: Request) -> Stream:
        """Raises NotFound without such a Pod, BadRequest for a container that it has not or that has not begun."""
        options = _options(request)
        pod = await self._store.get(POD, request.name, request.namespace)
        container = _container(pod, request.query.get("container", ""))
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        if not node:
            raise BadRequest(f"pod {request.name} does not have a host assigned")
        _check_began(pod, container, options)
        pieces = self._nodes.logs(node, uid_of(pod), container, options)
        return Stream(pieces, "stream", b"text/plain; charset=utf-8", starts_at_once=False)


def _options(request: Request) -> LogOptions:
    query = request.query
    return LogOptions(
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        tail_lines=_number(query, "tailLines", 0),
        since_seconds=_number(query, "sinceSeconds", 1),
        limit_bytes=_number(query, "limitBytes", 1),
    )


def _number(query: Mapping[str, str], name: str, least: int) -> int | None:
    text = query.get(name)
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19) or int(text) < least:
        raise BadRequest(f"{name}: {text!r} must be a whole number, {least} or more")
    return int(text)


def _container(pod: Object, wanted: str) -> str:
    spec: Mapping[str, Any] = pod.get("spec") or {}
    containers = [str(entry["name"]) for entry in spec.get("containers") or ()]
    initial = [str(entry["name"]) for entry in spec.get("initContainers") or ()]
    name = pod["metadata"]["name"]
    if wanted:
        if wanted in containers or wanted in initial:
            return wanted
        raise BadRequest(f"container {wanted} is not valid for pod {name}")
    if len(containers) == 1:
        return containers[0]
    named = ", ".join([*containers, *initial])
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{named}]")


def _check_began(pod: Object, container: str, options: LogOptions) -> None:
    status: Mapping[str, Any] = pod.get("status") or {}
    found: Mapping[str, Any] = {}
    for key in ("containerStatuses", "initContainerStatuses"):
        for entry in status.get(key) or ():
            if entry.get("name") == container:
                found = entry
    name = pod["metadata"]["name"]
    if options.previous and not (found.get("lastState") or {}).get("terminated"):
        raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
    waiting = (found.get("state") or {}).get("waiting")
    if waiting is not None and not options.previous and not (found.get("lastState") or {}).get("terminated"):
        reason = waiting.get("reason", "ContainerCreating")
        raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
