"""`python -m headrace.node.keeper DIR`: listen, go to the background, keep. Returns when clients can connect."""

import fcntl
import os
import socket
import sys

from headrace.node.keeper import holder
from headrace.node.keeper.server import Keeper

SOCKET = "keeper.sock"
LOCK = "keeper.lock"
LISTEN_BACKLOG = 64


def main(directory: str) -> None:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    os.chdir(directory)  # the socket's path may be longer than an address can hold
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # another one keeps this directory
    if (original := holder.of_original(lock)) is not None:
        sys.exit(
            f"this is a copy of a directory in use: its containers are kept by the process with pid {original}; "
            "end that one first (`headrace down` there), or delete the copy's agent/keeper"
        )
    if os.path.lexists(SOCKET):
        os.unlink(SOCKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.umask(0o077)
    listener.bind(SOCKET)
    listener.listen(LISTEN_BACKLOG)
    if os.fork():
        os._exit(0)
    os.setsid()
    holder.sign(lock)
    _leave_terminal()
    _protect()
    Keeper(os.getcwd(), listener).run()
    os.unlink(SOCKET)


def _leave_terminal() -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open("keeper.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _protect() -> None:
    """The last process to be killed when the machine's memory ends: its death costs exit codes."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("-900")
    except PermissionError:  # an ordinary user may not; then it is as others are
        return


if __name__ == "__main__":
    main(sys.argv[1])
