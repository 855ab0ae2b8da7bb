"""Group commit. What waits goes into one transaction and shares one sync; first come, first in. A lone writer is not
kept waiting for others.

The statements run on the event loop, only what waits for the disk in a thread: a commit's statements take microseconds,
and handing the interpreter to and fro for each of them cost more than they do. From when work is handed to the disk's
thread until its end is told, the connection is the thread's; the loop does not touch it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

import apsw

from headrace.store.committer import Batch, Committer, Prepared, Request
from headrace.store.connection import Checkpoints
from headrace.store.disk_thread import DiskThread, failure_of
from headrace.store.faults import Stopped, failed_write
from headrace.store.protocol import StoreError, TooBusy, Unavailable

BATCH_WRITES = 256
BATCH_BYTES = 8 * 1024 * 1024
LONE_COMMITS = 8
"""After so many commits of one write each, a connection is taken to be the only one that writes."""

Waiting = tuple[Request, "asyncio.Future[int]"]


def _unhandled(request: Request, error: Exception) -> StoreError:
    key = request.write.key
    found = StoreError(f'{key.resource} "{key.name}" could not be written: {type(error).__name__}: {error}')
    found.__cause__ = error
    return found


class Writer:
    """Everything here runs on the event loop."""

    def __init__(
        self,
        committer: Committer,
        checkpoints: Checkpoints,
        file: str,
        publish: Callable[[Batch], None],
        on_fatal: Callable[[str], None],
        limit: int,
    ) -> None:
        self._committer = committer
        self._checkpoints = checkpoints
        self._file = file
        self._publish = publish
        self._on_fatal = on_fatal
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Waiting] = deque()
        self._alone = 0  # so many of those that wait are committed each by itself
        self._engaged = False
        self._lone = 0  # the last so many commits had one write each, all of one connection
        self._last: int | None = None  # the connection of the last of them
        self._unanswered = 0
        self._stopped: StoreError | None = None
        self._drained: asyncio.Event | None = None
        self._disk = DiskThread(self._loop.call_soon_threadsafe)

    async def submit(self, request: Request) -> int:
        if self._stopped is not None:
            raise self._stopped
        if self._unanswered >= self._limit:
            raise TooBusy(f"{self._limit} writes are waiting for the disk: try again in a second")
        answer: asyncio.Future[int] = self._loop.create_future()
        self._unanswered += 1
        self._waiting.append((request, answer))
        if not self._engaged:
            self._engaged = True
            self._begin(request.connection)
        return await answer

    async def close(self) -> None:
        """What was submitted before is still committed."""
        if self._stopped is None:
            self._stopped = Unavailable(f"{self._file} is closing")
        if self._engaged:
            self._drained = asyncio.Event()
            await self._drained.wait()
        await asyncio.to_thread(self._disk.end)

    def _begin(self, connection: int | None) -> None:
        """Whoever else is ready in this turn of the loop shares the sync. A connection that writes alone waits for no
        other, since a turn costs as much as the statements do.
        """
        if self._lone >= LONE_COMMITS and connection is not None and connection == self._last:
            self._next()
        else:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """One commit a turn of the loop, until the thread has something to do or nothing is left."""
        if not self._waiting:
            self._rest()
            return
        waiting = self._next_batch()
        connection = waiting[0][0].connection
        self._lone = self._lone + 1 if len(waiting) == 1 and connection == self._last else 0
        self._last = connection
        if isinstance(self._stopped, Stopped):
            self._refuse(waiting, self._stopped)
        elif self._prepare(waiting):
            return
        if self._waiting:
            self._loop.call_soon(self._next)
        else:
            self._rest()

    def _rest(self) -> None:
        self._engaged = False
        if self._drained is not None:
            self._drained.set()

    def _next_batch(self) -> list[Waiting]:
        if self._alone:
            self._alone -= 1
            return [self._waiting.popleft()]
        batch: list[Waiting] = []
        size = 0
        while self._waiting and len(batch) < BATCH_WRITES and size < BATCH_BYTES:
            waiting = self._waiting.popleft()
            batch.append(waiting)
            body = waiting[0].write.body
            size += len(body.head) + len(body.tail) if body else 0
        return batch

    def _prepare(self, waiting: list[Waiting], *, begun: bool = False) -> bool:
        """Run the statements. True: the thread has the rest now. Otherwise all of these are answered, or wait again."""
        try:
            prepared = self._committer.prepare([request for request, _ in waiting], begun=begun)
        except apsw.BusyError as error:
            if begun:
                self._refuse(waiting, self._judge(error))
                return False
            self._disk.hand(self._committer.begin_patiently, partial(self._locked, waiting))
            return True
        except apsw.Error as error:
            self._refuse(waiting, self._judge(error))
            return False
        except Exception as error:  # one write that cannot be handled must not take its neighbours with it
            if len(waiting) > 1:
                self._waiting.extendleft(reversed(waiting))
                self._alone = len(waiting)
            else:
                self._refuse(waiting, _unhandled(waiting[0][0], error))
            return False
        if not prepared.changes:
            # All refused, or only asked: the transaction is empty, so its end waits for nothing.
            self._finish(waiting, prepared, failure_of(self._committer.sync))
            return False
        ended = self._disk.hand_and_wait(self._committer.sync, partial(self._synced, waiting, prepared))
        return ended is None or self._settle(waiting, prepared, ended.failure)

    def _locked(self, waiting: list[Waiting], failure: Exception | None) -> None:
        """Another program had the write lock, and the thread waited for it."""
        if failure is not None:
            self._refuse(waiting, self._judge(failure))
        elif self._prepare(waiting, begun=True):
            return
        self._next()

    def _synced(self, waiting: list[Waiting], prepared: Prepared, failure: Exception | None) -> None:
        if not self._settle(waiting, prepared, failure):
            self._next()

    def _settle(self, waiting: list[Waiting], prepared: Prepared, failure: Exception | None) -> bool:
        """Answer those who wait. True: the thread has a checkpoint to make before anything else."""
        self._finish(waiting, prepared, failure)
        if failure is not None or not self._checkpoints.due:
            return False
        self._disk.hand(self._checkpoints.run, self._checkpointed)
        return True

    def _finish(self, waiting: list[Waiting], prepared: Prepared, failure: Exception | None) -> None:
        try:
            if failure is None:
                self._answer(waiting, self._committer.settle(prepared))
            else:
                self._committer.take_back(prepared)
                self._refuse(waiting, self._judge(failure))
        except Exception as error:  # a fault of ours: what is told and what is durable may differ, so nothing goes on
            self._refuse(waiting, self._judge(error))

    def _checkpointed(self, failure: Exception | None) -> None:
        """A failed checkpoint harms no write, but the next sync could not be believed."""
        if failure is not None:
            self._judge(failure)
        self._next()

    def _judge(self, error: Exception) -> StoreError:
        found = failed_write(error, self._file, self._committer.system_error)
        if isinstance(found, Stopped) and not isinstance(self._stopped, Stopped):
            self._stopped = found
            self._on_fatal(str(found))
        return found

    def _answer(self, waiting: list[Waiting], batch: Batch) -> None:
        self._publish(batch)
        self._unanswered -= len(waiting)
        for (_, answer), outcome in zip(waiting, batch.answers, strict=True):
            if answer.cancelled():
                continue
            if isinstance(outcome, int):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

    def _refuse(self, waiting: list[Waiting], error: StoreError) -> None:
        self._unanswered -= len(waiting)
        for _, answer in waiting:
            if not answer.done():
                answer.set_exception(error)
