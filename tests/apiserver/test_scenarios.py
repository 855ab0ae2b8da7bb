"""Sessions with the API, read from `scenarios/*.yaml`: request, expected status, expected JSON, in order.

A step has `do`, and where it needs them `as`, `accept`, `type`, `body`; then `status` (200), and `json`, of which every
field must be found in the answer. `$name` stands for what an earlier step saved (`save: {name: path.to.field}`).
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.client.http import Client
from tests.apiserver.joined import stranger
from tests.apiserver.serving import Serving

DIRECTORY = Path(__file__).parent / "scenarios"
SCENARIOS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(DIRECTORY.glob("*.yaml"))}


@pytest.fixture
async def clients(server: Serving) -> AsyncIterator[dict[str, Client]]:
    async with AsyncExitStack() as stack:
        found = {name: server.cluster(name) for name in ("controller", "viewer")}
        found |= {"admin": server.cluster(), "anonymous": stranger(server)}
        yield {name: await stack.enter_async_context(Client(cluster)) for name, cluster in found.items()}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_session_goes_as_written(clients: dict[str, Client], name: str) -> None:
    saved: dict[str, str] = {}
    for number, step in enumerate(SCENARIOS[name], 1):
        code, headers, answer = await perform(clients, filled(step, saved))
        where = f"{name}, step {number} ({step['do']}): {code} {answer}"
        assert code == step.get("status", 200), where
        expected = filled(step.get("json"), saved)
        missing = differences(expected, answer)
        assert not missing, f"{where}\n{missing}"
        for header, text in step.get("headers", {}).items():
            assert text in ", ".join(headers.getall(header, [])), where
        for key, path in step.get("save", {}).items():
            saved[key] = str(at(answer, path))


async def perform(clients: dict[str, Client], step: dict[str, Any]) -> tuple[int, Any, Any]:
    method, path = step["do"].split(" ", 1)
    session = clients[step.get("as", "admin")]._session
    assert session is not None
    body = step.get("body")
    data = body if isinstance(body, str) else None if body is None else json.dumps(body)
    headers = {"Accept": step.get("accept", "application/json"), "Content-Type": step.get("type", "application/json")}
    async with session.http.request(method, path, data=data, headers=headers) as response:
        text = await response.text()
        try:
            return response.status, response.headers, json.loads(text)
        except json.JSONDecodeError:
            return response.status, response.headers, text


def filled(value: Any, saved: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in saved.items():
            value = value.replace(f"${name}", text)
        return value
    if isinstance(value, dict):
        return {key: filled(each, saved) for key, each in value.items()}
    return [filled(each, saved) for each in value] if isinstance(value, list) else value


def at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() and isinstance(value, list) else value[part]
    return value


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """What is expected and not found; null in the scenario means that the field is absent."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            each
            for key, value in expected.items()
            for each in (
                ([] if key not in found else [f"{path}.{key}: {found[key]!r} should be absent"])
                if value is None
                else differences(value, found.get(key), f"{path}.{key}")
            )
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [each for n, value in enumerate(expected) for each in differences(value, found[n], f"{path}[{n}]")]
    return [] if expected is None or expected == found else [f"{path}: {found!r} is not {expected!r}"]
