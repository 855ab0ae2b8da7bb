"""Whom a policy is about: several select one Pod, a selector changes while an action runs, a quota is used up."""

import pytest

from headrace.api.kinds import POD, RESIZE_POLICY
from tests.resize.test_policy import measured

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]
QUICK = {"triggers": [{"metric": "cpu", "up": {"above": "80%"}, "samples": {"matching": 1, "of": 1}}]}


async def change(here, spec, name="policy"):
    await here.store.patch(RESIZE_POLICY, name, "default", fields={"spec": spec})
    await here.settle(0.5)


async def test_of_two_policies_that_select_a_pod_the_older_has_it_and_the_other_says_so():
    """(It said that it selected no Pod.)"""
    async with measured() as here:
        await here.pod("web", labels={"tier": "front"})
        await here.policy("first", max={"cpu": "2"}, **QUICK)
        await here.settle(1.0)
        await here.policy("second", max={"cpu": "3"}, **QUICK)
        await here.use(20, cpu=0.95)
        assert [each["spec"]["cause"]["policy"] for each in await here.actions()] == ["first"]
        assert (await here.status("second"))["selected"] == 0
        words = "of several policies that select a Pod the oldest has it: default/web (first)"
        assert await here.condition("Active", "second") == ("True", "Auto", words)
        assert await here.condition("Active", "first") == ("True", "Auto", "")
        await change(here, {"mode": "Off"}, "first")
        await here.use(20, cpu=1.95)
        assert [each["spec"]["cause"]["policy"] for each in await here.actions()] == ["first", "second"]
        assert (await here.actions())[-1]["spec"]["target"] == {"cpu": "3"}
        assert await here.condition("Active", "second") == ("True", "Auto", "")


async def test_an_action_goes_on_to_its_end_when_its_policy_selects_the_workload_no_more():
    async with measured() as here:
        await here.pod("web")
        await here.policy(**QUICK)
        here.agent.away = True
        await here.use(3, cpu=0.95)
        [action] = await here.actions()
        assert action["status"]["state"] == "Running"
        await change(here, {"selector": {"matchLabels": {"app": "other"}}})
        assert (await here.status())["selected"] == 0
        here.agent.away = False
        await here.agent.look_again("web")
        await here.use(20, cpu=1.9)
        [action] = await here.actions()
        assert action["status"]["state"] == "Succeeded"
        assert await here.limits("web") == (2000, 2000, 2000)
        assert (await here.status())["selected"] == 0


async def test_a_quota_is_used_to_the_last_millicore_and_not_beyond():
    async with measured() as here:
        await here.pod("web")
        await here.policy(max={"cpu": "8"}, quota={"cpu": "3500m"}, **QUICK)
        await here.use(30, cpu=4.0)
        assert await here.targets() == [{"cpu": "2"}, {"cpu": "3500m"}]
        assert await here.limits("web") == (3500, 3500, 3500)
        assert (await here.condition("QuotaReached"))[0] == "True"
        await change(here, {"quota": {"cpu": "4"}})
        await here.use(10, cpu=4.0)
        assert (await here.targets())[-1] == {"cpu": "4"}


async def replicas(here, known, *names):
    """Pods of one owner, of which the policy remembers this."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    for name in names:
        await here.pod(name, labels={"app": "web"})
        fields = {"metadata": {"ownerReferences": [owner]}}
        await here.store.patch(POD, name, "default", fields=fields)
    status = {"targets": {"ReplicaSet/web/app": known}}
    await here.store.patch(RESIZE_POLICY, "policy", "default", fields={"status": status}, subresource="status")


KNOWN = {"first": {"cpu": "1", "memory": "256Mi"}, "target": {"cpu": "4", "memory": "256Mi"}}


async def test_what_the_successors_of_a_pod_start_with_is_bounded_by_the_quota():
    """(Each of three started with the 4 CPUs of their predecessor, of a quota of 7.)"""
    async with measured(cpu="32") as here:
        await here.policy(max={"cpu": "4"}, quota={"cpu": "7"}, mode="Off", **QUICK)
        await replicas(here, {**KNOWN, "at": "2020-01-01T00:00:00Z"}, "web", "web2", "web3")
        await change(here, {"mode": "Auto"})
        await here.settle(3)
        had = [(await here.limits(name))[0] for name in ("web", "web2", "web3")]
        assert had == [4000, 2000, 1000]


@pytest.mark.parametrize("current", [{}, {"current": {}}, {"current": {"memory": "256Mi"}}])
async def test_the_first_limits_are_those_before_a_resize_that_did_not_tell_what_was_there(current):
    """(Of an action without `spec.current` no first limits were known: twice the first was twice the latest.)"""
    async with measured(cpu="32") as here:
        await here.pod("web")
        await here.resize("by-hand", cpu="1500m", **current)
        await here.settle(2)
        assert await here.limits("web") == (1500, 1500, 1500)
        await here.policy(cooldownSeconds={"up": 1}, **QUICK)
        await here.use(60, cpu=30.0)
        assert await here.limits("web") == (2000, 2000, 2000)
        assert (await here.condition("Capped"))[0] == "True"
        [known] = (await here.status())["targets"].values()
        assert known["first"] == {"cpu": "1", "memory": "256Mi"}


@pytest.mark.parametrize("remembered", [{}, {"memory": "256Mi"}])
async def test_first_limits_that_were_written_down_without_amounts_are_learned(remembered):
    async with measured(cpu="32") as here:
        await here.policy(mode="Off", **QUICK)
        await replicas(here, {"first": remembered}, "web")
        await change(here, {"mode": "Auto", "cooldownSeconds": {"up": 1}})
        await here.use(60, cpu=30.0)
        assert await here.limits("web") == (2000, 2000, 2000)
        [known] = (await here.status())["targets"].values()
        assert known["first"] == {"cpu": "1", "memory": "256Mi"}


async def test_a_pod_whose_long_name_is_cut_at_a_dot_is_resized():
    """(No action of it could be made: a dash after a dot is no name.)"""
    async with measured() as here:
        name = "x" * 59 + "." + "y" * 59 + "." + "z" * 59 + ".web"
        assert name[:180].endswith(".")
        await here.pod(name, labels={"app": "web"})
        await here.policy(**QUICK)
        await here.use(3, f"default/{name}/app", cpu=0.95)
        assert await here.limits(name) == (2000, 2000, 2000)
