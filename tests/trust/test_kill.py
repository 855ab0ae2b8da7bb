"""kill -9 of the real server at each of its first syncs and at random moments, under load through HTTP.

Every acknowledged write is there, no revision was given twice or goes back, the file is whole, books = fold.
"""

import contextlib
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.trust.files import books_differ, integrity
from tests.trust.preloaded import built
from tests.trust.servers import Died, Server, directory_of_server
from tests.trust.writers import NO_ANSWER, NODE, NODES, Acknowledged, Writers, config_maps

pytestmark = pytest.mark.trust

SYNCS = 200
PARTS = 8
FIRST_START_SYNCS = 30  # it makes keys, the file and the namespaces
RANDOM_MOMENTS = 100
RANDOM_PARTS = 4
READY_SECONDS = 2.0
SLOW_MACHINE = 8.0  # a busy machine may take this many times longer before the assertion fails; the figures are printed


@dataclass
class Lives:
    """One directory, its server's lives one after another."""

    server: Server
    scratch: Path
    acknowledged: Acknowledged = field(default_factory=Acknowledged)
    ready: list[float] = field(default_factory=list)
    writes: int = 0
    kills: int = 0

    def start(self, **environment: str) -> None:
        problem = integrity(self.server.file, self.scratch)
        assert problem == "ok", problem
        self.ready.append(self.server.start(**environment))

    def compare(self) -> None:
        caller = self.server.caller()
        revision, found = config_maps(caller)
        assert revision >= max(self.acknowledged.revisions, default=0), "the revision went back"
        assert self.acknowledged.compare(found) == []
        caller.close()

    def check(self) -> None:
        self.compare()
        caller = self.server.caller()
        caller.call("POST", NODES, NODE)
        assert books_differ(self.server.file, caller) == ""
        caller.close()

    def load(self, seed: int) -> Writers:
        writers = Writers(self.server, self.acknowledged, seed)
        writers.start()
        return writers

    def until_dead(self, writers: Writers) -> None:
        writers.join()
        code = self.server.wait_for_death()
        assert code == -9, (code, self.server.log()[-2000:])
        self.writes += writers.writes
        self.kills += 1

    def finish(self) -> None:
        """The last life: is everything there, and are the books still right after more writing?"""
        self.start()
        self.check()
        writers = self.load(seed=0)
        time.sleep(0.3)
        writers.stop()
        self.check()
        assert self.server.stop() == 0

    def tell(self, what: str) -> None:
        times = sorted(self.ready)
        told = f"ready p50 {times[len(times) // 2]:.2f} s, most {times[-1]:.2f} s" if times else "no plain start"
        print(f"\n{what}: {self.kills} kills, {self.writes} acknowledged writes, 0 lost; {told}")
        assert times[len(times) // 2] <= READY_SECONDS * SLOW_MACHINE


@pytest.fixture
def lives(tmp_path):
    with directory_of_server(tmp_path / "data") as server:
        yield Lives(server, tmp_path / "copy")


@pytest.fixture(scope="module")
def sync_kill(tmp_path_factory) -> Path:
    return built("sync_kill", tmp_path_factory.mktemp("sync_kill"))


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_each_of_its_first_200_syncs_it_loses_nothing_acknowledged(lives, sync_kill, part):
    for nth in range(part + 1, SYNCS + 1, PARTS):
        faults = {"LD_PRELOAD": str(sync_kill), "KILL_AT_SYNC": str(nth)}
        try:
            lives.start(**faults)
            lives.compare()
        except (Died, *NO_ANSWER):  # while it started, or was looked at
            assert lives.server.wait_for_death() == -9
            lives.kills += 1
            lives.start()
            lives.check()
            lives.server.kill()
            continue
        lives.until_dead(lives.load(nth))
        if nth % 5 == 0:
            lives.start()
            lives.check()
            lives.server.kill()
    lives.finish()
    lives.tell(f"syncs {part + 1}, {part + 1 + PARTS}, … {SYNCS}")


def test_killed_at_each_sync_of_its_first_start_it_starts_again(tmp_path, sync_kill):
    for nth in range(1, FIRST_START_SYNCS + 1):
        with directory_of_server(tmp_path / f"data-{nth}") as server:
            lives = Lives(server, tmp_path / "copy")
            with contextlib.suppress(Died):
                server.start(LD_PRELOAD=str(sync_kill), KILL_AT_SYNC=str(nth))
                server.kill()
            lives.start()
            lives.check()


@pytest.mark.parametrize("part", range(RANDOM_PARTS))
def test_killed_at_random_moments_it_loses_nothing_acknowledged(lives, part):
    chance = random.Random(part)
    for number in range(RANDOM_MOMENTS // RANDOM_PARTS):
        if number and chance.random() < 0.3:  # while it starts
            lives.server.launch()
            time.sleep(chance.random() * min(lives.ready))
            lives.server.kill()
            lives.kills += 1
        lives.start()
        lives.check()
        writers = lives.load(1000 * part + number)
        time.sleep(chance.random() * 0.4)
        lives.server.kill()
        lives.until_dead(writers)
    lives.finish()
    lives.tell(f"random moments, part {part}")


def test_control_a_lost_acknowledgement_is_noticed(lives):
    lives.start()
    lives.check()
    writers = lives.load(seed=1)
    time.sleep(0.3)
    writers.stop()
    name, held = next((name, held) for name, held in lives.acknowledged.last.items() if held is not None)
    lives.acknowledged.last[name] = (held[0] + 1_000_000, "never written")
    with pytest.raises(AssertionError, match="never written"):
        lives.check()


def test_control_a_revision_given_twice_is_noticed():
    acknowledged = Acknowledged()
    acknowledged.revision(7)
    with pytest.raises(AssertionError, match="twice"):
        acknowledged.revision(7)


def test_control_books_that_are_not_the_fold_are_noticed(lives, tmp_path):
    lives.start()
    lives.check()
    caller = lives.server.caller()
    other = Lives(Server(tmp_path / "other"), tmp_path / "copy")
    try:
        other.start()
        with pytest.raises(AssertionError):
            assert books_differ(other.server.file, caller) == ""
    finally:
        other.server.kill()
