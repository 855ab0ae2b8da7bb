"""`headrace simulate`: what would be answered, without a server. One case a line in, one flushed answer a line out."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import click
import orjson


@click.group()
def simulate() -> None:
    """Ask what would be answered, without a server: one JSON case a line in, one answer a line out."""


@simulate.command()
@click.option("--cases", default="-", show_default=True, help="File of cases, or - for standard input.")
def allocate(cases: str) -> None:
    """Which devices would claims get: {"name","nodes","node","slices","classes","claims","allocated","features"}."""
    from headrace.devices.allocate.answers import answer

    _answer_lines(cases, answer)


@simulate.command()
@click.option("--devices", required=True, type=click.Path(exists=True, dir_okay=False), help="JSON: name to device.")
@click.option("--cases", default="-", show_default=True, help="File of cases, or - for standard input.")
def cel(devices: str, cases: str) -> None:
    """What a selector answers on devices: {"id","expr"}."""
    from headrace.cel.answers import answer, prepare_devices

    try:
        with open(devices, "rb") as file:
            known = prepare_devices(orjson.loads(file.read()))
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise click.ClickException(f"--devices {devices}: must be a JSON object of devices by name: {wrong}") from None
    _answer_lines(cases, lambda case: answer(case, known))


def _answer_lines(cases: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    with _opened(cases) as file:
        for number, line in _lines(file):
            try:
                case = orjson.loads(line)
            except orjson.JSONDecodeError as wrong:
                raise click.ClickException(f"{cases}, line {number}: not JSON: {wrong}") from None
            if not isinstance(case, dict):
                raise click.ClickException(f"{cases}, line {number}: a case is a JSON object, not {line[:40]!r}")
            sys.stdout.buffer.write(orjson.dumps(answer(case)) + b"\n")
            sys.stdout.buffer.flush()


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline():
        number += 1
        if line.strip():
            yield number, line


@contextmanager
def _opened(cases: str) -> Iterator[IO[bytes]]:
    if cases == "-":
        yield sys.stdin.buffer
        return
    try:
        file = open(cases, "rb")  # noqa: SIM115
    except OSError as failed:
        raise click.UsageError(f"--cases {cases}: {failed.strerror}") from None
    with file:
        yield file
