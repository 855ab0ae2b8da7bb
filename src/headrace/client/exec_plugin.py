"""Credential plug-ins of kubeconfigs (`users[].user.exec`): run when its token or certificate is first needed or ends.

Source: client.authentication.k8s.io/v1. The plug-in gets no terminal; what it prints on standard error is shown when
it fails.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.api.times import from_time

SECONDS = 60
EARLY_SECONDS = 10.0  # a credential is replaced a little before it ends
VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class PluginFailed(Exception):
    """The plug-in gave no credential; the message says which one and why."""


@dataclass(frozen=True, slots=True)
class Credential:
    """`good_until`: wall seconds, None for as long as the server takes it."""

    token: str = ""
    certificate_pem: str = ""
    key_pem: str = ""
    good_until: float | None = None


def run(plugin: Mapping[str, Any], directory: Path = Path()) -> Credential:
    """What `users[].user.exec` describes; a command with a slash is relative to `directory`. Raises PluginFailed."""
    command = str(plugin.get("command") or "")
    if "/" in command:
        command = str(directory / command)
    version = str(plugin.get("apiVersion") or "")
    if version not in VERSIONS:
        raise PluginFailed(f"exec.apiVersion: {version!r} must be one of {', '.join(VERSIONS)}")
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {str(entry["name"]): str(entry.get("value") or "") for entry in plugin.get("env") or ()}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(asked)
    try:
        ended = subprocess.run(
            [command, *(str(argument) for argument in plugin.get("args") or ())],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        hint = plugin.get("installHint")
        raise PluginFailed(f"exec.command {command!r}: {error}" + (f"; {hint}" if hint else "")) from None
    if ended.returncode:
        words = ended.stderr.decode("utf-8", "replace").strip()
        raise PluginFailed(f"exec.command {command!r} ended with {ended.returncode}: {words[-500:]}")
    return _read(command, ended.stdout)


def _ends(command: str, text: object) -> float | None:
    if not text:
        return None
    try:
        return from_time(str(text)) - EARLY_SECONDS
    except ValueError as error:
        raise PluginFailed(f"exec.command {command!r}: status.expirationTimestamp: {error}") from None


def _read(command: str, answer: bytes) -> Credential:
    try:
        status = json.loads(answer).get("status") or {}
    except (ValueError, AttributeError):
        raise PluginFailed(f"exec.command {command!r} did not print an ExecCredential") from None
    found = Credential(
        str(status.get("token") or ""),
        str(status.get("clientCertificateData") or ""),
        str(status.get("clientKeyData") or ""),
        _ends(command, status.get("expirationTimestamp")),
    )
    if bool(found.certificate_pem) != bool(found.key_pem):
        raise PluginFailed(f"exec.command {command!r}: clientCertificateData and clientKeyData belong together")
    if not found.token and not found.certificate_pem:
        raise PluginFailed(f"exec.command {command!r} printed neither status.token nor status.clientCertificateData")
    return found
