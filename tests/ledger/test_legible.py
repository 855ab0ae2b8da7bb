"""What is charged of a Pod with a quantity that cannot be read: the larger of all that is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.ledger.legible import legible
from headrace.ledger.pods import MANAGED_LABEL, charged
from tests.ledger.builders import container, pod, status

ODD = "a lot"
MANAGED = {MANAGED_LABEL: "true"}


@pytest.mark.parametrize(
    ("found", "cores", "place"),
    [
        pytest.param(
            pod("web", container(cpu="2"), statuses=[status(allocated={"cpu": ODD}, actual={"cpu": "1"})]),
            2000,
            "status.containerStatuses[main].allocatedResources[cpu]",
            id="what is admitted is taken to be what is desired",
        ),
        pytest.param(
            pod("web", container(cpu="2"), statuses=[status(allocated={"cpu": ODD}, actual={"cpu": "3"})]),
            3000,
            "status.containerStatuses[main].allocatedResources[cpu]",
            id="what was read back counts if it is more",
        ),
        pytest.param(
            pod("web", container(cpu=ODD), statuses=[status(allocated={"cpu": "3"}, actual={"cpu": "1"})]),
            3000,
            "spec.containers[main].resources.requests[cpu]",
            id="what is admitted counts whatever is desired",
        ),
        pytest.param(
            pod("web", container(cpu=ODD), statuses=[status(allocated={"cpu": ODD}, actual={"cpu": "1"})]),
            1000,
            "spec.containers[main].resources.requests[cpu]",
            id="what was read back is left",
        ),
        pytest.param(
            pod(
                "web",
                container(limits={"cpu": "4"}, cpu="1"),
                statuses=[status(allocated={"limits.cpu": ODD})],
                labels=MANAGED,
            ),
            4000,
            "status.containerStatuses[main].allocatedResources[limits.cpu]",
            id="a limit is taken to be the desired limit",
        ),
        pytest.param(
            pod("web", container(limits={"cpu": "4"}), statuses=[status(allocated={"cpu": ODD})]),
            4000,
            "status.containerStatuses[main].allocatedResources[cpu]",
            id="a request that is not given is the limit",
        ),
        pytest.param(
            pod("web", container(cpu="1"), overhead={"cpu": ODD}), 1000, "spec.overhead[cpu]", id="without the overhead"
        ),
        pytest.param(
            pod("web", container(cpu="1"), resources={"requests": {"cpu": ODD}}),
            1000,
            "spec.resources.requests[cpu]",
            id="without a Pod's own request its containers' count",
        ),
        pytest.param(
            pod("web", container(cpu="1"), initContainers=[container("init", cpu=ODD)]),
            1000,
            "spec.initContainers[init].resources.requests[cpu]",
            id="an initial container",
        ),
    ],
)
def test_what_is_known_is_charged(found, cores, place):
    read, why = legible(found)
    assert charged(read).held()["cpu"] == cores
    assert why.startswith(f"{place}: 'a lot' cannot be read: quantities must match")


QUANTITIES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "limits.cpu"]), st.sampled_from(["1", "2", "300m", ODD, "", None, "1e99"])
)
BOTH = st.fixed_dictionaries({}, optional={"requests": QUANTITIES, "limits": QUANTITIES})


@given(resources=BOTH, told=st.fixed_dictionaries({}, optional={"allocatedResources": QUANTITIES, "resources": BOTH}))
def test_every_pod_is_charged_and_one_that_can_be_read_is_itself(resources, told):
    found = pod("web", {"name": "main", "resources": resources}, statuses=[{"name": "main", **told}])
    read, why = legible(found)
    assert charged(read) is not None
    assert (read is found) == (why == "")
    assert legible(read) == (read, "")
