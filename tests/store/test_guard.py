"""The ledger inside the commit: what does not fit is not written, whoever asks and however many at once."""

import asyncio

import pytest

from headrace.ledger.books import Books
from headrace.store import statements
from headrace.store.protocol import Invalid, Refused
from headrace.store.rows import Key
from headrace.store.sqlite import open_rows
from tests.ledger.builders import claim, container, key_of, node, pod, result
from tests.store.builders import write


def put(obj, expected=0):
    return write(Key(*key_of(obj)), expected, obj)


async def with_node(path=":memory:", **capacity):
    rows = await open_rows(path, inline=path == ":memory:")
    await rows.commit(put(node(**capacity)))
    return rows


def available(rows, resource="cpu"):
    return rows.ledgers["node-a"].available()[resource]


async def test_a_pod_that_does_not_fit_is_not_written_and_takes_no_revision():
    rows = await with_node(cpu="4")
    await rows.commit(put(pod("web", container(cpu="3"))))
    with pytest.raises(Refused, match="node node-a: insufficient cpu: 2 more wanted, 1 available of 4") as refused:
        await rows.commit(put(pod("big", container(cpu="2"))))
    assert refused.value.shortfall.missing == {"cpu": 1000}
    assert rows.get(Key(*key_of(pod("big", container())))) is None
    assert await rows.commit(put(pod("small", container(cpu="1")))) == 4
    await rows.close()


async def test_a_dry_run_is_told_the_same_and_charges_nothing():
    rows = await with_node(cpu="4")
    with pytest.raises(Refused):
        await rows.check(put(pod("big", container(cpu="5"))))
    await rows.check(put(pod("web", container(cpu="4"))))
    assert available(rows) == 4000
    await rows.commit(put(pod("web", container(cpu="4"))))
    assert available(rows) == 0
    await rows.close()


async def test_a_device_is_never_given_to_two_claims():
    rows = await with_node()
    await rows.commit(put(claim("first", result("gpu-0"))))
    with pytest.raises(Refused, match=r"gpu\.example\.com/node-a/gpu-0 is allocated to ResourceClaim default/first"):
        await rows.commit(put(claim("second", result("gpu-0"))))
    await rows.close()


async def test_an_amount_that_is_no_quantity_is_invalid():
    rows = await with_node()
    with pytest.raises(Invalid, match="quantities must match"):
        await rows.commit(put(pod("web", container(cpu="lots"))))
    await rows.close()


async def test_racing_writers_never_overcommit(tmp_path):
    """Total 8, two wishes of 2 with 2 left: exactly one is granted, each time."""
    rows = await with_node(tmp_path / "rows.db", cpu="8")
    await rows.commit(put(pod("others", container(cpu="6"))))
    for _ in range(50):
        wishes = [rows.commit(put(pod(name, container(cpu="2")))) for name in ("a", "b")]
        answers = await asyncio.gather(*wishes, return_exceptions=True)
        (granted,) = (each for each in answers if isinstance(each, int))
        assert sum(isinstance(each, Refused) for each in answers) == 1
        assert available(rows) == 0
        (name,) = (name for name in ("a", "b") if rows.get(Key("pods", "default", name)))
        await rows.commit(write(Key("pods", "default", name), granted, None))
    await rows.close()


async def test_ten_thousand_wishes_of_sixteen_writers_fit_together(tmp_path):
    rows = await with_node(tmp_path / "rows.db", cpu="50", pods="110")
    refusals = 0

    async def writer(number):
        nonlocal refusals
        for turn in range(625):
            key = Key("pods", "default", f"{number}-{turn % 5}")
            row = rows.get(key)
            try:
                if row is not None and turn % 3 == 0:
                    await rows.commit(write(key, row.revision, None))
                else:
                    wish = pod(key.name, container(cpu=f"{1 + (number + turn) % 4}"))
                    await rows.commit(put(wish, row.revision if row else 0))
            except Refused:
                refusals += 1
            assert available(rows) >= 0

    await asyncio.gather(*(writer(number) for number in range(16)))
    assert refusals > 100
    await rows.close()


async def test_what_a_node_did_not_confirm_is_charged_across_restarts_until_it_does(tmp_path):
    rows = await with_node(tmp_path / "rows.db", cpu="4")
    key = Key("pods", "default", "web")
    revision = await rows.commit(put(pod("web", container(cpu="3"))))
    deleted = await rows.commit(write(key, revision, None, confirmed=False))
    await rows.close()

    rows = await open_rows(tmp_path / "rows.db")
    with pytest.raises(Refused, match=rf"Pod default/web \(deleted at {deleted}, not confirmed\) 3"):
        await rows.commit(put(pod("web", container(cpu="3"))))
    registered = rows.get(Key("nodes", "", "node-a")).revision
    await rows.commit(put(node(annotations={"confirmed-revision": deleted}), registered))
    assert available(rows) == 4000
    assert rows._writing.execute(statements.EVERY_DEPARTED).fetchall() == []
    await rows.close()

    rows = await open_rows(tmp_path / "rows.db")
    assert available(rows) == 4000
    await rows.close()


async def test_a_deletion_of_what_holds_nothing_leaves_nothing_behind(tmp_path):
    rows = await with_node(tmp_path / "rows.db")
    key = Key("pods", "default", "done")
    revision = await rows.commit(put(pod("done", container(cpu="3"), phase="Succeeded")))
    await rows.commit(write(key, revision, None, confirmed=False))
    assert rows._writing.execute(statements.EVERY_DEPARTED).fetchall() == []
    await rows.close()


async def test_the_ledgers_shown_are_those_of_what_is_committed(tmp_path, monkeypatch):
    """A batch that fails on its way to the disk is undone in the books too."""
    rows = await with_node(cpu="4")
    whole = Books.fold([(key_of(node()), node())])
    monkeypatch.setattr("headrace.store.statements.APPEND", "INSERT INTO nowhere VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
    with pytest.raises(Exception, match="no such table"):
        await rows.commit(put(pod("web", container(cpu="4"))))
    assert rows.books.difference(whole) == ()
    assert available(rows) == 4000
    await rows.close()
