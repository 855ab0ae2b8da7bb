"""What a role may do. Nothing is allowed that is not named here, and a refusal comes before any look at what exists."""

from headrace.apiserver.identity import Identity
from headrace.apiserver.node_authorization import NodeAuthorizer
from headrace.apiserver.requests import Request
from headrace.apiserver.statuses import Failure, unauthorized
from headrace.ledger.document import LEDGER_PATH
from headrace.metrics.paths import METRICS_PATH, USAGE_PATH
from headrace.objects.strategies.claim_rights import ASSOCIATED, DRIVER
from headrace.store.protocol import Forbidden

PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/cacerts", "/headrace/v1alpha1/join"})
DISCOVERY_PREFIXES = ("/api", "/apis", "/openapi")
NODE_PATHS = frozenset({"/headrace/v1alpha1/renew"})
READS = frozenset({"get", "list", "watch"})
UNSEEN_BY_VIEWERS = frozenset({"secrets"})
CREDENTIAL_NAMESPACE = "kube-system"


class Authorizer:
    def __init__(self, nodes: NodeAuthorizer) -> None:
        self._nodes = nodes

    async def authorize(self, request: Request) -> None:
        """Raises Forbidden (403), or a 401 Failure for somebody who showed nothing."""
        allowed = _allows(request)
        if allowed is None:
            allowed = await self._nodes.allows(request)
        if not allowed:
            if request.identity.role == "none" and request.identity.user == "system:anonymous":
                raise unauthorized()
            raise forbidden(request)


def _allows(request: Request) -> bool | None:
    """None: a node asks, and what is bound to it decides."""
    if request.path in PUBLIC_PATHS:
        return True
    identity = request.identity
    if identity.role == "admin":
        return True
    if identity.user == "system:anonymous":
        return False
    if not request.plural:
        return _path_is_open(request, identity)
    match identity.role:
        case "controller":
            return _controller_allows(request)
        case "viewer":
            return request.verb in READS and request.plural not in UNSEEN_BY_VIEWERS
        case "node":
            return None
    return False


def _path_is_open(request: Request, identity: Identity) -> bool:
    if request.method not in ("GET", "HEAD"):
        if request.path == METRICS_PATH:
            return identity.role == "controller"
        return identity.role == "node" and request.path in NODE_PATHS
    if request.path in ("/metrics", LEDGER_PATH, USAGE_PATH):
        return identity.role in ("controller", "viewer")
    return any(request.path == prefix or request.path.startswith(prefix + "/") for prefix in DISCOVERY_PREFIXES)


def _controller_allows(request: Request) -> bool:
    """Everything but touching credentials: a controller that is taken over must not outlive its revocation."""
    if request.subresource == "token":
        return False
    if request.plural == "secrets" and request.namespace in ("", CREDENTIAL_NAMESPACE):
        return request.verb in READS
    return True


def may_write_part(identity: Identity, verb: str, resource: str, name: str) -> bool:
    """Rights on parts of an object (`resourceclaims/binding`): what is allocated is written by controllers;
    a node says how the devices are that are allocated on it."""
    if identity.role in ("admin", "controller"):
        return True
    return identity.role == "node" and resource == DRIVER and verb.startswith(ASSOCIATED)


def forbidden(request: Request) -> Failure | Forbidden:
    user = request.identity.user
    if not request.plural:
        return Forbidden(f'forbidden: User "{user}" cannot {request.method.lower()} path "{request.path}"')
    resource = f"{request.plural}/{request.subresource}" if request.subresource else request.plural
    where = f' in the namespace "{request.namespace}"' if request.namespace else " at the cluster scope"
    what = f'{request.resource} "{request.name}"' if request.name else request.resource
    return Forbidden(
        f'{what} is forbidden: User "{user}" cannot {request.verb} resource "{resource}" '
        f'in API group "{request.group}"{where}'
    )
