"""A container may end between any two looks at its files: that is no fault of anybody, and never the agent's end."""

import errno
import os

import pytest

from headrace.node.runtimes.process import _while_running
from headrace.node.runtimes.protocol import NotRunning, Unreadable


def failing(number):
    def call():
        raise OSError(number, os.strerror(number), "/sys/fs/cgroup/cpu/x/cpu.shares")

    return call


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ESRCH, errno.ENODEV], ids=errno.errorcode.get)
def test_files_of_a_group_that_is_removed_meanwhile_say_that_it_has_exited(number):
    with pytest.raises(NotRunning, match="container a has exited"):
        _while_running("a", failing(number))


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES], ids=errno.errorcode.get)
def test_what_cannot_be_read_for_another_reason_is_said(number):
    with pytest.raises(Unreadable, match=r"container a: /sys/fs/cgroup/cpu/x/cpu.shares: "):
        _while_running("a", failing(number))
