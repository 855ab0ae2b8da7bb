"""A Pod with a quantity that cannot be read holds back itself alone, and what is known of it stays charged."""

import asyncio

import pytest

from headrace.api.kinds import EVENT, POD, RESOURCE_SCALING_ACTION
from tests.resize.damage import Damaging, in_record, in_spec, in_what_is_so
from tests.resize.pods import resources
from tests.resize.scene import scene
from tests.resize.test_cluster_policies import cluster
from tests.resize.test_policy import LATENCY, measured

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]
PLACES = pytest.mark.parametrize("damage", [in_spec, in_record, in_what_is_so])


def seen_with(damage):
    return lambda store: Damaging(store, "odd", damage)


async def warnings(store, name):
    found = (await store.list(EVENT, "default", fields=f"involvedObject.name={name}")).items
    return [(each["reason"], each["count"], each["message"]) for each in found if each["type"] == "Warning"]


async def wish(store, name, cpu):
    fields = {"spec": {"containers": [{"name": "app", "resources": resources(cpu, 256)}]}}
    await store.patch(POD, name, "default", fields=fields, subresource="resize", strategic=True)


@PLACES
async def test_the_resizes_of_the_others_on_its_node_go_on(damage):
    async with scene(through=seen_with(damage)) as here:
        await here.pod("odd", 1000)
        await here.pod("web", 2000)
        for cpu in (3000, 4000, 2000):
            await wish(here.store, "web", cpu)
            await here.settle()
            assert await here.limits("web") == (cpu, cpu, cpu)


@PLACES
async def test_it_is_told_once_which_quantity_that_is(damage):
    async with scene(through=seen_with(damage)) as here:
        await here.pod("odd", 1000)
        await here.pod("web", 2000)
        for cpu in (3000, 4000):
            await wish(here.store, "web", cpu)
            await here.settle()
        [(reason, count, message)] = await warnings(here.store, "odd")
        assert (reason, count) == ("FailedValidation", 1)
        assert "[cpu]: 'a lot' cannot be read: quantities must match" in message


@PLACES
async def test_an_action_that_names_it_fails_and_those_of_the_others_are_carried_out(damage):
    async with scene(through=seen_with(damage)) as here:
        await here.pod("odd", 1000)
        await here.pod("web", 2000)
        await here.resize("a", workload="odd/app", cpu="2")
        await here.resize("b", cpu="3")
        await here.settle()
        assert (await here.told("a"))[:2] == ("Failed", "ResourceValidationFailed")
        assert "'a lot' cannot be read" in (await here.status("a"))["message"]
        assert await here.told("b") == ("Succeeded", "Synchronized", "SYNCHRONIZED")


@PLACES
async def test_a_policy_resizes_the_others_that_it_selects_and_says_whom_it_leaves_alone(damage):
    async with measured(through=seen_with(damage)) as here:
        await here.pod("odd", 1000, labels={"app": "web"})
        await here.pod("web", 2000, 1024)
        await here.policy(triggers=LATENCY)
        await here.use(4, latency=450)
        await here.settle()
        assert await here.targets() == [{"cpu": "4", "memory": "2Gi"}]
        status, _, message = await here.condition("Active")
        assert status == "True"
        assert message.startswith("default/odd: ")
        assert "'a lot' cannot be read" in message


@PLACES
async def test_on_a_cluster_too(damage):
    async with cluster(through=seen_with(damage)) as here:
        await here.pod("odd", labels={"app": "web"})
        await here.pod("web")
        here.told.uses["default/web/app"] = (0.95, 64)
        await here.policy()
        await asyncio.sleep(120)
        assert {each["spec"]["workload"] for each in await here.actions()} == {"web/app"}
        assert (await here.limits())["app"]["cpu"] != "1"


@PLACES
async def test_on_a_cluster_what_is_known_of_it_is_charged(damage):
    async with cluster(through=seen_with(damage)) as here:
        await here.pod("odd", cpu="5")
        await here.pod("web", cpu="2")
        spec = {"workload": "web/app", "target": {"cpu": "4"}}
        await here.store.create(RESOURCE_SCALING_ACTION, {"metadata": {"name": "a"}, "spec": spec}, "default")
        await asyncio.sleep(5)
        [action] = await here.actions()
        assert action["status"]["reason"] == "InsufficientCPU"
        assert "2 more wanted, 1 available of 8 (most is held by Pod default/odd 5" in action["status"]["message"]


async def spoil(here, name, **status):
    """No schema says what an amount in a status is, and an administrator may write one."""
    await here.store.patch(RESOURCE_SCALING_ACTION, name, "default", fields={"status": status}, subresource="status")


@pytest.mark.parametrize("field", ["target", "before"])
async def test_an_action_whose_status_cannot_be_read_fails_and_those_of_the_others_are_carried_out(field):
    async with scene() as here:
        await here.pod("odd", 1000)
        await here.pod("web", 2000)
        await here.resize("a", workload="odd/app", cpu="9", onInsufficient="Defer")
        await here.settle()
        await spoil(here, "a", **{field: {"cpu": "a lot"}})
        await here.resize("b", cpu="3")
        await here.settle()
        assert (await here.told("a"))[:2] == ("Failed", "ResourceValidationFailed")
        assert f"status.{field}[cpu]: 'a lot' cannot be read" in (await here.status("a"))["message"]
        assert await here.told("b") == ("Succeeded", "Synchronized", "SYNCHRONIZED")


@pytest.mark.parametrize("status", [{"target": {"cpu": "a lot"}}, {"before": {"cpu": "a lot"}}, {"finishTime": None}])
async def test_a_policy_goes_on_beside_an_action_whose_status_cannot_be_read(status):
    async with measured() as here:
        await here.pod("odd", 1000, labels={"app": "web"})
        await here.pod("web", 2000, 1024)
        action = {"workload": "odd/app", "target": {"cpu": "2"}}
        meta = {"name": "a", "labels": {"headrace.dev/policy": "policy"}}
        await here.store.create(RESOURCE_SCALING_ACTION, {"metadata": meta, "spec": action}, "default")
        await here.settle()
        await spoil(here, "a", **status)
        await here.policy(triggers=LATENCY)
        await here.use(4, latency=450)
        await here.settle()
        assert (await here.targets())[1:] == [{"cpu": "4", "memory": "2Gi"}]
