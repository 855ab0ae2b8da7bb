"""A body that takes long to read keeps nobody waiting but its sender; one that cannot be read is its sender's fault."""

import asyncio

import pytest

from headrace.apiserver.bodies import decode, decoded
from headrace.store.protocol import BadRequest


async def test_others_are_answered_while_a_megabyte_of_yaml_is_read():
    body = b"items: [" + b"1," * 100_000 + b"1]"
    reading = asyncio.create_task(decoded(body, "application/yaml"))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.sleep(0.001)
    assert len(reading.result()["items"]) == 100_001
    assert turns > 10


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: !!int abc", id="no number"),
        pytest.param("a: !!bool abc", id="no truth"),
        pytest.param("a: !!timestamp abc", id="no time"),
        pytest.param("!!int : 3", id="no text"),
        pytest.param("a: " + "9" * 5000, id="too long a number"),
        pytest.param("[" * 600 + "]" * 600, id="too deep"),
    ],
)
def test_yaml_that_cannot_be_read_is_the_senders_fault(text: str) -> None:
    with pytest.raises(BadRequest):
        decode(text.encode(), "application/yaml")
