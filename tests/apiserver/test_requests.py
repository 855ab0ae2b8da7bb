"""What a URL asks for, and whether a role may ask it."""

import asyncio
from typing import Any

import pytest

from headrace.apiserver.authorization import Authorizer
from headrace.apiserver.identity import Identity, identity_of
from headrace.apiserver.requests import Request, parse
from headrace.apiserver.statuses import Failure
from headrace.store.protocol import Forbidden


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        pytest.param("GET", "/api/v1/pods", ("list", "", "v1", "", "pods", "", ""), id="all Pods"),
        pytest.param("GET", "/api/v1/pods?watch=true", ("watch", "", "v1", "", "pods", "", ""), id="a watch"),
        pytest.param("GET", "/api/v1/pods?watch=0", ("list", "", "v1", "", "pods", "", ""), id="a watch switched off"),
        pytest.param(
            "GET", "/api/v1/namespaces/a/pods/b", ("get", "", "v1", "a", "pods", "b", ""), id="one Pod of a namespace"
        ),
        pytest.param(
            "GET", "/api/v1/namespaces/a/pods/b/", ("get", "", "v1", "a", "pods", "b", ""), id="a slash at the end"
        ),
        pytest.param(
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            ("patch", "apps", "v1", "a", "deployments", "b", "scale"),
            id="a subresource of a group",
        ),
        pytest.param("GET", "/api/v1/namespaces/a", ("get", "", "v1", "", "namespaces", "a", ""), id="a namespace"),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            ("update", "", "v1", "", "namespaces", "a", "finalize"),
            id="a namespace's subresource",
        ),
        pytest.param(
            "DELETE",
            "/api/v1/namespaces/a/pods",
            ("deletecollection", "", "v1", "a", "pods", "", ""),
            id="many at once",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/a/pods/b/exec?command=sh",
            ("create", "", "v1", "a", "pods", "b", "exec"),
            id="a shell is a create, also by GET",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Db&watch=1",
            ("watch", "", "v1", "a", "secrets", "b", ""),
            id="a watch of one object names it",
        ),
        pytest.param("POST", "/apis/apps/v1", ("", "", "", "", "", "", ""), id="a version is no resource"),
        pytest.param("GET", "/healthz", ("", "", "", "", "", "", ""), id="a path is no resource"),
        pytest.param("GET", "/api/v1//pods", ("", "", "v1", "", "", "", ""), id="an empty part is no resource"),
        pytest.param(
            "GET", "/api/v1/namespaces/a/pods/b/log/more", ("", "", "v1", "", "", "", ""), id="too many parts"
        ),
    ],
)
def test_a_url_is_read_as_kubernetes_reads_it(method: str, url: str, expected: tuple[str, ...]) -> None:
    path, _, query = url.partition("?")
    found = parse(method, path, query.encode())
    assert (
        found.verb,
        found.group,
        found.version,
        found.namespace,
        found.plural,
        found.name,
        found.subresource,
    ) == expected


ADMIN = identity_of("system:admin", ("system:masters",))
CONTROLLER = identity_of("system:headrace", ("headrace:controllers",))
VIEWER = identity_of("viewer", ("headrace:viewers",))
NOBODY = identity_of("bob", ())
ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))
SECRETS = "/api/v1/namespaces/kube-system/secrets"


class NoNode:
    async def allows(self, _: Request) -> bool:
        return False


@pytest.mark.parametrize(
    ("identity", "method", "path", "allowed"),
    [
        pytest.param(ADMIN, "DELETE", "/apis/apps/v1/namespaces/a/deployments", True, id="admin does all"),
        pytest.param(ADMIN, "GET", "/anything", True, id="admin sees all paths"),
        pytest.param(VIEWER, "GET", "/api/v1/pods", True, id="viewer reads"),
        pytest.param(VIEWER, "GET", "/api/v1/namespaces/a/pods/b/log", True, id="viewer reads logs"),
        pytest.param(VIEWER, "GET", "/api/v1/namespaces/a/pods/b/exec", False, id="viewer gets no shell"),
        pytest.param(VIEWER, "GET", "/api/v1/secrets", False, id="viewer sees no secrets"),
        pytest.param(VIEWER, "PATCH", "/api/v1/namespaces/a/pods/b", False, id="viewer changes nothing"),
        pytest.param(VIEWER, "GET", "/apis", True, id="viewer discovers"),
        pytest.param(VIEWER, "GET", "/metrics", True, id="viewer reads metrics"),
        pytest.param(VIEWER, "GET", "/apisecret", False, id="a path that only begins like discovery"),
        pytest.param(VIEWER, "POST", "/headrace/v1alpha1/renew", False, id="only nodes renew"),
        pytest.param(CONTROLLER, "PATCH", "/api/v1/namespaces/a/pods/b/status", True, id="controller writes"),
        pytest.param(CONTROLLER, "POST", SECRETS, False, id="controller makes no credentials"),
        pytest.param(CONTROLLER, "PATCH", SECRETS + "/x", False, id="controller changes no credentials"),
        pytest.param(CONTROLLER, "DELETE", SECRETS + "/x", False, id="controller ends no revocation"),
        pytest.param(CONTROLLER, "GET", "/api/v1/secrets", True, id="controller lists what it collects"),
        pytest.param(
            CONTROLLER, "POST", "/api/v1/namespaces/a/serviceaccounts/b/token", False, id="controller issues no tokens"
        ),
        pytest.param(NOBODY, "GET", "/api/v1/pods", False, id="a user without a role reads nothing"),
        pytest.param(NOBODY, "GET", "/api", True, id="a user without a role discovers"),
        pytest.param(ANONYMOUS, "GET", "/version", True, id="anybody asks for the version"),
        pytest.param(ANONYMOUS, "GET", "/api", False, id="nobody discovers"),
        pytest.param(ANONYMOUS, "POST", "/headrace/v1alpha1/join", True, id="a machine asks to join"),
        pytest.param(
            identity_of("system:node:a", ()), "GET", "/api/v1/nodes/a", False, id="a node's name without its group"
        ),
        pytest.param(
            identity_of("bob", ("system:nodes",)), "GET", "/api/v1/nodes/a", False, id="a node's group without a name"
        ),
    ],
)
def test_a_role_may(identity: Identity, method: str, path: str, allowed: bool) -> None:
    request = parse(method, path, b"")
    request.identity = identity
    judge: Any = Authorizer(NoNode())  # type: ignore[arg-type]

    if allowed:
        asyncio.run(judge.authorize(request))
        return
    with pytest.raises((Forbidden, Failure)) as refusal:
        asyncio.run(judge.authorize(request))
    assert refusal.value.code == (401 if identity is ANONYMOUS else 403)
