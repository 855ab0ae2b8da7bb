"""The embedded home's edges: locks, newer and foreign files, slow watchers, full queues, damage."""

import asyncio
import os
import subprocess
import sys

import apsw
import pytest

from headrace.store.faults import Corrupt, Stopped
from headrace.store.protocol import Conflict, Gone, StoreError, TooBusy, Unavailable
from headrace.store.rows import Key
from headrace.store.schema import STEPS, Unreadable
from headrace.store.sqlite import open_rows
from headrace.store.watchers import BOOKMARK_EVERY
from tests.store.builders import config_map, put, remove, write


async def closed_file(path, writes=3):
    rows = await open_rows(path)
    for number in range(writes):
        await rows.commit(put(f"object-{number}", data="x" * 500))
    await rows.close()
    return path


async def test_what_was_written_is_there_after_opening_again(tmp_path):
    await closed_file(tmp_path / "rows.db")
    rows = await open_rows(tmp_path / "rows.db")
    assert [row.key.name for row in rows.page("configmaps").rows] == ["object-0", "object-1", "object-2"]
    assert rows.revision == 4
    assert await rows.commit(put("object-3")) == 5
    await rows.close()


async def test_a_revision_is_never_given_out_again_after_everything_was_deleted(tmp_path):
    rows = await open_rows(tmp_path / "rows.db")
    last = await rows.commit(remove("a", await rows.commit(put("a"))))
    await rows.close()
    rows = await open_rows(tmp_path / "rows.db")
    assert await rows.commit(put("a")) == last + 1
    await rows.close()


async def test_a_second_opener_is_refused_and_told_the_holders_pid(tmp_path):
    rows = await open_rows(tmp_path / "rows.db")
    opener = (
        "import asyncio, sys\n"
        "from headrace.store.sqlite import open_rows\n"
        "from headrace.store.protocol import Unavailable\n"
        "try: asyncio.run(open_rows(sys.argv[1]))\n"
        "except Unavailable as error: print(error)\n"
    )
    answer = subprocess.run(  # noqa: ASYNC221  # nothing else runs meanwhile
        [sys.executable, "-c", opener, str(tmp_path / "rows.db")], capture_output=True, text=True, check=True
    )
    assert f"is in use by the process with pid {os.getpid()}" in answer.stdout
    await rows.close()
    await (await open_rows(tmp_path / "rows.db")).close()


async def test_a_newer_file_is_refused_and_left_untouched(tmp_path):
    path = await closed_file(tmp_path / "rows.db")
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", len(STEPS) + 1)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Unreadable, match=f"schema version {len(STEPS) + 1}, this release knows up to {len(STEPS)}"):
        await open_rows(path)
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} <= {"rows.db", "rows.db.lock", "rows.db.acknowledged"}


async def test_a_newer_version_that_is_only_in_the_log_is_refused_too(tmp_path):
    path = await closed_file(tmp_path / "rows.db")
    crashed = (
        "import apsw, os, sys\n"
        "connection = apsw.Connection(sys.argv[1])\n"
        "connection.pragma('user_version', 99)\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", crashed, str(path)], check=True)  # noqa: ASYNC221
    log = path.with_name("rows.db-wal")
    before = path.read_bytes(), log.read_bytes()
    with pytest.raises(Unreadable, match="schema version 99"):
        await open_rows(path)
    assert (path.read_bytes(), log.read_bytes()) == before


async def test_another_programs_file_is_refused(tmp_path):
    path = tmp_path / "rows.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (a)")
    connection.pragma("user_version", 1)
    connection.close()
    with pytest.raises(Unreadable, match="belongs to another program"):
        await open_rows(path)
    path.write_text("no database at all" * 10)
    with pytest.raises(Unreadable, match="is not a database"):
        await open_rows(path)


async def test_a_flipped_bit_is_found_at_the_start_and_the_file_named(tmp_path):
    path = await closed_file(tmp_path / "rows.db")
    content = bytearray(path.read_bytes())
    place = content.rindex(b"xxxx")
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corrupt, match=r"rows\.db is damaged: configmaps default/object-\d at revision \d fails"):
        await open_rows(path)


async def test_a_truncated_file_is_found_at_the_start_and_the_file_named(tmp_path):
    path = await closed_file(tmp_path / "rows.db", writes=100)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises((Corrupt, Unavailable), match=r"rows\.db is damaged"):
        await open_rows(path)


async def test_a_slow_watcher_is_cut_off_and_the_others_are_not():
    rows = await open_rows(":memory:", inline=True, backlog=10)
    slow, quick = rows.watch("configmaps", since=1), rows.watch("configmaps", since=1)
    assert await anext(slow) == 1
    assert await anext(quick) == 1
    for number in range(11):
        await rows.commit(put(f"object-{number}"))
        assert (await anext(quick)).key.name == f"object-{number}"
    with pytest.raises(Gone, match="more than 10 events or 64 MiB of them behind"):
        await anext(slow)
    await rows.close()


async def test_a_watcher_that_was_cut_off_gets_no_bookmark_behind_what_it_missed():
    """Who had read it, and lost the line before the error came, would have resumed there."""
    rows = await open_rows(":memory:", inline=True, backlog=10)
    slow = rows.watch("configmaps", since=1)
    assert await anext(slow) == 1
    for number in range(12):
        await rows.commit(put(f"object-{number}"))
    rows.remind()
    with pytest.raises(Gone, match="more than 10 events"):
        await anext(slow)
    await rows.close()


async def test_a_watcher_that_reads_nothing_does_not_keep_all_that_is_written_in_memory(monkeypatch):
    """Forty such watchers and 300 writes of a megabyte took 780 MB."""
    monkeypatch.setattr("headrace.store.watchers.WATCH_BACKLOG_BYTES", 100_000)
    rows = await open_rows(":memory:", inline=True)
    slow, quick = rows.watch("configmaps", since=1), rows.watch("configmaps", since=1)
    assert await anext(slow) == 1
    assert await anext(quick) == 1
    for number in range(40):
        await rows.commit(put(f"object-{number}", data="x" * 5_000))
        assert (await anext(quick)).key.name == f"object-{number}"
    with pytest.raises(Gone, match="behind"):
        await anext(slow)
    await rows.close()


async def test_history_is_read_for_a_watch_in_turns_of_few_bytes(monkeypatch):
    monkeypatch.setattr("headrace.store.reader.REPLAY_BYTES", 20_000)
    rows = await open_rows(":memory:", inline=True)
    for number in range(40):
        await rows.commit(put(f"object-{number}", data="x" * 5_000))
    first, reached = rows._reader.replay("configmaps", "", 1, rows.revision)
    assert len(first) == 4
    assert reached == first[-1].revision
    watch = rows.watch("configmaps", since=1)
    seen = [await anext(watch) for _ in range(40)]
    assert [each.key.name for each in seen] == [f"object-{number}" for number in range(40)]
    await rows.close()


async def test_a_fault_after_a_commit_ends_the_process_instead_of_hanging_every_write(tmp_path, monkeypatch):
    said = []
    path = tmp_path / "rows.db"
    rows = await open_rows(path, on_fatal=said.append)
    before = await rows.commit(put("before"))

    def fails(*_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(rows._reader, "committed", fails)
    both = await asyncio.gather(rows.commit(put("a")), rows.commit(put("b")), return_exceptions=True)
    assert [type(each) for each in both] == [Stopped, Stopped]
    with pytest.raises(Stopped, match="nothing more is acknowledged"):
        await rows.commit(put("c"))
    assert len(said) == 1
    assert "a fault of ours" in said[0]
    await rows.close()
    again = await open_rows(path)
    assert again.revision == before + 2, "they were durable"
    await again.close()


async def test_a_reader_at_rest_is_offered_changes_and_reads_what_it_leaves_in_order():
    rows = await open_rows(":memory:", inline=True)
    taken, willing = [], True

    def offer(changes):
        if willing:
            taken.extend(change.key.name for change in changes)
        return len(changes) if willing else 0

    watch = rows.watch("configmaps", since=1, offer=offer)
    assert await anext(watch) == 1
    await rows.commit(put("before it rests"))
    assert (await anext(watch)).key.name == "before it rests"
    reading = asyncio.create_task(anext(watch))
    await asyncio.sleep(0)
    await rows.commit(put("a"))
    await rows.commit(put("b"))
    assert taken == ["a", "b"]
    willing = False
    await rows.commit(put("c"))
    willing = True
    await rows.commit(put("d"))
    assert (await reading).key.name == "c"
    assert (await anext(watch)).key.name == "d"
    assert taken == ["a", "b"], "nothing overtakes what was left"
    await rows.close()


@pytest.mark.parametrize("takes", [0, 1, 7, 20], ids="takes {} of them".format)
async def test_changes_of_one_commit_are_offered_together_and_what_is_left_is_read_in_order(tmp_path, takes):
    rows = await open_rows(tmp_path / "rows.db")
    offered, taken = [], []

    def offer(changes):
        offered.append(len(changes))
        taken.extend(change.revision for change in changes[:takes])
        return min(takes, len(changes))

    watch = rows.watch("configmaps", "default", since=1, offer=offer)
    assert await anext(watch) == 1
    reading = asyncio.create_task(anext(watch))
    await asyncio.sleep(0)
    names = [f"object-{number}" for number in range(20)]
    written = await asyncio.gather(*(rows.commit(put(name)) for name in names))
    assert offered[0] == 20, "one commit, one offer"
    read = [] if takes == 20 else [(await reading).revision]
    while len(taken) + len(read) < 20:
        read.append((await anext(watch)).revision)
    assert taken + read == written
    reading.cancel()
    await rows.close()


async def test_a_reader_that_fails_on_an_offer_ends_alone():
    rows = await open_rows(":memory:", inline=True)

    def offer(changes):
        raise ZeroDivisionError(changes[0].key.name)

    broken, other = rows.watch("configmaps", since=1, offer=offer), rows.watch("configmaps", since=1)
    assert await anext(broken) == 1
    assert await anext(other) == 1
    reading = asyncio.create_task(anext(broken))
    await asyncio.sleep(0)
    assert await rows.commit(put("a")) == 2
    with pytest.raises(ZeroDivisionError):
        await reading
    assert (await anext(other)).key.name == "a"
    assert await rows.commit(put("b")) == 3
    await rows.close()


async def test_a_watcher_that_sees_nothing_gets_bookmarks():
    rows = await open_rows(":memory:", inline=True)
    watch = rows.watch("secrets", since=1)
    assert await anext(watch) == 1
    revision = 0
    for _ in range(BOOKMARK_EVERY):
        revision = await rows.commit(put("busy", revision))
    assert await anext(watch) == revision
    await rows.close()


async def test_writes_beyond_the_queue_are_refused_and_none_of_the_others_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.store.sqlite.WRITES_QUEUED", 20)
    rows = await open_rows(tmp_path / "rows.db")
    answers = await asyncio.gather(*(rows.commit(put(f"object-{n}")) for n in range(50)), return_exceptions=True)
    refused = [each for each in answers if isinstance(each, TooBusy)]
    written = [each for each in answers if isinstance(each, int)]
    assert (len(written), len(refused)) == (20, 30)
    assert written == sorted(written), "first come, first in"
    assert len(rows.page("configmaps").rows) == 20
    await rows.close()


async def test_sixteen_writers_of_one_row_each_win_once_and_know_it(tmp_path):
    rows = await open_rows(tmp_path / "rows.db")
    await rows.commit(put("shared"))
    wins = []

    async def writer():
        for _ in range(20):
            while True:
                row = rows.get(config_map("shared"))
                try:
                    wins.append((row.revision, await rows.commit(put("shared", row.revision))))
                    break
                except Conflict:
                    pass

    await asyncio.gather(*(writer() for _ in range(16)))
    assert len(wins) == 16 * 20
    assert len({before for before, _ in wins}) == len(wins), "nobody overwrote what he had not read"
    await rows.close()


async def test_writers_share_syncs(tmp_path):
    rows = await open_rows(tmp_path / "rows.db")
    batches = []
    publish = rows._writer._publish
    rows._writer._publish = lambda batch: (batches.append(len(batch.answers)), publish(batch))
    await asyncio.gather(*(rows.commit(put(f"object-{number}")) for number in range(200)))
    assert sum(batches) == 200
    assert len(batches) < 50
    await rows.close()


async def test_a_reader_never_sees_what_is_not_acknowledged_yet_in_the_wrong_order(tmp_path):
    """Whoever was answered reads his own write at once."""
    rows = await open_rows(tmp_path / "rows.db")

    async def writer(name):
        revision = 0
        for _ in range(50):
            revision = await rows.commit(put(name, revision))
            assert rows.get(config_map(name)).revision == revision
            assert rows.revision >= revision

    await asyncio.gather(*(writer(f"object-{number}") for number in range(8)))
    await rows.close()


async def test_watches_begun_at_any_moment_of_a_busy_time_miss_nothing(tmp_path):
    """Some of what each sees comes from the file, the rest from memory: no gap, nothing twice."""
    rows = await open_rows(tmp_path / "rows.db")
    seen = []

    async def watcher(since):
        found = []
        async for each in rows.watch("configmaps", since=since):
            if isinstance(each, int):
                continue
            found.append(each.revision)
            if each.key.name == "end":
                break
        seen.append((since, found))

    async def writer(name, watchers):
        revision = 0
        for turn in range(120):
            revision = await rows.commit(put(name, revision))
            if turn % 20 == 0:
                since = max(1, revision - 37 * turn % revision)
                watchers.create_task(watcher(since))

    async with asyncio.TaskGroup() as watchers:
        async with asyncio.TaskGroup() as writers:
            for number in range(8):
                writers.create_task(writer(f"object-{number}", watchers))
        last = await rows.commit(put("end"))
    assert len(seen) == 48
    for since, found in seen:
        assert found == list(range(since + 1, last + 1))
    await rows.close()


async def test_another_program_that_writes_is_waited_for_while_reads_go_on(tmp_path):
    rows = await open_rows(tmp_path / "rows.db")
    await rows.commit(put("a"))
    other = apsw.Connection(str(tmp_path / "rows.db"))
    other.execute("BEGIN IMMEDIATE")
    writing = [asyncio.create_task(rows.commit(put(name))) for name in ("b", "c")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rows.get(config_map("a")) is not None, "the loop does not wait for the lock"
    assert not any(task.done() for task in writing)
    other.execute("ROLLBACK")
    assert await asyncio.gather(*writing) == [3, 4]
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked by another process"):
        await rows.commit(put("d"))
    other.close()
    assert await rows.commit(put("d")) == 5
    await rows.close()


async def test_an_sqlite_that_can_lose_commits_is_refused(monkeypatch):
    monkeypatch.setattr("apsw.sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(StoreError, match=r"SQLite 3\.51\.2 can lose committed data: headrace needs 3\.51\.3"):
        await open_rows(":memory:", inline=True)


async def test_a_dry_write_is_refused_like_a_real_one_and_writes_nothing():
    rows = await open_rows(":memory:", inline=True)
    await rows.check(put("a"))
    assert rows.get(config_map("a")) is None
    revision = await rows.commit(put("a"))
    assert revision == 2
    with pytest.raises(Conflict):
        await rows.check(put("a", 99))
    await rows.close()


async def test_a_cancelled_writer_does_not_disturb_the_others(tmp_path):
    rows = await open_rows(tmp_path / "rows.db")
    tasks = [asyncio.create_task(rows.commit(put(f"object-{number}"))) for number in range(10)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in answers].count(True) == 1
    assert len(rows.page("configmaps").rows) == 10
    await rows.close()


async def test_a_write_that_cannot_be_handled_fails_alone(tmp_path):
    rows = await open_rows(tmp_path / "rows.db")
    bad = write(Key("pods", "default", "bad"), 0, {"spec": {"nodeName": "a", "containers": 7}})
    answers = await asyncio.gather(
        rows.commit(put("a")), rows.commit(bad), rows.commit(put("b")), return_exceptions=True
    )
    assert [type(each).__name__ for each in answers] == ["int", "StoreError", "int"]
    await rows.close()


async def test_what_was_submitted_before_closing_is_still_written(tmp_path):
    rows = await open_rows(tmp_path / "rows.db")
    writing = [asyncio.create_task(rows.commit(put(f"object-{number}"))) for number in range(50)]
    await asyncio.sleep(0)
    await rows.close()
    assert sorted(await asyncio.gather(*writing)) == list(range(2, 52))
    with pytest.raises(Unavailable):
        await rows.commit(put("late"))
