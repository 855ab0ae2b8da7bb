"""Why an agent could never be ready, as far as its directory and Podman's socket tell: asked before a server starts."""

from pathlib import Path

from headrace.node.certificate import Credentials


def refusal(directory: Path, node: str, runtime: str | None, podman_socket: Path | None) -> str:
    """Empty where nothing is known against it. `directory` is the agent's."""
    told = Credentials(directory / "pki").refusal(node)
    if told or runtime != "podman":
        return told
    from headrace.node.runtimes import choice

    gone = choice.refusal(directory, podman_socket)
    return f"--runtime podman: {gone}" if gone else ""
