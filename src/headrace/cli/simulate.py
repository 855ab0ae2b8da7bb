"""`headrace simulate`: what would be answered, without a server. One case a line in, one flushed answer a line out."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import click
import orjson

from headrace.cli import simulate_claim
from headrace.cli.groups import Named


@click.group(cls=Named)
def simulate() -> None:
    """Ask what would be answered: of cases without a server (a JSON line each), or of claims on a server as it is."""


simulate.add_command(simulate_claim.claim)


@simulate.command(short_help="Which devices claims would get.")
@click.option("--cases", default="-", show_default=True, help="File of cases, or - for standard input.")
def allocate(cases: str) -> None:
    """Which devices would claims get: {"name","nodes","node","slices","classes","claims","allocated","features"}."""
    from headrace.devices.allocate.answers import answer

    def told(case: dict[str, Any]) -> dict[str, Any]:
        if wrong := _no_case(case):
            raise click.ClickException(f"--cases {cases}: {wrong}")
        try:
            return answer(case)
        except (KeyError, TypeError, AttributeError, ValueError) as failed:
            words = f"not objects as Kubernetes writes them: {type(failed).__name__}: {failed}"
            raise click.ClickException(f"--cases {cases}: case {case.get('name', '')!r}: {words}") from None

    _answer_lines(cases, told)


@simulate.command(short_help="What selectors answer on devices.")
@click.option(
    "--devices",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="JSON: ResourceSlices, as `kubectl get resourceslices -o json` prints them, or an object of devices by name.",
)
@click.option("--cases", default="-", show_default=True, help="File of cases, or - for standard input.")
def cel(devices: str, cases: str) -> None:
    """What selectors answer on devices: a JSON line {"id": "1", "expr": "device.driver == \'gpu.example.com\'"} each.

    An expression that is refused is answered with the compiler's words in "error".
    """
    from headrace.cel.answers import answer, by_name, prepare_devices, refusal

    try:
        with open(devices, "rb") as file:
            known = prepare_devices(by_name(orjson.loads(file.read())))
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        words = f"must be ResourceSlices or an object of devices by name, each with its driver, as JSON: {wrong}"
        raise click.ClickException(f"--devices {devices}: {words}") from None

    def told(case: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(case.get("expr"), str):
            raise click.ClickException(f'--cases {cases}: a case needs "expr", the text of a selector: {case}')
        found = answer(case, known)
        return found if found["compile_stored"] else {**found, "error": refusal(case["expr"])}

    _answer_lines(cases, told)


@simulate.command(short_help="What a policy would decide on a recorded trace.")
@click.option(
    "--policy", required=True, type=click.Path(exists=True, dir_okay=False), help="Manifest of a ResizePolicy."
)
@click.option("--trace", default="-", show_default=True, help='JSON lines: {"at": 1, "cpu": "750m", "memory": "64Mi"}.')
@click.option("--limits", default="cpu=1,memory=256Mi", show_default=True, help="The container's limits at the start.")
def resize(policy: str, trace: str, limits: str) -> None:
    """What a policy would decide on a recorded trace of usage: one JSON line a decision."""
    from headrace.api.amounts import amount
    from headrace.cli.policies import Unusable, read_policy
    from headrace.resize.policy.replay import BadTrace, replay

    try:
        start = {name: amount(name, text) for name, _, text in (each.partition("=") for each in limits.split(","))}
    except ValueError as wrong:
        raise click.UsageError(f"--limits {limits}: must be such as cpu=1,memory=256Mi: {wrong}") from None
    if unknown := start.keys() - {"cpu", "memory"}:
        raise click.UsageError(f"--limits {limits}: {min(unknown)!r}: a policy changes cpu and memory")
    try:
        with _opened(trace, "--trace") as file:
            for told in replay(read_policy(policy), start, _readings(file)):
                sys.stdout.buffer.write(orjson.dumps(told) + b"\n")
                sys.stdout.buffer.flush()
    except BadTrace as wrong:
        raise click.ClickException(f"{trace}: {wrong}") from None
    except Unusable as wrong:
        raise click.ClickException(f"{policy}: {wrong}") from None


def _no_case(case: dict[str, Any]) -> str:
    """What of a case is no list of objects."""
    for field in ("nodes", "slices", "classes", "claims", "allocated"):
        given = case.get(field) or []
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            return f"{field} of a case must be a list of objects, not {orjson.dumps(given)[:40].decode()}"
    return ""


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


def _readings(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Raises BadTrace."""
    from headrace.resize.policy.replay import BadTrace

    for number, line in _lines(file):
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError as wrong:
            raise BadTrace(f"line {number}: not JSON: {wrong}") from None
        if not isinstance(found, dict):
            raise BadTrace(f"line {number}: a reading is a JSON object, not {line[:40]!r}")
        yield found


@contextmanager
def _opened(cases: str, option: str = "--cases") -> Iterator[IO[bytes]]:
    if cases == "-":
        yield sys.stdin.buffer
        return
    try:
        file = open(cases, "rb")  # noqa: SIM115
    except OSError as failed:
        raise click.UsageError(f"{option} {cases}: {failed.strerror}") from None
    with file:
        yield file
