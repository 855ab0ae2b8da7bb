"""The keeper's loop: one thread, one epoll. Whatever it has answered is durable; it may be killed at any moment."""

import contextlib
import os
import resource
import select
import signal
import socket
import struct
import time
from functools import partial

from headrace.node.keeper import identity, linux, spawn
from headrace.node.keeper.connection import Connection
from headrace.node.keeper.container import Container
from headrace.node.keeper.frames import BadFrame
from headrace.node.keeper.operations import Failed, check_start
from headrace.node.keeper.pump import Pump, Scratch
from headrace.node.keeper.record import Records

CONNECTIONS = 64
RETRY_SECONDS = 1.0  # a log that could not be written is tried again
OWN_LOG_BYTES = 1 << 20
IDLE_SECONDS = 60.0  # with no containers and no clients the keeper goes away; the next client starts another

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Keeper:
    """Serves one directory: `records/`, `fifos/`, `keeper.sock`."""

    def __init__(self, directory: str, listener: socket.socket) -> None:
        self._directory, self._listener = directory, listener
        self._records = Records(os.path.join(directory, "records"))
        self._fifos = os.path.join(directory, "fifos")
        self._stage = os.path.join(directory, "stage")
        for path in (self._fifos, self._stage):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self._boot = identity.boot_id()
        self._containers: dict[str, Container] = {}
        self._by_pid: dict[int, Container] = {}
        self._starting: dict[str, list[tuple[Connection, int]]] = {}  # who waits for the end of a start
        self._ending: dict[str, Container] = {}
        self._busy: dict[int, Pump] = {}  # pumps with more to read at once
        self._blocked: dict[int, Pump] = {}  # pumps whose log could not be written
        self._connections: dict[int, Connection] = {}
        self._epoll = select.epoll()
        self._on: dict[int, Callable[[int], None]] = {}
        self._scratch = Scratch()
        self._most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._wake_reading, self._wake_writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._said = ""
        self._stopping = False
        self._orphans = False
        self._quiet_since = time.monotonic()
        self._retry_at = 0.0

    def run(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._most_files, self._most_files))
        linux.become_subreaper()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writing, warn_on_full_buffer=False)
        self._watch(self._wake_reading, select.EPOLLIN, self._on_child)
        self._watch(self._listener.fileno(), select.EPOLLIN, self._on_connect)
        self._adopt()
        while not self._stopping:
            for descriptor, events in self._epoll.poll(self._timeout()):
                handler = self._on.get(descriptor)
                if handler is not None:
                    handler(events)
            self._turn()

    # ---- loop

    def _timeout(self) -> float:
        if self._busy:
            return 0
        if self._ending:
            due = min(container.retry_at for container in self._ending.values())
            return min(RETRY_SECONDS, max(0.001, due - time.monotonic()))
        return RETRY_SECONDS if self._blocked else IDLE_SECONDS

    def _turn(self) -> None:
        """What is due in each turn, besides what has become readable."""
        for pump in list(self._busy.values()):
            self._drain(pump)
        now = time.monotonic()
        if self._blocked and now >= self._retry_at:
            blocked, self._blocked = self._blocked, {}
            for pump in blocked.values():
                self._drain(pump)
        for container in list(self._ending.values()):
            self._end(container)
        if self._orphans:
            self._reap()
        for connection in list(self._connections.values()):
            connection.push()
        if self._containers or self._connections:
            self._quiet_since = now
        elif now - self._quiet_since >= IDLE_SECONDS:
            self._stopping = True

    def _watch(self, descriptor: int, events: int, handler: "Callable[[int], None]") -> None:
        self._epoll.register(descriptor, events)
        self._on[descriptor] = handler

    def _forget(self, descriptor: int) -> None:
        if self._on.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    # ---- clients

    def _on_connect(self, _: int) -> None:
        try:
            client, _address = self._listener.accept()
        except OSError:  # no descriptor is free: with the spare one the client is told no, and does not wait for ever
            os.close(self._spare)
            with contextlib.suppress(OSError):
                self._listener.accept()[0].close()
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            return
        peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, _ = struct.unpack("iII", peer)
        if uid not in (0, os.geteuid()) or len(self._connections) >= CONNECTIONS:
            client.close()
            return
        connection = Connection(client, self._epoll)
        self._connections[connection.descriptor] = connection
        self._watch(connection.descriptor, select.EPOLLIN, partial(self._on_client, connection))

    def _on_client(self, connection: Connection, events: int) -> None:
        try:
            if events & select.EPOLLOUT:
                connection.flush()
            if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                for request in connection.receive():
                    self._request(connection, request)
        except (OSError, BadFrame):
            connection.closed = True
        if connection.closed:
            self._forget(connection.descriptor)
            del self._connections[connection.descriptor]
            connection.close()

    def _request(self, connection: Connection, request: "dict[str, Any]") -> None:
        number = request.get("n")
        if not isinstance(number, int):
            raise BadFrame("a request needs its number n")
        try:
            self._operate(connection, number, request)
        except Failed as failed:
            connection.refuse(number, failed)
        except Exception as error:  # a fault in one request must not cost all containers their keeper
            self._say(f"{request.get('op')}: {error!r}")
            connection.refuse(number, Failed("Internal", f"{error!r}; see keeper.log"))

    def _operate(self, connection: Connection, number: int, request: "dict[str, Any]") -> None:
        Failed.unless_version(request.get("v"))
        operation = request.get("op")
        if operation == "start":
            self._start(connection, number, check_start(request))
            return
        answer: Any
        if operation == "list":
            answer = [
                container.state
                for container in self._containers.values()
                if container.id not in self._starting or request.get("starting")
            ]
        elif operation == "get":
            found = self._containers.get(str(request.get("id")))
            answer = found.state if found is not None and found.id not in self._starting else None
        elif operation == "watch":
            connection.watches = True
            answer = True
        elif operation == "signal":
            answer = self._signal(request.get("id"), request.get("number"))
        elif operation == "kill":
            answer = self._kill(request.get("id"))
        elif operation == "remove":
            answer = self._remove(request.get("id"))
        elif operation == "stop":
            answer = self._stop()
        elif operation == "hello":
            answer = {"pid": os.getpid()}
        else:
            raise Failed(
                "Invalid", f"op {operation!r}: must be start, signal, kill, remove, get, list, watch, hello or stop"
            )
        connection.answer(number, answer)

    # ---- operations

    def _start(self, connection: Connection, number: int, spec: "dict[str, Any]") -> None:
        id = spec["id"]
        known = self._containers.get(id)
        if known is not None:
            if id in self._starting:
                self._starting[id].append((connection, number))
            else:
                connection.answer(number, known.state)
            return
        container = Container(spec, self._fifos)
        try:
            outputs = container.make_output(self._scratch)
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
        self._watch(child.status, select.EPOLLIN, lambda _: self._on_started(container, child))
        self._watch_process(container)
        child.go()

    def _on_started(self, container: Container, child: spawn.Child) -> None:
        message = os.read(child.status, 4096).decode(errors="replace")
        self._forget(child.status)
        os.close(child.status)
        waiting = self._starting.pop(container.id)
        if not message:
            for connection, number in waiting:
                connection.answer(number, container.state)
            self._changed(container)
            return
        self._drop(container)
        for connection, number in waiting:
            connection.refuse(number, Failed("StartFailed", message))

    def _known(self, id: object) -> Container:
        container = self._containers.get(id) if isinstance(id, str) else None
        if container is None:
            raise Failed("NotFound", f"container {id!r} is not known here")
        return container

    def _signal(self, id: object, number: object) -> bool:
        container = self._known(id)
        if not isinstance(number, int) or not 0 < number < signal.NSIG:
            raise Failed("Invalid", f"signal {number!r}: must be a number from 1 to {signal.NSIG - 1}")
        if container.pidfd >= 0:
            try:
                signal.pidfd_send_signal(container.pidfd, number)
            except ProcessLookupError:  # ended a moment ago
                return True
        return True

    def _kill(self, id: object) -> bool:
        container = self._known(id)
        self._signal(id, signal.SIGKILL)
        container.kill_all()
        return True

    def _remove(self, id: object) -> bool:
        if id not in self._containers:
            return True  # removed before
        container = self._known(id)
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

    def _drop(self, container: Container) -> None:
        """Forget a container that never ran or has exited."""
        self._records.remove(container.id)
        self._unwatch(container)
        container.abandon()
        self._ending.pop(container.id, None)
        self._by_pid.pop(container.pid, None)  # if it is not reaped yet, it will be as an orphan
        del self._containers[container.id]

    def _changed(self, container: Container) -> None:
        for connection in self._connections.values():
            connection.changed(container)

    # ---- output

    def _watch_process(self, container: Container) -> None:
        self._watch(container.pidfd, select.EPOLLIN, lambda _: self._on_exit(container))
        for pump in container.pumps:
            self._watch(pump.fifo, select.EPOLLIN | select.EPOLLET, partial(self._on_output, pump))

    def _unwatch(self, container: Container) -> None:
        self._forget(container.pidfd)
        for pump in container.pumps:
            self._forget(pump.fifo)
            self._busy.pop(pump.fifo, None)
            self._blocked.pop(pump.fifo, None)

    def _on_output(self, pump: Pump, _: int) -> None:
        self._drain(pump)

    def _drain(self, pump: Pump) -> None:
        self._busy.pop(pump.fifo, None)
        try:
            if pump.drain():
                self._busy[pump.fifo] = pump
        except OSError as error:
            self._say(f"{pump.log.path}: {error.strerror}: its container waits until it can be written")
            self._blocked[pump.fifo] = pump
            self._retry_at = time.monotonic() + RETRY_SECONDS

    # ---- ends

    def _on_exit(self, container: Container) -> None:
        self._forget(container.pidfd)
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
        container.release()
        del self._ending[container.id]
        self._changed(container)

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

    def _adopt(self) -> None:
        for id, record in self._records.load().items():
            container = self._containers[id] = Container.load(record, self._fifos)
            if container.state["state"] == "exited":
                continue
            container.open_output(self._scratch)
            if container.adopt(self._boot):
                self._watch_process(container)
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
