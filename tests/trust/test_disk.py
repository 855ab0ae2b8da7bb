"""The n-th read, write or sync fails, for every n: nothing acknowledged is lost, and a failed sync is the last one.

In process on the rows under everything, through SQLite's own file layer; and the real server on a failing, a full and
a recovered disk through HTTP.
"""

import contextlib
import shutil
import time
from pathlib import Path

import pytest

from headrace.store.faults import Stopped
from headrace.store.protocol import StoreError
from headrace.store.sqlite import SQLiteRows, open_rows
from tests.store import faulty_vfs
from tests.store.builders import config_map, put, remove
from tests.trust.servers import directory_of_server, failing_sync, small_file_system, wait_for
from tests.trust.writers import CONFIG_MAPS, Acknowledged, Writers, config_maps

pytestmark = pytest.mark.trust

EVERY = 200
WRITES = 70
WRITES_FOR_SYNCS = 190  # each makes about one
CHECKPOINT_PAGES = 12
State = dict[str, int]

STRIKES = {
    "read": faulty_vfs.failed_read,
    "write": faulty_vfs.failed_write,
    "sync": faulty_vfs.failed_sync,
    "full": faulty_vfs.full,
}


@pytest.fixture
def disk():
    found = faulty_vfs.FaultyDisk()
    yield found
    found.unregister()


@pytest.fixture
async def filled(tmp_path_factory) -> Path:
    """A file with something in it, so that opening it is work for the disk."""
    path = tmp_path_factory.mktemp("filled") / "rows.db"
    rows = await open_rows(path, inline=True)
    for number in range(120):
        await rows.commit(put(f"old-{number}", data="x" * 3000))
    await rows.close()
    return path


class Trial:
    """Writes on a file whose disk fails somewhere, and what was acknowledged of it."""

    def __init__(self, writes: int = WRITES) -> None:
        self.writes = writes
        self.acknowledged: State = {}
        self.unknown: set[str] = set()
        self.errors: list[StoreError] = []
        self.after_stop = 0
        self.unnamed = 0

    async def run(self, path: Path) -> None:
        try:
            rows = await open_rows(path, inline=True, vfs=faulty_vfs.NAME)
        except StoreError as error:
            self.errors.append(error)
            self.unnamed += str(path) not in str(error)
            return
        for number in range(self.writes):
            await self.write(rows, f"object-{number % 9}", number)
            if number % 5 == 0:
                self.read(rows)
        with contextlib.suppress(StoreError):  # the last checkpoint fails
            await rows.close()

    async def write(self, rows: SQLiteRows, name: str, number: int) -> None:
        held = self.acknowledged.get(name, 0)
        try:
            if held and number % 4 == 0:
                await rows.commit(remove(name, held))
                self.acknowledged.pop(name)
            else:
                self.acknowledged[name] = await rows.commit(put(name, held, "x" * 3000))
        except StoreError as error:
            self.errors.append(error)
            if isinstance(error, Stopped) and not self.unknown:
                self.unknown.add(name)
            return
        if any(isinstance(error, Stopped) for error in self.errors):
            self.after_stop += 1

    def read(self, rows: SQLiteRows) -> None:
        try:
            rows.page("configmaps", limit=40)
            rows.get(config_map("old-7"))
        except StoreError as error:
            self.errors.append(error)

    async def problem(self, path: Path) -> str:
        """Of the file, on a disk that is well again."""
        if self.unnamed:
            return "the error does not name the file"
        if self.after_stop:
            return f"{self.after_stop} writes were acknowledged after the file had failed"
        rows = await open_rows(path, inline=True)
        if rows._writing.execute("PRAGMA integrity_check").get != "ok":
            return "the file is not whole"
        found = {row.key.name: row.revision for row in rows.page("configmaps").rows}
        await rows.close()
        old = sum(name.startswith("old-") for name in found)
        if old != 120:
            return f"{120 - old} old objects are lost"
        for name in {*found, *self.acknowledged} - self.unknown:
            if not name.startswith("old-") and found.get(name, 0) != self.acknowledged.get(name, 0):
                return f"{name}: {self.acknowledged.get(name)} was acknowledged, {found.get(name)} is there"
        return ""


@pytest.mark.parametrize("operation", STRIKES)
async def test_whichever_of_the_first_200_fails_nothing_acknowledged_is_lost(
    disk, tmp_path, filled, operation, monkeypatch
):
    monkeypatch.setattr("headrace.store.connection.CHECKPOINT_PAGES", CHECKPOINT_PAGES)
    counted = "write" if operation == "full" else operation
    struck, stopped, acknowledged = 0, 0, 0
    for nth in range(1, EVERY + 1):
        path = tmp_path / "rows.db"
        for each in tmp_path.glob("rows.db*"):
            each.unlink()
        shutil.copy(filled, path)
        disk.counts.clear()
        disk.plan = {(counted, nth): STRIKES[operation]}
        trial = Trial(WRITES_FOR_SYNCS if operation == "sync" else WRITES)
        await trial.run(path)
        assert disk.counts[counted] >= nth, f"only {disk.counts[counted]} {counted}s happened"
        disk.plan = {}
        assert await trial.problem(path) == "", f"the {nth}th {operation}"
        struck += bool(trial.errors)
        stopped += any(isinstance(error, Stopped) for error in trial.errors)
        acknowledged += len(trial.acknowledged)
        if operation == "full":
            assert not any(isinstance(error, Stopped) for error in trial.errors), "it goes on by itself"
    print(f"\n{operation}: {EVERY} faults, told {struck} times, {stopped} of them for good; 0 lost")
    assert operation == "read" or struck > EVERY / 2


async def test_control_a_store_that_hides_failures_is_noticed(disk, tmp_path, filled, monkeypatch):
    """It acknowledges what was not committed."""
    honest = SQLiteRows.commit

    async def hiding(rows, write):
        try:
            return await honest(rows, write)
        except StoreError:
            return rows.revision + 1

    monkeypatch.setattr(SQLiteRows, "commit", hiding)
    path = tmp_path / "rows.db"
    shutil.copy(filled, path)
    disk.plan = {("write", disk.counts["write"] + 60): faulty_vfs.failed_write}
    trial = Trial()
    await trial.run(path)
    disk.plan = {}
    assert await trial.problem(path) != ""


# ------------------------------------------------------------------------------------------------- the real server


@pytest.mark.parametrize("nth", [1, 2, 7, 25, 60])
def test_the_server_ends_with_one_clear_line_when_a_sync_fails_and_has_all_at_the_next_start(tmp_path, nth):
    with directory_of_server(tmp_path / "data") as server:
        server.start()
        acknowledged = Acknowledged()
        server.trace(*failing_sync(nth))
        writers = Writers(server, acknowledged, seed=nth)
        writers.ending = (503,)
        writers.start()
        assert server.wait_for_death() == 1
        writers.join()
        (line,) = [each for each in server.log().splitlines() if each.startswith("Error:")]
        assert str(server.file) in line
        assert "restart to recover" in line
        server.start()
        assert acknowledged.compare(config_maps(server.caller())[1]) == []
        server.stop()


@pytest.fixture
def small_disk(tmp_path):
    """Where there is none, the failing file layer above covers the rest."""
    with small_file_system(tmp_path, 8) as where:
        yield where


def test_on_a_full_disk_writes_get_507_reads_go_on_and_it_recovers_by_itself(small_disk):
    with directory_of_server(small_disk / "data") as server:
        server.start()
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"x" * 3_000_000)
        caller = server.caller()
        written, code, answer = 0, 0, {}
        while code != 507:
            body = {"metadata": {"name": f"object-{written}"}, "data": {"text": "x" * 50_000}}
            code, answer = caller.call("POST", CONFIG_MAPS, body)
            written += code == 201
            assert code in (201, 507), answer
        assert answer["reason"] == "InsufficientStorage"
        assert str(server.file) in answer["message"]
        for _ in range(5):
            assert (
                caller.call("POST", CONFIG_MAPS, {"metadata": {"name": "small"}, "data": {"text": "x" * 50_000}})[0]
                == 507
            )
            code, answer = caller.call("GET", CONFIG_MAPS)
            assert code == 200
            assert len(answer["items"]) == written
        assert server.run("doctor").returncode == 1, "doctor says that the disk is full"
        ballast.unlink()
        freed = time.monotonic()

        def accepted() -> bool:
            return caller.call("POST", CONFIG_MAPS, {"metadata": {"name": "again"}, "data": {"text": "x"}})[0] == 201

        wait_for("writes go on", accepted, 10)
        seconds = time.monotonic() - freed
        server.kill()
        server.start()
        code, answer = server.caller().call("GET", CONFIG_MAPS)
        assert len(answer["items"]) == written + 1
        assert server.stop() == 0
        print(f"\nfull disk: {written} acknowledged and stored; writes went on {seconds:.2f} s after space was back")
