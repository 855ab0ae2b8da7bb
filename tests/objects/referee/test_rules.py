"""The recorded answers to rules in schemas are still those of the real API server."""

import asyncio

import pytest

from headrace.api import kinds
from headrace.client.paths import collection_path
from tests.objects import policies, rules
from tests.objects.referee.samples import NAMESPACE, Servers

pytestmark = pytest.mark.cluster


async def test_the_recorded_answers_are_those_of_kubernetes(servers: Servers) -> None:
    for number, case in enumerate(rules.cases()):
        said = await rules.answers(servers.theirs, case, f"case-{number}.rules.example.com")
        assert said == {"definition": case["definition"], "writes": case["answers"]}, case["name"]


async def test_the_rules_in_our_own_definitions_are_kept_by_kubernetes(servers: Servers) -> None:
    for definition in policies.definitions():
        await servers.theirs.request("POST", collection_path(kinds.CUSTOM_RESOURCE_DEFINITION, ""), body=definition)
    await asyncio.wait_for(rules.served(servers.theirs, kinds.RESIZE_POLICY), rules.DEADLINE_SECONDS)
    path = collection_path(kinds.RESIZE_POLICY, NAMESPACE)
    for spec in policies.RIGHT:
        await servers.theirs.request("POST", path, query={"dryRun": "All"}, body=policies.policy(spec))
    for field, spec in policies.WRONG:
        said = await rules.causes(servers.theirs, "POST", path, policies.policy(spec))
        assert field in [each[1] for each in said], (spec, said)
