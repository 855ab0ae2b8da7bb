"""What tests of any folder may ask for: a real Kubernetes API server, one for the whole run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.build import CannotBuild, programs
from tests.kubernetes.cluster import ControlPlane, control_plane


@pytest.fixture(scope="session")
def kubernetes_programs() -> Path:
    try:
        return programs()
    except CannotBuild as why:
        pytest.fail(str(why))


@pytest.fixture(scope="session")
def kubernetes(kubernetes_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver alone: no controller changes what a test has written."""
    with control_plane(tmp_path_factory.mktemp("kubernetes"), kubernetes_programs) as plane:
        yield plane
