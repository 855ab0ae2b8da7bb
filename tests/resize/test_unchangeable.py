"""What no runtime changes while a container runs is Infeasible, in the design's words, and nothing else is touched."""

import pytest

from headrace.api.objects import key_of
from headrace.objects.crd.custom import CustomStrategy
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.resizing import scaling_action
from headrace.resize.actions_plan import Seen, plan
from headrace.runtime.actions import Patch
from tests.resize.pods import ledger, node
from tests.resize.test_actions_plan import NOW, a_pod, action

NAMES = [
    ("hugepages-2Mi", "64Mi", "HugePages"),
    ("hugepages-1Gi", "1Gi", "HugePages"),
    ("hugetlb.2MB.max", "64Mi", "HugePages"),
    ("cpuset.mems", "1", "NUMA Binding"),
    ("cpuset.cpus", "3", "CPU Affinity"),
    ("numa", "1", "NUMA Binding"),
    ("topology", "1", "NUMA Binding"),
    ("kernel.shmmax", "4096", "Kernel Parameters"),
    ("net.core.somaxconn", "1024", "Kernel Parameters"),
    ("net/core/somaxconn", "1024", "Kernel Parameters"),
    ("vm.overcommit_memory", "1", "Kernel Parameters"),
    ("sysctls", "1", "Kernel Parameters"),
    ("ephemeral-storage", "1Gi", "resource"),
    ("example.com/gpu", "1", "resource"),
]


def told(target, runtime="podman://4.3.1"):
    """What the plan makes of an action with this target."""
    place, asked = node(4000), action("a", "web/app")
    place["status"]["nodeInfo"] = {"containerRuntimeVersion": runtime}
    asked["spec"]["target"] = target
    pods = [a_pod("web")]
    return plan(Seen(place, ledger(*pods, cpu=4000), {key_of(each): each for each in pods}, (asked,)), NOW)


@pytest.mark.parametrize("runtime", ["podman", "process"])
@pytest.mark.parametrize(("name", "text", "kind"), NAMES, ids=[name for name, _, _ in NAMES])
@pytest.mark.parametrize("more", [{}, {"cpu": "2"}], ids=["alone", "with CPU, which stays too"])
def test_a_resource_that_cannot_change_is_infeasible_and_nothing_else_changes(runtime, name, text, kind, more):
    [patch, event] = told({name: text, **more}, f"{runtime}://1.0")
    assert isinstance(patch, Patch)
    assert patch.kind.kind == "ResourceScalingAction"
    status = patch.fields["status"]
    assert (status["state"], status["reason"], status["syncState"]) == ("Failed", "Infeasible", "FAILED")
    assert status["message"] == (
        f"Resource Validation Failed: {name} ({kind}) is a type of resource that the {runtime} runtime cannot change "
        "while the workload runs, only with its restart: change the Pod and create it anew"
    )
    assert event.reason == "ScalingFailed"


def test_several_are_named_together_and_cpu_and_memory_are_not_among_them():
    [patch, _] = told({"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "2Mi", "cpuset.mems": "1"})
    assert "cpuset.mems (NUMA Binding), hugepages-2Mi (HugePages) are types" in patch.fields["status"]["message"]
    assert told({"cpu": "2", "memory": "512Mi"})[0].fields.get("spec")


def test_an_unknown_resource_is_kept_in_the_action_so_that_it_can_be_answered():
    from headrace.serve.shipped import shipped_definitions

    wanted = "resourcescalingactions.headrace.dev"
    [definition] = [each for each in shipped_definitions() if each["metadata"]["name"] == wanted]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    strategy = CustomStrategy(schema, has_status=True, selectable=(), rule=scaling_action)
    obj = action("a", "web/app")
    obj["spec"]["target"] = {"hugepages-2Mi": "64Mi", "cpuset.mems": 1}
    strategy.prune(obj)
    strategy.default(obj)
    errors = FieldErrors()
    strategy.validate(obj, errors)
    assert not errors.causes
    assert obj["spec"]["target"] == {"hugepages-2Mi": "64Mi", "cpuset.mems": 1}
