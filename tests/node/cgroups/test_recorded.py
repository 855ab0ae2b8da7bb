"""v1 and v2 on recorded trees: the same limits, the same refusals, and nothing half done."""

from pathlib import Path

import pytest

from headrace.node.cgroups import files
from headrace.node.runtimes.protocol import ApplyFailed, Limits, MemoryInUse
from tests.node.cgroups.recorded import v1_group, v2_group

GROUPS = pytest.mark.parametrize("make", [pytest.param(v1_group, id="v1"), pytest.param(v2_group, id="v2")])
MEBIBYTE = 1 << 20


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): files.read(path) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every write, in order; a test may make one of them fail."""
    seen: list[tuple[str, str]] = []
    real = files.write

    def write(path: Path, value: str) -> None:
        seen.append((path.name, value))
        real(path, value)

    monkeypatch.setattr(files, "write", write)
    return seen


@GROUPS
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(Limits(), id="nothing is limited"),
        pytest.param(Limits(1500, 256 * MEBIBYTE, 250), id="all are limited"),
        pytest.param(Limits(5, 100_000_001, None), id="less than the usual quota, no whole page"),
    ],
)
def test_what_is_applied_is_read_back_as_the_kernel_keeps_it(tmp_path: Path, make, limits: Limits) -> None:
    group = make(tmp_path)
    assert group.apply(limits) == group.read() == group.kept(limits)
    assert group.apply(limits) == group.kept(limits)


@GROUPS
def test_a_shrink_below_the_working_set_is_refused_in_the_same_words(tmp_path: Path, make) -> None:
    group = make(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(MemoryInUse) as refused:
        group.apply(Limits(100, 64 * MEBIBYTE, 100))
    assert (refused.value.usage_bytes, refused.value.limit_bytes) == (65 * MEBIBYTE, 64 * MEBIBYTE)
    assert str(refused.value) == "memory limit 67108864 bytes is below the 68157440 bytes in use: nothing was changed"
    assert refused.value.restored
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [
        pytest.param(
            100, 400, ["memory.memsw.limit_in_bytes", "memory.limit_in_bytes"], id="memory and swap grow first"
        ),
        pytest.param(400, 100, ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"], id="and shrink last"),
        pytest.param(100, None, ["memory.memsw.limit_in_bytes", "memory.limit_in_bytes"], id="no limit is the largest"),
        pytest.param(
            None, 100, ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"], id="the first limit is a shrink"
        ),
    ],
)
def test_v1_never_has_memory_above_memory_and_swap(tmp_path: Path, written, before, after, order: list[str]) -> None:
    group = v1_group(tmp_path)
    group.apply(Limits(memory_bytes=before and before * MEBIBYTE))
    written.clear()
    group.apply(Limits(memory_bytes=after and after * MEBIBYTE))
    assert [name for name, _ in written if name.startswith("memory")] == order


def test_v2_tries_a_smaller_limit_out_before_it_could_kill(tmp_path: Path, written) -> None:
    looks = iter([75, 72, 69])

    def reclaim(_: float) -> None:
        (tmp_path / "group/memory.current").write_text(f"{next(looks) * MEBIBYTE}\n")

    group = v2_group(tmp_path, sleep=reclaim)
    assert group.apply(Limits(memory_bytes=70 * MEBIBYTE)).memory_bytes == 70 * MEBIBYTE
    value = str(70 * MEBIBYTE)
    memory = [write for write in written if write[0] in ("memory.high", "memory.max")]
    assert memory == [("memory.high", value), ("memory.max", value), ("memory.high", "max")]


def test_v2_gives_up_when_the_kernel_cannot_reclaim(tmp_path: Path, written) -> None:
    group = v2_group(tmp_path, sleep=lambda _: None)
    before = contents(tmp_path)
    with pytest.raises(MemoryInUse) as refused:
        group.apply(Limits(500, 70 * MEBIBYTE))
    assert refused.value.restored
    assert refused.value.usage_bytes == 80 * MEBIBYTE
    assert ("memory.max", str(70 * MEBIBYTE)) not in written
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("make", "number"),
    [*((v1_group, number) for number in range(5)), *((v2_group, number) for number in range(3))],
)
def test_when_any_write_fails_all_before_it_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make, number: int
) -> None:
    group = make(tmp_path)
    group.apply(Limits(2000, 400 * MEBIBYTE, 500))
    before, real, left = contents(tmp_path), files.write, number

    def write(path: Path, value: str) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise OSError(22, "Invalid argument", str(path))
        real(path, value)

    monkeypatch.setattr(files, "write", write)
    with pytest.raises(ApplyFailed, match=r"Invalid argument$") as failed:
        group.apply(Limits(5, 100 * MEBIBYTE, 100))
    assert failed.value.restored
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"])
def test_a_kernel_that_finds_memory_busy_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Our own look may come a moment too early; the kernel's EBUSY is the same refusal."""
    group = v1_group(tmp_path)
    group.apply(Limits(2000, 400 * MEBIBYTE))
    before, real, busy = contents(tmp_path), files.write, str(100 * MEBIBYTE)

    def write(path: Path, value: str) -> None:
        if path.name == name and value == busy:
            raise OSError(16, "Device or resource busy", str(path))
        real(path, value)

    monkeypatch.setattr(files, "write", write)
    with pytest.raises(MemoryInUse) as refused:
        group.apply(Limits(500, 100 * MEBIBYTE))
    assert refused.value.restored
    assert contents(tmp_path) == before


@GROUPS
def test_when_it_cannot_be_taken_back_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make) -> None:
    group = make(tmp_path)
    real, writes = files.write, 0

    def write(path: Path, value: str) -> None:
        nonlocal writes
        writes += 1
        if writes > 1:
            raise OSError(5, "Input/output error", str(path))
        real(path, value)

    monkeypatch.setattr(files, "write", write)
    with pytest.raises(ApplyFailed, match=r"Input/output error$") as failed:
        group.apply(Limits(500, 400 * MEBIBYTE, 100))
    assert not failed.value.restored


@GROUPS
def test_a_kernel_that_takes_a_value_and_keeps_another_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make
) -> None:
    group = make(tmp_path)
    before, real = contents(tmp_path), files.write
    lies = {"memory.limit_in_bytes": str(300 * MEBIBYTE), "memory.max": str(300 * MEBIBYTE)}
    restoring = str(400 * MEBIBYTE)

    def write(path: Path, value: str) -> None:
        real(path, lies.get(path.name, value) if value == restoring else value)

    monkeypatch.setattr(files, "write", write)
    with pytest.raises(ApplyFailed, match="read back"):
        group.apply(Limits(500, 400 * MEBIBYTE))
    assert contents(tmp_path) == before


@GROUPS
def test_usage_and_oom_kills(tmp_path: Path, make) -> None:
    group = make(tmp_path)
    usage = group.usage(1.5)
    assert group.oom_kills() == usage.oom_kills == 3
    assert (usage.at, usage.memory_bytes, usage.working_set_bytes) == (1.5, 80 * MEBIBYTE, 65 * MEBIBYTE)


def test_usage_on_v2_has_throttling_and_pressure(tmp_path: Path) -> None:
    usage = v2_group(tmp_path).usage(0)
    assert (usage.cpu_seconds, usage.periods, usage.throttled_periods) == (2.5, 40, 7)
    assert (usage.pressure_cpu, usage.pressure_memory) == (1.5, 9.96)


def test_v1_without_a_count_of_oom_kills_goes_by_failed_charges(tmp_path: Path) -> None:
    group = v1_group(tmp_path)
    (tmp_path / "memory/group/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert group.oom_kills() == 12


def test_v1_without_swap_accounting_has_one_limit(tmp_path: Path) -> None:
    group = v1_group(tmp_path)
    (tmp_path / "memory/group/memory.memsw.limit_in_bytes").unlink()
    assert group.apply(Limits(memory_bytes=100 * MEBIBYTE)).memory_bytes == 100 * MEBIBYTE
