"""Which resources no runtime changes while a container runs, and what is answered to who asks for that. Pure.

Source: the design "Dynamic Resource Scaling", its limitation: a type of resource that the runtime does not support
cannot be changed dynamically; some change only with a restart of the workload.
"""

import re
from collections.abc import Iterable

from headrace.resize.plan import RESIZED

KINDS = (
    (re.compile(r"hugepages-|hugetlb\."), "HugePages"),
    (re.compile(r"cpuset\.cpus"), "CPU Affinity"),
    (re.compile(r"cpuset\.mems|numa|topology"), "NUMA Binding"),
    (re.compile(r"sysctls?\b|(?:kernel|net|vm|fs|abi|debug|dev|user)[./]"), "Kernel Parameters"),
)
"""How a resource's name begins, and the design's word for its type."""
OTHER = "resource"


def infeasible(names: Iterable[str], runtime: str) -> str:
    """Why a resize that names these can never be done there; empty when it can. `runtime`: podman, process."""
    found = [f"{name} ({_kind(name)})" for name in sorted(names) if name not in RESIZED]
    if not found:
        return ""
    which = "a type of resource" if len(found) == 1 else "types of resources"
    are = "is" if len(found) == 1 else "are"
    where = f"the {runtime} runtime" if runtime else "the node's runtime"
    return (
        f"{', '.join(found)} {are} {which} that {where} cannot change while the workload runs, "
        "only with its restart: change the Pod and create it anew"
    )


def _kind(name: str) -> str:
    return next((kind for pattern, kind in KINDS if pattern.match(name)), OTHER)
