"""What a request asks for, read from its method and URL as Kubernetes' RequestInfo does."""

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl

from headrace.api.selectors import BadSelector, parse_fields
from headrace.apiserver.identity import Identity
from headrace.apiserver.negotiation import Form

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", ""]

ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))
CONNECTS = frozenset({"exec", "attach", "portforward", "proxy"})
_WRITES: dict[str, Verb] = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_PARTS = frozenset({"status", "finalize"})


@dataclass(slots=True)
class Request:
    """`plural` is empty for paths that name no resource.

    `about` is the kind and name of the object in the body, once it is read: errors name it.
    """

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    verb: Verb = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    about: tuple[str, str] = ("", "")
    identity: Identity = ANONYMOUS
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    body: bytes = b""
    connection: int | None = None
    form: Form = "json"

    @property
    def resource(self) -> str:
        """`pods`, `deployments.apps`: as Kubernetes names a resource in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def flag(self, name: str) -> bool:
        """A boolean parameter; empty and `1` count as true, as for Go's converter."""
        value = self.query.get(name)
        return value is not None and value.lower() not in ("false", "0")


def parse(method: str, path: str, query_string: bytes) -> Request:
    request = Request(method, path)
    if query_string:
        request.query = dict(parse_qsl(query_string.decode("utf-8", "replace"), keep_blank_values=True))
    parts = path.split("/")
    if parts[-1] == "":
        parts.pop()  # some clients end their paths with a slash
    if len(parts) < 4:
        return request
    if parts[1] == "api":
        request.version, rest = parts[2], 3
    elif parts[1] == "apis" and len(parts) > 4:
        request.group, request.version, rest = parts[2], parts[3], 4
    else:
        return request
    if not _read_resource(request, parts[rest:]):
        return request
    request.verb = _verb(request)
    if request.verb in ("list", "watch", "deletecollection") and not request.name:
        request.name = _single_name(request.query.get("fieldSelector", ""))
    return request


def _read_resource(request: Request, parts: list[str]) -> bool:
    if parts[0] == "namespaces" and len(parts) > 1:
        request.namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_PARTS:
            parts = parts[2:]
        else:
            request.namespace = ""
    if not all(parts) or len(parts) > 3:
        request.namespace = ""
        return False
    request.plural = parts[0]
    if len(parts) > 1:
        request.name = parts[1]
    if len(parts) > 2:
        request.subresource = parts[2]
    return True


def _verb(request: Request) -> Verb:
    if request.subresource in CONNECTS:
        return "create"  # whatever the method: a shell is not a read
    if request.method in ("GET", "HEAD"):
        if request.query and request.flag("watch"):
            return "watch"
        return "get" if request.name else "list"
    verb = _WRITES.get(request.method, "")
    return "deletecollection" if verb == "delete" and not request.name else verb


def _single_name(selector: str) -> str:
    """The name that a field selector pins, so that who may read one object may also watch it."""
    return pinned(selector, "metadata.name") or ""


def pinned(selector: str, path: str) -> str | None:
    """The one value that a field selector allows a field to have; None if it allows others, or cannot be read.

    Read by the same grammar as the list itself: a comma that is escaped there is no end of a term here either.
    """
    if path not in selector:
        return None
    try:
        terms = parse_fields(selector)
    except BadSelector:
        return None
    return next((term.value for term in terms if term.path == path and term.equal), None)
