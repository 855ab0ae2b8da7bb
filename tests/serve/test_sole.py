"""Two agents never share a directory, nor do two drivers of one name."""

import os

import pytest

from headrace.serve.sole import agent_in, sole_agent, sole_driver


async def test_a_second_agent_is_told_who_is_there_and_the_next_gets_in(tmp_path):
    async with sole_agent(tmp_path / "agent"):
        with pytest.raises(RuntimeError, match=f"in use by the agent with pid {os.getpid()}: stop that one"):
            async with sole_agent(tmp_path / "agent", wait_seconds=0.15):
                pass
    async with sole_agent(tmp_path / "agent", wait_seconds=0):
        pass


async def test_who_works_in_a_directory_is_known_while_it_does(tmp_path):
    assert agent_in(tmp_path / "agent") is None
    async with sole_agent(tmp_path / "agent"):
        assert agent_in(tmp_path / "agent") == os.getpid()
    assert agent_in(tmp_path / "agent") is None


async def test_a_second_driver_of_a_name_is_told_who_is_there_and_takes_no_sockets_away(tmp_path):
    """It bound the sockets of the first anew, in silence, and took them along when it ended."""
    async with sole_driver(tmp_path, "gpu.example.com"):
        with pytest.raises(RuntimeError, match=f"driver gpu.example.com runs .* already, with pid {os.getpid()}: stop"):
            async with sole_driver(tmp_path, "gpu.example.com", wait_seconds=0.15):
                pass
        async with sole_driver(tmp_path, "nic.example.com", wait_seconds=0):
            pass
    async with sole_driver(tmp_path, "gpu.example.com", wait_seconds=0):
        pass
