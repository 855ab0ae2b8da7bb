"""Boot the guest and run one command in it, its console shown as it comes: `python -m tests.guest [COMMAND…]`."""

import sys
import tempfile
from pathlib import Path

from tests.guest.kernel import CannotFetch, kernel
from tests.guest.machine import GuestDied, run

SECONDS = 900
LOOK = ("sh", "-c", "cat /proc/version; grep cgroup /proc/mounts; free -m; df -h /")

if __name__ == "__main__":
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-guest-") as folder:
            sys.exit(run(kernel(), sys.argv[1:] or LOOK, Path(folder), SECONDS).code)
    except (CannotFetch, GuestDied, FileNotFoundError) as why:
        sys.exit(str(why))
