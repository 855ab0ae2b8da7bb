"""A body that takes long to read keeps nobody waiting but its sender."""

import asyncio

from headrace.apiserver.bodies import decoded


async def test_others_are_answered_while_a_megabyte_of_yaml_is_read():
    body = b"items: [" + b"1," * 100_000 + b"1]"
    reading = asyncio.create_task(decoded(body, "application/yaml"))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.sleep(0.001)
    assert len(reading.result()["items"]) == 100_001
    assert turns > 10
