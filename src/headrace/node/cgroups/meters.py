"""Usage through kept descriptors: a pread each, a few searches in bytes, no parsing of what nobody asked for."""

import math
import os
from collections.abc import Mapping
from pathlib import Path

from headrace.metrics.protocol import Usage
from headrace.node.cgroups.hierarchy import UNIFIED

_MOST_BYTES = 16_384  # memory.stat has about 4 KiB
STAT_SECONDS = 10.0  # inactive pages become active, and the reverse, without any change of what is in use
PRESSURE_SECONDS = 1.9  # the kernel computes its averages every two seconds


class Files:
    """Open files by name; those that the kernel does not have are None."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._open: dict[str, int] = {}
        for name, path in paths.items():
            try:
                self._open[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            except OSError:  # no descriptor is free: those we have are not kept from others
                self.close()
                raise

    def read(self, name: str) -> bytes | None:
        """Raises OSError (ENODEV) when the cgroup is gone."""
        descriptor = self._open.get(name)
        if descriptor is None:
            return None
        try:
            return os.pread(descriptor, _MOST_BYTES, 0)
        except OSError as error:
            if error.errno == 95 and name in ("cpu_pressure", "memory_pressure"):  # EOPNOTSUPP: booted with psi=0
                return None
            raise

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


class Inactive:
    """Inactive file pages. memory.stat is the dearest file by far: it is read when the usage has moved or it is old."""

    def __init__(self, files: Files, key: bytes) -> None:
        self._files, self._key = files, key
        self._usage, self._at, self._bytes = -1, -math.inf, 0

    def at(self, at: float, usage: int) -> int:
        if usage != self._usage or not 0 <= at - self._at < STAT_SECONDS:
            self._usage, self._at, self._bytes = usage, at, number_after(self._files.read("stat"), self._key)
        return self._bytes


class Pressure:
    """avg10 of CPU and memory, as of the kernel's last computation."""

    def __init__(self, files: Files) -> None:
        self._files, self._at = files, -math.inf
        self._averages: tuple[float | None, float | None] = (None, None)

    def at(self, at: float) -> tuple[float | None, float | None]:
        if not 0 <= at - self._at < PRESSURE_SECONDS:
            read = self._files.read
            self._at, self._averages = at, (some_average(read("cpu_pressure")), some_average(read("memory_pressure")))
        return self._averages


class V1Meter:
    def __init__(self, paths: Mapping[str, Path]) -> None:
        accounting = paths.get("cpuacct", paths["cpu"])
        wanted = {
            "cpu": accounting / "cpuacct.usage",
            "throttling": paths["cpu"] / "cpu.stat",
            "memory": paths["memory"] / "memory.usage_in_bytes",
            "stat": paths["memory"] / "memory.stat",
            "oom": paths["memory"] / "memory.oom_control",
        }
        if UNIFIED in paths:
            wanted["cpu_pressure"] = paths[UNIFIED] / "cpu.pressure"
            wanted["memory_pressure"] = paths[UNIFIED] / "memory.pressure"
        self._files = Files(wanted)
        self._inactive, self._pressure = Inactive(self._files, b"total_inactive_file "), Pressure(self._files)

    def read(self, at: float) -> Usage:
        files = self._files
        pressure_cpu, pressure_memory = self._pressure.at(at)
        throttling, memory = files.read("throttling"), int(files.read("memory") or 0)
        return Usage(
            at=at,
            cpu_seconds=int(files.read("cpu") or 0) / 1e9,
            periods=number_after(throttling, b"nr_periods "),
            throttled_periods=number_after(throttling, b"nr_throttled "),
            memory_bytes=memory,
            working_set_bytes=max(0, memory - self._inactive.at(at, memory)),
            pressure_cpu=pressure_cpu,
            pressure_memory=pressure_memory,
            oom_kills=number_after(files.read("oom"), b"oom_kill "),
        )

    def close(self) -> None:
        self._files.close()


class V2Meter:
    def __init__(self, path: Path) -> None:
        self._files = Files(
            {
                "cpu": path / "cpu.stat",
                "memory": path / "memory.current",
                "stat": path / "memory.stat",
                "events": path / "memory.events",
                "cpu_pressure": path / "cpu.pressure",
                "memory_pressure": path / "memory.pressure",
            }
        )
        self._inactive, self._pressure = Inactive(self._files, b"inactive_file "), Pressure(self._files)

    def read(self, at: float) -> Usage:
        files = self._files
        pressure_cpu, pressure_memory = self._pressure.at(at)
        cpu, memory = files.read("cpu"), int(files.read("memory") or 0)
        return Usage(
            at=at,
            cpu_seconds=number_after(cpu, b"usage_usec ") / 1e6,
            periods=number_after(cpu, b"nr_periods "),
            throttled_periods=number_after(cpu, b"nr_throttled "),
            memory_bytes=memory,
            working_set_bytes=max(0, memory - self._inactive.at(at, memory)),
            pressure_cpu=pressure_cpu,
            pressure_memory=pressure_memory,
            oom_kills=number_after(files.read("events"), b"oom_kill "),
        )

    def close(self) -> None:
        self._files.close()


def number_after(text: bytes | None, key: bytes) -> int:
    """The number of the line that begins with `key`; 0 where there is none."""
    if text is None:
        return 0
    start = 0 if text.startswith(key) else text.find(b"\n" + key) + 1
    if start == 0 and not text.startswith(key):
        return 0
    end = text.find(b"\n", start)
    return int(text[start + len(key) : end if end > 0 else None])


def some_average(text: bytes | None) -> float | None:
    """`avg10` of the `some` line of a pressure file, in percent."""
    if text is None or not text.startswith(b"some avg10="):
        return None
    return float(text[11 : text.index(b" ", 11)])
