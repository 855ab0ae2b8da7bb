"""An agent's part with devices that dies of SIGKILL at its Nth step: `python -m … DIRECTORY STEP`.

It prepares and releases the claim of one Pod with the driver that serves in DIRECTORY. A step is each sync or rename of
a file, and the moment before and after each call to the driver. It prints how many there were if it lives.
"""

import asyncio
import os
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from headrace.node import device_record
from headrace.node.driver_client import DriverClient


class Steps:
    """Counts, and calls `die` at step `last`."""

    def __init__(self, last, die):
        self.count, self._last, self._die = 0, last, die

    def step(self):
        if threading.current_thread() is not threading.main_thread():
            return  # a driver's step, in the same process as a test's agent
        self.count += 1
        if self.count == self._last:
            self._die()

    @contextmanager
    def counted(self):
        """Inside, this process's record and driver calls count. Restores what it found."""
        kept = os.fsync, Path.rename, DriverClient.prepare, DriverClient.unprepare

        def around(call):
            def wrapped(*arguments):
                self.step()
                return call(*arguments)

            return wrapped

        def between(call):
            async def wrapped(*arguments):
                self.step()
                answer = await call(*arguments)
                self.step()
                return answer

            return wrapped

        os.fsync, Path.rename = around(kept[0]), around(kept[1])
        DriverClient.prepare, DriverClient.unprepare = between(kept[2]), between(kept[3])
        try:
            yield
        finally:
            os.fsync, Path.rename, DriverClient.prepare, DriverClient.unprepare = kept


async def main(directory, last):
    from tests.node.agent.home import open_store
    from tests.node.agent.test_devices import Site, user

    assert device_record.os is os
    site = Site(await open_store(), directory)
    pod = user()
    await site.claim("claim", "gpu-0", pod)  # under the same uid as in the parent: stores here count uids from 1
    await site.plugins.look()
    steps = Steps(last, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with steps.counted():
        devices = site.devices()
        await devices.prepare(pod)
        await devices.release(pod.uid)
    print(steps.count)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
