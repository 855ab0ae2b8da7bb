"""What tests of any folder may ask for: a real Kubernetes API server, one for the whole run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kubernetes.build import CannotBuild, programs
from tests.kubernetes.cluster import ControlPlane, control_plane

# A law says what is true, not how fast a busy machine makes examples: time is judged by bench/ and tests' own bounds.
settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")


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
