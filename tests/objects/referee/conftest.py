"""Both servers, fresh for each test: what another test has left would decide here."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.api import kinds
from headrace.client.http import Client
from headrace.client.kubeconfig import load
from headrace.client.paths import collection_path
from tests.apiserver.serving import serving
from tests.kubernetes.cluster import control_plane
from tests.objects.referee.samples import NAMESPACE, Servers


@pytest.fixture
async def servers(kubernetes_programs: Path, tmp_path: Path) -> AsyncIterator[Servers]:
    directory = tmp_path / "kubernetes"
    directory.mkdir()
    with control_plane(directory, kubernetes_programs) as plane:
        async with serving(tmp_path) as server, server.http() as ours, Client(load(plane.kubeconfig)) as theirs:
            for client in (ours, theirs):
                account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
                await client.request("POST", collection_path(kinds.SERVICE_ACCOUNT, NAMESPACE), body=account)
            yield Servers(ours, theirs)
