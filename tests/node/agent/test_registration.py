"""What an agent says of its Node when others have written it, in virtual time."""

import asyncio

import structlog

from headrace.api.kinds import NODE
from headrace.node.registration import LOOK_SECONDS, RENEW_SECONDS, STRAYS, Registration, node_fields
from headrace.node.runtimes.protocol import Capabilities
from headrace.runtime.clock import LoopClock
from tests.node.agent.home import MACHINE, as_node, open_store, wall
from tests.simulation.harness.loop import run

STRAY = {"stray": {"cpu": 100}}


async def after_a_renewal(strays=STRAY, **written):
    """The Node after somebody wrote it and its agent has had the time to renew its Lease."""
    store, capabilities = await open_store(), Capabilities("enforced", "enforced", "cgroups", "v1")
    fields = node_fields("node-a", MACHINE, capabilities, {}, version="1", address="127.0.0.1")
    registration = Registration(
        as_node(store),
        fields,
        strays=lambda: strays,
        confirmed=lambda: None,
        problem=lambda: "",
        clock=LoopClock(wall),
        log=structlog.get_logger(),
    )
    await registration.register()
    task = asyncio.create_task(registration.run())
    await asyncio.sleep(3 * LOOK_SECONDS)
    await store.patch(NODE, "node-a", strategic=True, **written)
    await asyncio.sleep(RENEW_SECONDS + 2 * LOOK_SECONDS)
    task.cancel()
    return await store.get(NODE, "node-a")


def test_who_was_taken_for_silent_says_at_its_next_renewal_that_it_is_ready():
    unknown = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    node = run(after_a_renewal(fields={"status": {"conditions": unknown}}, subresource="status"))
    assert {each["type"]: each["status"] for each in node["status"]["conditions"]}["Ready"] == "True"


def test_an_annotation_that_somebody_removed_is_written_again():
    node = run(after_a_renewal(fields={"metadata": {"annotations": {STRAYS: None}}}))
    assert node["metadata"]["annotations"][STRAYS] == '{"stray":{"cpu":100}}'


def test_until_an_agent_has_looked_for_strays_those_that_the_one_before_it_saw_stay_charged():
    told = '{"stray":{"cpu":100}}'
    node = run(after_a_renewal(strays=None, fields={"metadata": {"annotations": {STRAYS: told}}}))
    assert node["metadata"]["annotations"][STRAYS] == told
