"""The keeper's loop: one thread, one epoll. Whatever it has answered is durable; it may be killed at any moment."""

import contextlib
import os
import resource
import select
import signal
import socket
import time

from headrace.node.keeper import identity, linux, spawn
from headrace.node.keeper.clients import Clients
from headrace.node.keeper.connection import Connection
from headrace.node.keeper.container import Container
from headrace.node.keeper.operations import OPERATIONS, Failed, check_signal, check_start
from headrace.node.keeper.output import RETRY_SECONDS, Output
from headrace.node.keeper.poll import Poll
from headrace.node.keeper.record import Records

OWN_LOG_BYTES = 1 << 20
IDLE_SECONDS = 60.0  # with no containers and no clients the keeper goes away; the next client starts another
REAP_SECONDS = 0.05

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Keeper:
    """Serves one directory: `records/`, `fifos/`, `keeper.sock`."""

    def __init__(self, directory: str, listener: socket.socket) -> None:
        self._records = Records(os.path.join(directory, "records"))
        self._fifos = os.path.join(directory, "fifos")
        self._stage = os.path.join(directory, "stage")
        for path in (self._fifos, self._stage):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self._boot = identity.boot_id()
        self._most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._containers: dict[str, Container] = {}
        self._by_pid: dict[int, Container] = {}  # children that are not reaped yet
        self._starting: dict[str, list[tuple[Connection, int]]] = {}  # who waits for the end of a start
        self._ending: dict[str, Container] = {}
        self._poll = Poll()
        self._output = Output(self._poll, self._say)
        self._clients = Clients(listener, self._poll, self._request)
        self._wake_reading, self._wake_writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._orphans = False  # there may be some to reap
        self._stopping = False
        self._said = ""
        self._quiet_since = time.monotonic()

    def run(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._most_files, self._most_files))
        linux.become_subreaper()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writing, warn_on_full_buffer=False)
        self._poll.watch(self._wake_reading, select.EPOLLIN, self._on_child)
        self._adopt()
        while not self._stopping:
            self._poll.turn(self._timeout())
            self._output.turn()
            for container in list(self._ending.values()):
                self._end(container)
            if self._orphans:
                self._reap()
            self._clients.push()
            self._rest()

    def _timeout(self) -> float:
        if self._output.busy:
            return 0
        waits = [IDLE_SECONDS]
        if self._ending:
            due = min(container.retry_at for container in self._ending.values())
            waits.append(max(0.001, due - time.monotonic()))
        if self._output.blocked:
            waits.append(RETRY_SECONDS)
        if self._orphans:
            waits.append(REAP_SECONDS)
        return min(waits)

    def _rest(self) -> None:
        now = time.monotonic()
        if self._containers or len(self._clients):
            self._quiet_since = now
        elif now - self._quiet_since >= IDLE_SECONDS:
            self._stopping = True

    # ---- requests

    def _request(self, connection: Connection, number: int, request: "dict[str, Any]") -> None:
        try:
            Failed.unless_version(request.get("v"))
            if request.get("op") == "start":
                self._start(connection, number, check_start(request))
            else:
                connection.answer(number, self._operate(connection, request))
        except Failed as failed:
            connection.refuse(number, failed)
        except Exception as error:  # a fault in one request must not cost all containers their keeper
            self._say(f"{request.get('op')}: {error!r}")
            connection.refuse(number, Failed("Internal", f"{error!r}; see keeper.log"))

    def _operate(self, connection: Connection, request: "dict[str, Any]") -> "Any":
        operation, id = request.get("op"), request.get("id")
        if operation == "list":
            started = [one for one in self._containers.values() if one.id not in self._starting]
            return [one.state for one in (self._containers.values() if request.get("starting") else started)]
        if operation == "get":
            found = self._containers.get(str(id))
            return found.state if found is not None and found.id not in self._starting else None
        if operation == "watch":
            connection.watches = True
            return True
        if operation == "signal":
            return self._known(id).signal(check_signal(request.get("number")))
        if operation == "kill":
            self._known(id).signal(signal.SIGKILL)
            self._known(id).kill_all()
            return True
        if operation == "remove":
            return id not in self._containers or self._remove(self._known(id))
        if operation == "stop":
            return self._stop()
        if operation == "hello":
            return {"pid": os.getpid()}
        raise Failed("Invalid", f"op {operation!r}: must be one of {OPERATIONS}")

    def _known(self, id: object) -> Container:
        container = self._containers.get(id) if isinstance(id, str) else None
        if container is None:
            raise Failed("NotFound", f"container {id!r} is not known here")
        return container

    def _remove(self, container: Container) -> bool:
        if container.state["state"] != "exited":
            raise Failed("Running", f"container {container.id} has not exited: kill it first")
        self._drop(container)
        return True

    def _stop(self) -> bool:
        running = sorted(id for id, container in self._containers.items() if container.state["state"] == "running")
        if running:
            raise Failed("Running", f"{len(running)} containers run, {running[0]} among them: kill them first")
        self._stopping = True
        return True

    # ---- starts

    def _start(self, connection: Connection, number: int, spec: "dict[str, Any]") -> None:
        id = spec["id"]
        if id in self._starting:
            self._starting[id].append((connection, number))
            return
        if id in self._containers:
            connection.answer(number, self._containers[id].state)
            return
        container = Container(spec, self._fifos)
        try:
            outputs = container.make_output(self._output.scratch)
        except OSError as error:
            raise Failed("StartFailed", spawn.describe("log", error, spec)) from None
        try:
            child = spawn.fork(spec, container.marker, outputs, self._stage, self._most_files)
        except OSError as error:
            container.abandon()
            raise Failed("StartFailed", f"fork: {error.strerror}") from None
        finally:
            for output in outputs:
                os.close(output)
        try:
            container.started(child.pid, self._boot)
            container.save(self._records)
        except OSError as error:  # the child sees the closed pipe and ends without having run
            child.abandon()
            container.abandon()
            raise Failed("StartFailed", f"record: {error.strerror}") from None
        self._containers[id] = container
        self._by_pid[child.pid] = container
        self._starting[id] = [(connection, number)]
        self._poll.watch(child.status, select.EPOLLIN, lambda _: self._on_started(container, child))
        self._poll.watch(container.pidfd, select.EPOLLIN, lambda _: self._on_exit(container))
        self._output.watch(container)
        child.go()

    def _on_started(self, container: Container, child: spawn.Child) -> None:
        """The child has become the container's program, or says why not."""
        message = os.read(child.status, 4096).decode(errors="replace")
        self._poll.forget(child.status)
        os.close(child.status)
        waiting = self._starting.pop(container.id)
        if message:
            self._drop(container)
            for connection, number in waiting:
                connection.refuse(number, Failed("StartFailed", message))
            return
        for connection, number in waiting:
            connection.answer(number, container.state)
        self._clients.changed(container)

    def _drop(self, container: Container) -> None:
        """Forget a container that never ran or has exited."""
        self._records.remove(container.id)
        self._unwatch(container)
        container.abandon()
        self._ending.pop(container.id, None)
        self._by_pid.pop(container.pid, None)  # if it is not reaped yet, it will be as an orphan
        del self._containers[container.id]

    def _unwatch(self, container: Container) -> None:
        self._poll.forget(container.pidfd)
        self._output.unwatch(container)

    # ---- ends

    def _on_exit(self, container: Container) -> None:
        self._poll.forget(container.pidfd)
        container.note_exit()
        self._ending[container.id] = container

    def _end(self, container: Container) -> None:
        """Record the end, kill what is left, read the output to its end, then tell. Tried again until all is done."""
        now = time.monotonic()
        if container.id in self._starting or now < container.retry_at:
            return
        container.delay = min(RETRY_SECONDS, container.delay * 2)
        container.retry_at = now + container.delay
        try:
            if not container.recorded:
                container.save(self._records)
            if not container.kill_all():
                return
            self._unwatch(container)
            container.finish_output()
        except OSError as error:
            container.delay = RETRY_SECONDS
            self._say(f"{container.id}: {error.strerror}: its end cannot be written yet")
            return
        if self._by_pid.pop(container.pid, None) is not None:
            os.waitpid(container.pid, os.WNOHANG)  # only now: as long as it is a zombie, its session number is its own
        container.state["state"] = "exited"
        with contextlib.suppress(
            OSError
        ):  # the end itself is on the disk; without this the next keeper tidies up again
            container.save(self._records, durable=False)
        container.release()
        del self._ending[container.id]
        self._clients.changed(container)

    def _on_child(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_reading, 4096):
                pass
        self._orphans = True

    def _reap(self) -> None:
        """Orphans of containers come to the subreaper. A container's own process is waited for at its end."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                found = None
            if found is None:
                self._orphans = False
                return
            if found.si_pid in self._by_pid:
                return  # it hides those behind it; they are looked for again in the next turn
            os.waitpid(found.si_pid, os.WNOHANG)

    # ---- after a keeper's death

    def _adopt(self) -> None:
        for id, record in self._records.load(self._say).items():
            container = self._containers[id] = Container.load(record, self._fifos)
            if container.state["state"] == "exited":
                continue
            self._output.adopt(container)
            if container.adopt(self._boot):
                self._poll.watch(container.pidfd, select.EPOLLIN, lambda _, one=container: self._on_exit(one))  # type: ignore[misc]
            else:
                self._ending[id] = container
        kept = {os.path.basename(path) for container in self._containers.values() for path in container.fifos}
        for name in os.listdir(self._fifos):
            if name not in kept:
                os.unlink(os.path.join(self._fifos, name))

    def _say(self, text: str) -> None:
        """To keeper.log, which is bounded; the same words not twice in a row."""
        if text == self._said:
            return
        self._said = text
        with contextlib.suppress(OSError):  # the disk may be what this is about
            if os.fstat(2).st_size > OWN_LOG_BYTES:
                os.ftruncate(2, 0)
            os.write(2, f"keeper: {text}\n".encode())
