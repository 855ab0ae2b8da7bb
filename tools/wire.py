"""Generate `headrace.wire.generated` from `wire/protos`; with --check, say whether what is committed is current."""

import argparse
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent / "src"
PROTOS = ROOT / "headrace" / "wire" / "protos"
PACKAGE = Path("headrace/wire/generated")


def generate(out: Path) -> None:
    """Write modules and stubs below `out`. The virtual include path makes generated imports absolute ones of ours."""
    names = sorted(path.name for path in PROTOS.glob("*.proto"))
    status = protoc.main(
        [
            "protoc",
            f"-I{PACKAGE}={PROTOS}",
            f"-I{files('grpc_tools') / '_proto'}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            *(str(PACKAGE / name) for name in names),
        ]
    )
    if status:
        raise SystemExit(status)


def stale(fresh: Path) -> list[str]:
    """Generated files that differ from, lack in, or are strange to the committed ones."""
    made = {path.name: path.read_bytes() for path in (fresh / PACKAGE).iterdir()}
    committed = {path.name: path.read_bytes() for path in (ROOT / PACKAGE).glob("*_pb2*")}
    return sorted(name for name in made.keys() | committed.keys() if made.get(name) != committed.get(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the committed code is not current"
    )
    if not parser.parse_args().check:
        generate(ROOT)
        return
    with tempfile.TemporaryDirectory() as fresh:
        generate(Path(fresh))
        if different := stale(Path(fresh)):
            sys.exit(f"not current: {', '.join(different)}: run `python tools/wire.py`")


if __name__ == "__main__":
    main()
