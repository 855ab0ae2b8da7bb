"""Fresh random cases, answered by Kubernetes' own allocator and by ours: every answer must be the same.

Needs Go and the module proxy. HEADRACE_ALLOCATE_CASES says how many, HEADRACE_ALLOCATE_SEED which ones; a failure names
its seed: `python -m bench.allocate.fuzz --cases 1 --seed N --kind KIND` shows it again.
"""

import os
import shutil
from collections.abc import Iterator
from random import SystemRandom

import pytest

from bench.allocate.fuzz import Kind, differences
from bench.allocate.peer import Peer

pytestmark = pytest.mark.slow_reference

CASES = int(os.environ.get("HEADRACE_ALLOCATE_CASES", "4000"))


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    if shutil.which("go") is None:
        pytest.fail("Kubernetes' allocator is built with Go 1.26, which is not on PATH")
    with Peer() as running:
        yield running


@pytest.mark.parametrize(("kind", "share"), [("new", 1.0), ("known", 0.5), ("odd", 0.75)], ids=["new", "known", "odd"])
def test_random_cases_are_answered_as_kubernetes_answers_them(peer: Peer, kind: Kind, share: float) -> None:
    seed = int(os.environ.get("HEADRACE_ALLOCATE_SEED", str(SystemRandom().randrange(2**32))))
    found = list(differences(peer, range(seed, seed + int(CASES * share)), kind))
    wrong = [each for each in found if each]
    assert not wrong, f"{len(wrong)} of {len(found)} differ from seed {seed}\n" + "\n".join(wrong[:5])
    assert found.count(None) < len(found) / 10
