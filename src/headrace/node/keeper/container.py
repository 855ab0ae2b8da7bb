"""One container as its keeper sees it: record, output, end. What it tells others is what its record on disk says."""

import contextlib
import os
import signal
import time

from headrace.node.keeper import identity, linux, members
from headrace.node.keeper.log import Log
from headrace.node.keeper.pump import Pump, Scratch
from headrace.node.keeper.record import Records

STREAMS = ("stdout", "stderr")
FIRST_DELAY_SECONDS = 0.001

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Container:
    """`spec` is the start request, `state` what clients see (its `exit_code` stays None when nobody can know it)."""

    def __init__(self, spec: "dict[str, Any]", directory: str) -> None:
        self.id: str = spec["id"]
        self.spec = spec
        self.state: dict[str, Any] = {}
        self.pid = -1
        self.pumps: list[Pump] = []
        self.pidfd = -1
        self.boot = ""
        self.recorded = False  # what `state` says is on the disk
        self.retry_at, self.delay = 0.0, FIRST_DELAY_SECONDS  # of its end, which may need several looks
        self.fifos = [os.path.join(directory, f"{self.id}.{stream}") for stream in STREAMS]
        self.marker = os.path.join(directory, self.id)
        self._child = False  # ours to wait for; an adopted one is not
        self._log: Log | None = None

    # ---- output

    def make_output(self, scratch: Scratch) -> tuple[int, int]:
        """Make the FIFOs and the log; answers the container's ends, which hold the FIFOs open for reading as well."""
        ends: list[int] = []
        try:
            for path in self.fifos:
                if os.path.lexists(path):
                    os.unlink(path)
                os.mkfifo(path, 0o600)
            self.open_output(scratch)
            uid = self.spec.get("uid")
            for path in self.fifos:
                ends.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
                if uid is not None and os.geteuid() == 0:
                    os.fchown(ends[-1], uid, -1)  # it may open /dev/stdout by name
        except OSError:
            for end in ends:
                os.close(end)
            self.discard_output()
            raise
        return ends[0], ends[1]

    def open_output(self, scratch: Scratch) -> None:
        """Read the FIFOs that are there; a container that ended long ago has none, and perhaps no log any more."""
        there = [(stream, path) for stream, path in zip(STREAMS, self.fifos, strict=True) if os.path.exists(path)]
        if there:
            self._log = Log(self.spec["log_path"])
        for stream, path in there:
            assert self._log is not None
            self.pumps.append(Pump(stream, path, self._log, scratch))

    def finish_output(self) -> None:
        """Write what is left and forget the FIFOs. Raises OSError while the log cannot be written."""
        for pump in self.pumps:
            pump.finish()
        self.discard_output()

    def close_output(self) -> None:
        """Stop reading; what the FIFOs hold stays in them as long as the container holds them open."""
        for pump in self.pumps:
            pump.close()
        self.pumps = []
        if self._log is not None:
            self._log.close()
            self._log = None

    def discard_output(self) -> None:
        self.close_output()
        for path in self.fifos:
            if os.path.lexists(path):
                os.unlink(path)

    # ---- process

    def started(self, pid: int, boot: str) -> None:
        """Take note of a process just forked. Raises OSError when it cannot be held."""
        self.pid, self.boot, self._child = pid, boot, True
        self.pidfd = os.pidfd_open(pid)
        found = identity.stat(pid)
        assert found is not None  # a child that was not waited for is at least a zombie
        self.state = {
            "id": self.id,
            "state": "running",
            "pid": pid,
            "start_ticks": found.start_ticks,
            "started_at": time.time(),
            "finished_at": None,
            "exit_code": None,
            "signal": None,
            "labels": self.spec.get("labels", {}),
            "cgroups": self.spec.get("cgroups", []),
            "marker": self.marker,
        }

    def adopt(self, boot: str) -> bool:
        """After a keeper's death: find the process again. False when it has ended."""
        if self.state["finished_at"] is not None:
            return False
        if self.boot == boot and identity.runs(self.pid, self.state["start_ticks"]):
            with contextlib.suppress(ProcessLookupError):
                self.pidfd = os.pidfd_open(self.pid)
                if identity.runs(self.pid, self.state["start_ticks"]):  # the descriptor is of that very process
                    return True
        self.release()
        self._set_end(None)
        return False

    def note_exit(self) -> None:
        """The process has ended; it is not waited for yet."""
        if self._child:
            found = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            assert found is not None
            by_signal = found.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
            self._set_end(found.si_status if by_signal else found.si_status << 8)
        else:
            self._set_end(self._adopted_status())

    def signal(self, number: int) -> bool:
        """To the main process; one that has ended is no error."""
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)
        return True

    def kill_all(self) -> bool:
        """Kill every process of the container; true when none is left but its own, which has ended."""
        session = self.pid if self._child else None  # not waited for, so its session's number cannot be another's
        return members.kill_all(self.spec.get("cgroups", ()), self.pid, self.marker, session)

    def release(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def abandon(self) -> None:
        self.discard_output()
        self.release()

    def _adopted_status(self) -> int | None:
        """The wait status of a process that is not our child, where the kernel still tells it."""
        found = identity.stat(self.pid)
        if found is not None and found.start_ticks == self.state["start_ticks"]:
            return found.status if found.state in identity.ZOMBIE_STATES else None
        return linux.exit_status(self.pidfd)

    def _set_end(self, status: int | None) -> None:
        """`status` is a wait status; None when the process ended while no keeper was there to see it."""
        self.recorded = False
        self.state["finished_at"] = time.time()
        if status is not None:
            by_signal = os.WIFSIGNALED(status)
            self.state["signal"] = os.WTERMSIG(status) if by_signal else None
            self.state["exit_code"] = 128 + os.WTERMSIG(status) if by_signal else os.WEXITSTATUS(status)

    # ---- record

    def save(self, records: Records, *, durable: bool = True) -> None:
        record = {"version": 1, "boot": self.boot, "spec": self.spec, "state": self.state}
        records.write(self.id, record, durable=durable)
        self.recorded = True

    @classmethod
    def load(cls, record: "dict[str, Any]", directory: str) -> "Container":
        container = cls(record["spec"], directory)
        container.state, container.boot = record["state"], record["boot"]
        container.pid = container.state["pid"]
        container.recorded = True
        return container
