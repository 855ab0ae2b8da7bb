"""What doctor makes of what it sees: each finding has a case in which all is well and one in which it is not."""

import msgspec
import pytest

from headrace.cli.doctor import findings
from headrace.cli.places import served_directory
from headrace.ledger.books import Books
from headrace.ledger.document import BooksDocument, LedgerDocument, document
from tests.ledger.builders import claim, container, node, pod, resource_slice, result

NOW = 1_800_000_000.0
DAY = 86_400.0
WEB = ("pods", "default", "web")


def told(books: Books) -> BooksDocument:
    return document(7, NOW, books.nodes(), books.pools().values())


def books_of(*more: tuple[tuple[str, str, str], dict]) -> Books:
    objects = [(("nodes", "", "node-a"), node()), (WEB, pod("web", container(cpu="1"))), *more]
    return Books.fold(objects)


def levels(found) -> list[tuple[str, str]]:
    return [(each.level, each.check) for each in found]


def test_books_that_are_the_fold_are_well():
    assert levels(findings.books(told(books_of()), told(books_of()))) == [("ok", "books")]


def test_a_holder_that_no_object_has_is_a_failure():
    other = books_of((("pods", "default", "more"), pod("more", container(cpu="1"))))
    (found,) = findings.books(told(other), told(books_of()))
    assert found.level == "fail"
    assert "holders Pod default/more" in found.message


def test_a_device_that_no_claim_has_is_a_failure():
    slices = (("resourceslices.resource.k8s.io", "", "s"), resource_slice("s", {"name": "gpu-0"}))
    owner = (("resourceclaims.resource.k8s.io", "default", "big"), claim("big", result("gpu-0")))
    (found,) = findings.books(told(books_of(slices, owner)), told(books_of(slices)))
    assert found.level == "fail"
    assert "devices gpu.example.com/node-a" in found.message


def reservation(*pods: str) -> tuple[tuple[str, str, str], dict]:
    spec = {"node": "node-a", "resources": {"cpu": "1"}, "beneficiaries": {"pods": list(pods)}}
    obj = {"metadata": {"namespace": "default", "name": "kept"}, "spec": spec}
    return ("capacityreservations.headrace.dev", "default", "kept"), obj


def test_a_floor_that_no_reservation_has_is_a_failure():
    """Also one that its beneficiary covers, which shows among no holders."""
    kept = books_of(reservation("web"))
    assert levels(findings.books(told(kept), told(kept))) == [("ok", "books")]
    (found,) = findings.books(told(kept), told(books_of()))
    assert found.level == "fail"
    assert "floors CapacityReservation default/kept: {'amounts': {'cpu': 1000}" in found.message


def test_a_floor_for_others_than_the_reservation_says_is_a_failure():
    here, there = told(books_of(reservation("web"))), told(books_of(reservation("web", "db")))
    (found,) = findings.books(here, there)
    assert (found.level, "Pod default/db" in found.message) == ("fail", True)


def test_a_sum_that_is_not_that_of_its_holders_is_a_failure():
    right = told(books_of())
    ledger = msgspec.structs.replace(right.nodes["node-a"], allocated={"cpu": 1})
    wrong = BooksDocument("7", NOW, {"node-a": ledger})
    assert ("fail", "books") in levels(findings.books(wrong, right))


def test_a_node_that_is_only_in_the_books_is_a_failure():
    empty = BooksDocument("7", NOW, {})
    assert levels(findings.books(told(books_of()), empty)) == [("fail", "books")]


def test_what_was_deleted_and_is_not_confirmed_is_told_and_no_difference():
    books = books_of()
    books.apply(WEB, None, 9, confirmed=False)
    without = Books.fold([(("nodes", "", "node-a"), node())])
    ok, waiting = findings.books(told(books), told(without))
    assert (ok.level, waiting.level) == ("ok", "warn")
    assert "Pod default/web (deleted at 9, not confirmed)" in waiting.message


def test_a_node_that_holds_more_than_it_has_is_told():
    ledger = LedgerDocument({"cpu": 1000}, {}, {"cpu": 1500}, {"cpu": -500}, {"Pod default/web": {"cpu": 1500}})
    found = list(findings.books(*[BooksDocument("7", NOW, {"node-a": ledger})] * 2))
    assert levels(found) == [("ok", "books"), ("warn", "books")]


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
ENFORCED = '{"cpu": "enforced", "memory": "enforced", "detail": "cgroup v2"}'
NODES = {
    "a ready node that enforces": ({"enforcement": ENFORCED}, READY, ["ok", "ok", "ok"]),
    "a silent node": ({"enforcement": ENFORCED}, {"conditions": []}, ["fail", "ok", "ok"]),
    "a stray": ({"enforcement": ENFORCED, "strays": '{"x": {"cpu": 100}}'}, READY, ["ok", "warn", "ok"]),
    "approximate limits": ({"enforcement": '{"cpu": "approximate", "memory": "none"}'}, READY, ["ok", "ok", "warn"]),
    "no word about limits": ({}, READY, ["ok", "ok", "warn"]),
    "nonsense about limits": ({"enforcement": "[1]"}, READY, ["ok", "ok", "warn"]),
}


@pytest.mark.parametrize(("annotations", "status", "expected"), NODES.values(), ids=NODES)
def test_a_node_is_judged(annotations, status, expected):
    found = list(findings.node(node(annotations=annotations) | {"status": status}))
    assert [each.level for each in found] == expected
    assert all(each.remedy for each in found if each.level != "ok")


def lease(renewed: str, written: str) -> dict:
    meta = {"name": "node-a", "managedFields": [{"manager": "agent", "time": written}]}
    return {"metadata": meta, "spec": {"renewTime": renewed}}


CLOCKS = {
    "the same": ("2027-01-01T00:00:00.400000Z", "2027-01-01T00:00:00Z", "ok"),
    "ten seconds ahead": ("2027-01-01T00:00:10.400000Z", "2027-01-01T00:00:00Z", "warn"),
    "an hour behind": ("2026-12-31T23:00:00.400000Z", "2027-01-01T00:00:00Z", "fail"),
}


@pytest.mark.parametrize(("renewed", "written", "level"), CLOCKS.values(), ids=CLOCKS)
def test_a_nodes_clock_is_compared_with_the_servers(renewed, written, level):
    assert findings.node_clock(lease(renewed, written)).level == level


def test_a_slow_answer_is_no_wrong_clock():
    assert findings.own_clock(NOW + 4, asked=NOW, answered=NOW + 8).level == "ok"
    assert findings.own_clock(NOW + 60, asked=NOW, answered=NOW + 8).level == "warn"


@pytest.mark.parametrize(("days", "level"), [(300, "ok"), (20, "warn"), (-1, "fail")])
def test_certificates_are_told_before_they_end(days, level):
    assert findings.certificate("server.crt", NOW + days * DAY, NOW).level == level


@pytest.mark.parametrize(("mebibytes", "level"), [(5000, "ok"), (500, "warn"), (50, "fail")])
def test_a_disk_that_fills_is_told(mebibytes, level):
    assert findings.disk("/var", mebibytes << 20, 10_000 << 20).level == level


def test_a_directory_that_cannot_be_written_is_told_as_that_whatever_is_free_there():
    found = findings.disk("/var", 9_000 << 20, 10_000 << 20, writable=False)
    assert (found.level, found.message) == ("fail", "/var: nothing can be written there")


def test_the_directory_that_is_looked_at_is_that_of_the_server_that_answers(tmp_path, monkeypatch):
    """With $KUBECONFIG of another server it told of the disk of the default directory, and not of this one's file."""
    default, mine, remote = (tmp_path / name for name in ("default", "mine", "remote"))
    for each in (default, mine, remote):
        each.mkdir()
        (each / "kubeconfig").touch()
    for each in (default, mine):
        (each / "headrace.db").touch()
    monkeypatch.setenv("HEADRACE_DATA_DIR", str(default))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert served_directory(None, None) == default
    assert served_directory(None, str(mine)) == mine
    assert served_directory(str(mine / "kubeconfig"), None) == mine
    monkeypatch.setenv("KUBECONFIG", str(mine / "kubeconfig"))
    assert served_directory(None, None) == mine
    monkeypatch.setenv("KUBECONFIG", str(remote / "kubeconfig"))
    assert served_directory(None, None) is None
