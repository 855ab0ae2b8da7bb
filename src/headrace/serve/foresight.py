"""Why an agent could never be ready, as far as its directory and Podman's socket tell: asked before a server starts."""

from collections.abc import Iterable
from pathlib import Path

from headrace.devices.driver import sockets
from headrace.node.certificate import Credentials
from headrace.serve.sole import copy_refusal


def refusal(
    directory: Path, node: str, runtime: str | None, podman_socket: Path | None, drivers: Iterable[str] = ()
) -> str:
    """Empty where nothing is known against it. `directory` is the agent's; `drivers` are to run beside it."""
    told = Credentials(directory / "pki").refusal(node) or copy_refusal(directory)
    told = told or next(filter(None, (driver_refusal(directory, each) for each in drivers)), "")
    if told or runtime != "podman":
        return told
    from headrace.node.runtimes import choice

    gone = choice.refusal(directory, podman_socket)
    return f"--runtime podman: {gone}" if gone else ""


def agent_refusal(directory: Path, node: str) -> str:
    """Why no driver can run beside this node's agent there; empty where one can."""
    credentials = Credentials(directory / "pki")
    if not credentials.exist():
        return (
            f"--data-dir: no agent has joined a server from {directory}; start one there first, or name its directory"
        )
    return credentials.refusal(node)


def driver_refusal(directory: Path, driver: str, option: str = "--data-dir") -> str:
    """Why this driver's sockets cannot lie below `directory`, which `option` chooses; empty where they can."""
    long = sockets.refusal(directory, driver)
    return f"{option} is too long for device driver {driver}: {long}" if long else ""
