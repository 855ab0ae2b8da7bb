"""The writer thread. Whatever waits when it looks goes into one commit and shares one sync; first come, first in."""

import asyncio
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

import apsw

from headrace.store.committer import Batch, Committer, Request
from headrace.store.connection import Checkpoints
from headrace.store.faults import Stopped, failed_write
from headrace.store.protocol import StoreError, TooBusy, Unavailable

BATCH_WRITES = 256
BATCH_BYTES = 8 * 1024 * 1024

Waiting = tuple[Request, "asyncio.Future[int]"]


def _unhandled(request: Request, error: Exception) -> StoreError:
    key = request.write.key
    found = StoreError(f'{key.resource} "{key.name}" could not be written: {type(error).__name__}: {error}')
    found.__cause__ = error
    return found


class Writer:
    """`submit` and the callbacks run on the event loop, the rest in the thread."""

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
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._unanswered = 0
        self._stopped: StoreError | None = None
        self._thread = Thread(target=self._run, name="headrace-writer", daemon=True)
        self._thread.start()

    async def submit(self, request: Request) -> int:
        if self._stopped is not None:
            raise self._stopped
        if self._unanswered >= self._limit:
            raise TooBusy(f"{self._limit} writes are waiting for the disk: try again in a second")
        answer: asyncio.Future[int] = self._loop.create_future()
        self._unanswered += 1
        self._queue.put((request, answer))
        return await answer

    async def close(self) -> None:
        """What was submitted before is still committed."""
        if self._stopped is None:
            self._stopped = Unavailable(f"{self._file} is closing")
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        closing = False
        while not closing:
            batch, closing = self._next_batch()
            if batch:
                self._commit(batch)

    def _next_batch(self) -> tuple[list[Waiting], bool]:
        batch: list[Waiting] = []
        size = 0
        waiting = self._queue.get()
        while waiting is not None:
            batch.append(waiting)
            body = waiting[0].write.body
            size += len(body.head) + len(body.tail) if body else 0
            if len(batch) >= BATCH_WRITES or size >= BATCH_BYTES:
                return batch, False
            try:
                waiting = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _commit(self, waiting: list[Waiting]) -> None:
        if isinstance(self._stopped, Stopped):
            self._call(self._answer_all, waiting, self._stopped)
            return
        try:
            batch = self._committer.run([request for request, _ in waiting])
        except apsw.Error as error:
            self._call(self._answer_all, waiting, self._judge(error))
            return
        except (
            Exception
        ) as error:  # one write that cannot be handled must not take its neighbours or the thread with it
            if len(waiting) > 1:
                for each in waiting:
                    self._commit([each])
            else:
                self._call(self._answer_all, waiting, _unhandled(waiting[0][0], error))
            return
        self._call(self._answer, waiting, batch)
        try:
            self._checkpoints.run()
        except apsw.Error as error:
            self._judge(error)

    def _judge(self, error: apsw.Error) -> StoreError:
        found = failed_write(error, self._file)
        if isinstance(found, Stopped):
            self._stopped = found
            self._call(self._on_fatal, str(found))
        return found

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(function, *arguments)

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

    def _answer_all(self, waiting: list[Waiting], error: StoreError) -> None:
        self._unanswered -= len(waiting)
        for _, answer in waiting:
            if not answer.cancelled():
                answer.set_exception(error)
