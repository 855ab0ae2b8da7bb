"""Who may do what, as kubectl tells it."""

from pathlib import Path

import pytest
import yaml

from headrace.api.kinds import CONFIG_MAP, SECRET
from headrace.apiserver.identity import VIEWER_GROUP
from headrace.apiserver.tokens import create_bearer_token, revoke_token
from tests.apiserver.serving import Serving
from tests.e2e.kubectl.conftest import Kubectl
from tests.e2e.kubectl.manifests import SETTINGS


async def test_a_viewer_reads_and_changes_nothing(kubectl: Kubectl, server: Serving) -> None:
    await server.store.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "default")
    viewer = {"KUBECONFIG": str(server.directory / "viewer.kubeconfig")}
    assert await kubectl("get", "cm", "-o", "name", **viewer) == "configmap/a\n"
    told = await kubectl("delete", "cm", "a", code=1, **viewer)
    assert told == (
        'Error from server (Forbidden): configmaps "a" is forbidden: User "viewer" cannot delete resource "configmaps" '
        'in API group "" in the namespace "default"\n'
    )
    assert 'cannot list resource "secrets"' in await kubectl("get", "secrets", code=1, **viewer)
    assert "(Forbidden)" in await kubectl("get", "secret", "ghost", code=1, **viewer)
    assert 'cannot create resource "configmaps"' in await kubectl("create", "-f", "-", stdin=SETTINGS, code=1, **viewer)


def with_token(server: Serving, path: Path, token: str) -> Path:
    config = yaml.safe_load(server.running.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path


async def test_a_token_works_until_it_is_revoked(kubectl: Kubectl, server: Serving, tmp_path: Path) -> None:
    token = await create_bearer_token(server.store, "ann", (VIEWER_GROUP,), now=0.0)
    secrets = await server.store.list(SECRET, "kube-system")
    assert all(token.split(".")[2] not in str(secret) for secret in secrets.items)
    config = {"KUBECONFIG": str(with_token(server, tmp_path / "token.kubeconfig", token))}
    await kubectl("get", "cm", **config)
    assert 'User "ann" cannot create' in await kubectl("create", "-f", "-", stdin=SETTINGS, code=1, **config)
    await revoke_token(server.store, token.split(".")[1])
    assert "Unauthorized" in await kubectl("get", "cm", code=1, **config)


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("hr.000000000000.wrong", id="an unknown token"),
        pytest.param("nonsense", id="a text that is no token"),
    ],
)
async def test_who_shows_nothing_valid_is_unauthorized(
    kubectl: Kubectl, server: Serving, tmp_path: Path, token: str
) -> None:
    config = {"KUBECONFIG": str(with_token(server, tmp_path / "token.kubeconfig", token))}
    told = await kubectl("get", "--raw", "/api/v1/namespaces", code=1, **config)
    assert "Unauthorized" in told
