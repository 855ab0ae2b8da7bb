"""What test containers run. Each prints a word when it has come to where the test wants it."""

import sys

PYTHON = (sys.executable, "-I", "-S", "-u", "-c")

HOLD = (
    *PYTHON,
    "import sys, time\n"
    "held = bytearray(int(sys.argv[1]) << 20)\n"
    "for at in range(0, len(held), 4096): held[at] = 1\n"
    "print('held')\n"
    "time.sleep(600)",
)
"""Holds so many mebibytes, each page touched."""

SPIN = (*PYTHON, "print('spins')\nwhile True: pass")

COUNT = (
    *PYTHON,
    "import itertools, os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[1])))\n"
    "print('pid', os.getpid())\n"
    "for number in itertools.count():\n"
    "    print(number)\n"
    "    time.sleep(0.01)",
)
"""Prints its pid, then numbers, until SIGTERM; then exits with the given code."""
