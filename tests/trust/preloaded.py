"""Small libraries in C that stand between a process and the C library, built when a test needs them."""

import shutil
import subprocess
from pathlib import Path


def built(name: str, folder: Path) -> Path:
    """The library from NAME.c beside this file. Needs gcc."""
    gcc = shutil.which("gcc")
    assert gcc is not None, "faults are made by a small library that gcc builds: it is missing"
    library = folder / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run(
        [gcc, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60
    )
    return library
