"""What a meter reads anew with each sample, and what it keeps for a while because reading it is dear or useless."""

import os
from pathlib import Path

import pytest

from headrace.node.cgroups.meters import STAT_SECONDS, V2Meter


def written(directory: Path, **files: str) -> None:
    for name, text in files.items():
        (directory / name.replace("_", ".", 1)).write_text(text)


def meter(directory: Path) -> V2Meter:
    pressure = "some avg10=1.50 avg60=0.00 avg300=0.00 total=1\n"
    written(directory, cpu_stat="usage_usec 5\n", memory_current="1000\n", memory_stat="inactive_file 100\n")
    written(directory, memory_events="oom_kill 0\n", cpu_pressure=pressure, memory_pressure=pressure)
    return V2Meter(directory)


def test_the_working_set_follows_every_change_of_what_is_in_use(tmp_path: Path) -> None:
    found = meter(tmp_path)
    assert found.read(1.0).working_set_bytes == 900
    written(tmp_path, memory_current="1001\n", memory_stat="inactive_file 300\n")
    assert found.read(2.0).working_set_bytes == 701
    found.close()


def test_pages_that_age_without_a_change_of_use_are_seen_within_ten_seconds(tmp_path: Path) -> None:
    found = meter(tmp_path)
    found.read(1.0)
    written(tmp_path, memory_stat="inactive_file 300\n")
    assert found.read(2.0).working_set_bytes == 900
    assert found.read(1.0 + STAT_SECONDS).working_set_bytes == 700
    found.close()


def test_a_clock_that_is_set_back_keeps_nothing_for_longer(tmp_path: Path) -> None:
    found = meter(tmp_path)
    found.read(5000.0)
    written(tmp_path, memory_stat="inactive_file 300\n", cpu_pressure="some avg10=7.00 avg60=0.00\n")
    usage = found.read(10.0)
    assert (usage.working_set_bytes, usage.pressure_cpu) == (700, 7.0)
    found.close()


def test_pressure_is_read_as_often_as_the_kernel_computes_it(tmp_path: Path) -> None:
    found = meter(tmp_path)
    assert found.read(1.0).pressure_cpu == 1.5
    written(tmp_path, cpu_pressure="some avg10=7.00 avg60=0.00\n")
    assert found.read(2.0).pressure_cpu == 1.5
    assert found.read(3.0).pressure_cpu == 7.0
    found.close()


def test_a_meter_that_cannot_be_made_keeps_no_descriptor(tmp_path: Path) -> None:
    meter(tmp_path).close()
    (tmp_path / "memory.pressure").unlink()
    (tmp_path / "memory.pressure").symlink_to("memory.pressure")  # cannot be opened: it leads to itself
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="symbolic links"):
        V2Meter(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == len(before)
