"""Writes that share one transaction and one sync: when that fails, each caller's answer is still what the file holds.

Callers write at the same moment what is granted, refused by the ledger, in conflict, doubled or impossible to store,
while a slow disk makes them groups; then the disk fails, fills up or the power goes. The history in the file, read
after a restart, is the judge of all answers and of what watchers were told.
"""

import json
import threading
from collections import Counter
from typing import Any, NamedTuple

import pytest

from tests.trust.servers import Caller, Server, directory_of_server, wait_for
from tests.trust.writers import CONFIG_MAPS, NO_ANSWER, NODES, PODS

pytestmark = pytest.mark.trust

STRACE = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,pwrite64")
SLOW = {"fdatasync": "inject=pwrite64:delay_enter=5000", "pwrite64": "inject=fdatasync:delay_enter=30000"}
"""By the call that fails: what makes the disk slow, so that writes meet in groups."""

ROUNDS = 10
PODS_OF_A_ROUND = 4
FIT = 2
CAPACITY = {"cpu": "4", "memory": "64Gi", "pods": "1000"}
CPU = "1500m"
UNKNOWN = 0
"""In place of an answer's code: none came, or one that says that nothing is acknowledged any more."""

FAULTS = {
    "a sync fails": ("fdatasync", "error=EIO:when={}", (2, 5)),
    "a write fails": ("pwrite64", "error=EIO:when={}", (12, 61)),
    "the disk is full for a while": ("pwrite64", "error=ENOSPC:when={}..{}", (9, 40, 61)),
    "the quota is used up for a while": ("pwrite64", "error=EDQUOT:when={}..{}", (40,)),
    "killed before a sync": ("fdatasync", "signal=SIGKILL:when={}", (3,)),
}


class Wish(NamedTuple):
    """`event` is what a watcher is told of it if it is granted."""

    name: str
    event: str
    method: str
    path: str
    body: Any


class Heard(NamedTuple):
    """The answer to a wish, and the revision that it told, if any."""

    name: str
    code: int
    revision: int = 0


class Event(NamedTuple):
    type: str
    name: str
    revision: int


def config_map(name: str, text: str = "", revision: str = "") -> dict[str, Any]:
    version = {"resourceVersion": revision} if revision else {}
    return {"metadata": {"name": name, **version}, "data": {"text": text}}


def pod(name: str, cpu: str = CPU) -> dict[str, Any]:
    """No scheduler looks at it."""
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"schedulerName": "nobody", "containers": [container]}}


def pods_of(number: int) -> list[str]:
    return [f"pod-{number}-{each}" for each in range(PODS_OF_A_ROUND)]


def wishes(number: int, version: str) -> list[Wish]:
    """FIT of the Pods fit on the round's node; one of two changes of one version, one of two of one name is granted."""
    binding = {"target": {"kind": "Node", "name": f"node-{number}"}}
    twins = [config_map(f"twin-{number}", str(each)) for each in range(2)]
    changes = [config_map("contested", f"{number}-{each}", version) for each in range(2)]
    own = [config_map(f"own-{number}-{each}", "x" * 3000) for each in range(6)]
    return [
        *(Wish(name, "MODIFIED", "POST", f"{PODS}/{name}/binding", binding) for name in pods_of(number)),
        *(Wish("contested", "MODIFIED", "PUT", f"{CONFIG_MAPS}/contested", each) for each in changes),
        *(Wish(each["metadata"]["name"], "ADDED", "POST", CONFIG_MAPS, each) for each in (*twins, *own)),
        Wish(f"huge-{number}", "ADDED", "POST", PODS, pod(f"huge-{number}", "-1")),
    ]


def ask(caller: Caller, wish: Wish, heard: list[Heard]) -> None:
    try:
        code, answer = caller.call(wish.method, wish.path, wish.body)
    except NO_ANSWER:
        code, answer = UNKNOWN, {}
    if code == 503:
        code = UNKNOWN
    revision = int(answer["metadata"].get("resourceVersion", 0)) if code in (200, 201) else 0
    heard.append(Heard(wish.name, code, revision))


def ask_all(callers: list[Caller], wanted: list[Wish]) -> list[Heard]:
    """All at once."""
    heard: list[Heard] = []
    threads = [
        threading.Thread(target=ask, args=(caller, wish, heard), daemon=True)
        for caller, wish in zip(callers, wanted, strict=True)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return heard


class Watching:
    """Reads events until its line ends."""

    def __init__(self, server: Server, path: str, since: int) -> None:
        self.events: list[Event] = []
        self._answer = server.caller().open(f"{path}?watch=true&resourceVersion={since}")
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while line := self._answer.readline():
                event = json.loads(line)
                metadata = event["object"]["metadata"]
                self.events.append(Event(event["type"], metadata["name"], int(metadata["resourceVersion"])))
        except (*NO_ANSWER, ValueError):  # cut in the middle of a line
            return

    def reached(self, revision: int) -> bool:
        return bool(self.events) and self.events[-1].revision >= revision


def prepare(caller: Caller) -> int:
    """A node and unbound Pods for each round, and what all change; the revision then."""
    status = {"status": {"capacity": CAPACITY, "allocatable": CAPACITY}}
    for number in range(ROUNDS):
        node = f"node-{number}"
        assert caller.call("POST", NODES, {"metadata": {"name": node}})[0] == 201
        code, answer = caller.call("PATCH", f"{NODES}/{node}/status", status, "application/merge-patch+json")
        assert code == 200, answer
        for name in pods_of(number):
            assert caller.call("POST", PODS, pod(name))[0] == 201
    code, answer = caller.call("POST", CONFIG_MAPS, config_map("contested"))
    assert code == 201, answer
    return int(answer["metadata"]["resourceVersion"])


def trial(server: Server, since: int, *faults: str) -> tuple[list[Heard], list[Event]]:
    """Rounds until the server is gone or all are done: the answers, and what watchers were told."""
    callers = [server.caller() for _ in wishes(0, "")]
    for each in callers:
        each.call("GET", f"{NODES}/node-0")
    watching = [Watching(server, path, since) for path in (CONFIG_MAPS, PODS)]
    server.trace(*STRACE, *(part for fault in faults for part in ("-e", fault)))
    heard: list[Heard] = []
    version = str(since)
    for number in range(ROUNDS):
        answers = ask_all(callers, wishes(number, version))
        heard += answers
        changed = [str(each.revision) for each in answers if each.name == "contested" and each.code == 200]
        version = changed[0] if changed else version
        if all(each.code == UNKNOWN for each in answers):
            break
    return heard, [event for each in watching for event in each.events]


def history(server: Server, since: int) -> list[Event]:
    """Everything that the file tells of after `since`."""
    found = []
    for path, last in ((CONFIG_MAPS, config_map("the-end")), (PODS, pod("the-end"))):
        code, answer = server.caller().call("POST", path, last)
        assert code == 201, answer
        watching = Watching(server, path, since)
        end = int(answer["metadata"]["resourceVersion"])
        wait_for("all that was changed is told", lambda watching=watching, end=end: watching.reached(end))
        found += watching.events[:-1]
    return found


def problems(heard: list[Heard], told: list[Event], found: list[Event]) -> list[str]:
    """Where answers or watches and the file disagree."""
    names = {event.revision: event.name for event in found}
    wrong = [
        f"{each.name} was acknowledged at {each.revision}: {names.get(each.revision)} is there"
        for each in heard
        if each.revision and names.get(each.revision) != each.name
    ]
    written = Counter(event.name for event in found)
    for name in {each.name for each in heard}:
        codes = [each.code for each in heard if each.name == name]
        granted = codes.count(200) + codes.count(201)
        if not granted <= written[name] <= granted + codes.count(UNKNOWN):
            wrong.append(f"{name}: answered {codes}, written {written[name]} times")
    bound = {number: sum(written[name] for name in pods_of(number)) for number in range(ROUNDS)}
    wrong += [f"node-{number} was given {count} Pods" for number, count in bound.items() if count > FIT]
    if invented := set(told) - set(found):
        wrong.append(f"watchers were told of {invented}, which the file does not hold")
    return wrong


@pytest.mark.parametrize(
    ("call", "how", "nth"),
    [pytest.param(call, how, nth, id=f"{name}: {nth}") for name, (call, how, all_) in FAULTS.items() for nth in all_],
)
def test_answers_of_a_group_whose_commit_fails_are_what_the_file_holds(tmp_path, call, how, nth):
    with directory_of_server(tmp_path / "data") as server:
        server.start()
        since = prepare(server.caller())
        heard, told = trial(server, since, SLOW[call], f"inject={call}:{how.format(nth, nth + 2)}")
        server.kill()
        server.start()
        found = history(server, since)
        assert problems(heard, told, found) == []
        assert server.stop() == 0
    codes = Counter(each.code for each in heard)
    print(f"\nanswers {dict(sorted(codes.items()))}, {len(told)} events told, {len(found)} in the file")
    assert codes[201], "nothing was written, so nothing was tried"


def test_control_an_answer_that_is_not_what_the_file_holds_is_noticed():
    found = [Event("ADDED", "own-1", 7), Event("MODIFIED", "contested", 8)]
    assert problems([Heard("own-1", 201, 7), Heard("contested", 200, 8)], found[:1], found) == []
    assert problems([Heard("own-1", UNKNOWN), Heard("own-2", UNKNOWN)], [], found) == []
    assert problems([Heard("own-1", 507)], [], found) != []
    assert problems([Heard("own-2", 201, 9)], [], found) != []
    assert problems([Heard("contested", 200, 8), Heard("contested", 200, 8)], [], found) != []
    assert problems([], [Event("ADDED", "own-2", 9)], found) != []
    assert problems([], [], [Event("MODIFIED", name, 9) for name in pods_of(1)[: FIT + 1]]) != []
