"""Where a server is and how to show who we are: from a kubeconfig, from inside a Pod, or given outright."""

import base64
import contextlib
import json
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.client import exec_plugin

TOKEN_FILE_SECONDS = 60.0  # whoever wrote the file may have written a newer token
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class BadKubeconfig(Exception):
    """The file cannot be used; the message names it, the entry, and what would be right."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A server and our credentials for it; PEM texts, empty where there is none."""

    server: str
    ca_pem: str = ""
    certificate_pem: str = ""
    key_pem: str = ""
    token: str = ""
    namespace: str = "default"
    tls_server_name: str = ""
    skip_verification: bool = False
    good_until: float | None = field(default=None, compare=False)
    """Wall seconds until which the credential is used; None where nothing renews it."""
    renew: Callable[[], exec_plugin.Credential] | None = field(default=None, compare=False)
    """Reads the credential anew; may wait, and raises BadKubeconfig."""

    def tls(self) -> ssl.SSLContext:
        """A context that trusts only the given authority (or the system's, where none is given)."""
        context = ssl.create_default_context(cadata=self.ca_pem or None)
        if self.skip_verification:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_pem:
            # Python loads a client certificate from files only: one that lives for the length of this call.
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                file.write(self.certificate_pem.rstrip() + "\n" + self.key_pem)
                file.flush()
                context.load_cert_chain(file.name)
        return context


def default_path(environment: Mapping[str, str] | None = None) -> Path:
    """The first file that KUBECONFIG names, or ~/.kube/config."""
    environment = os.environ if environment is None else environment
    named = [part for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


def load(path: Path, context: str = "") -> Cluster:
    """The cluster and user of a context (the current one by default). Raises BadKubeconfig."""
    try:
        config = _read(path)
    except FileNotFoundError:
        raise BadKubeconfig(
            f"{path}: no such kubeconfig: name one with --kubeconfig or KUBECONFIG; `headrace up` writes one for its "
            "own server"
        ) from None
    except (OSError, ValueError) as error:
        raise BadKubeconfig(f"{path}: {error}") from None
    if not isinstance(config, dict):
        raise BadKubeconfig(f"{path}: must be a YAML object of kind Config")
    chosen = context or str(config.get("current-context") or "")
    found = _entry(path, config, "contexts", "context", chosen)
    cluster = _entry(path, config, "clusters", "cluster", str(found.get("cluster", "")))
    user = _entry(path, config, "users", "user", str(found.get("user", ""))) if found.get("user") else {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise BadKubeconfig(f"{path}: clusters[].cluster.server: {server!r} must be a URL")
    shown = _credential(path, user)
    return Cluster(
        server=server.rstrip("/"),
        ca_pem=_pem(path, cluster, "certificate-authority"),
        certificate_pem=shown.certificate_pem,
        key_pem=shown.key_pem,
        token=shown.token,
        namespace=str(found.get("namespace") or "default"),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        skip_verification=bool(cluster.get("insecure-skip-tls-verify")),
        good_until=shown.good_until,
        renew=(lambda: _credential(path, user)) if user.get("exec") or user.get("tokenFile") else None,
    )


def _read(path: Path) -> Any:
    """JSON, which is YAML too, as headrace writes its own: importing a YAML parser takes longer than most commands."""
    text = path.read_text()
    if text.startswith("{"):
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            return json.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("nested too deeply to be a kubeconfig") from None


def in_cluster(environment: Mapping[str, str] | None = None, directory: Path = SERVICE_ACCOUNT) -> Cluster:
    """From what Kubernetes puts into every Pod. Raises BadKubeconfig outside of one."""
    environment = os.environ if environment is None else environment
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise BadKubeconfig("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: not inside a Pod")

    def credential() -> exec_plugin.Credential:
        return exec_plugin.Credential(
            _token_of(directory / "token", str(directory)), good_until=time.time() + TOKEN_FILE_SECONDS
        )

    try:
        return Cluster(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            ca_pem=(directory / "ca.crt").read_text(),
            token=credential().token,
            good_until=time.time() + TOKEN_FILE_SECONDS,
            renew=credential,
            namespace=(directory / "namespace").read_text().strip(),
        )
    except OSError as error:
        raise BadKubeconfig(f"{directory}: {error}") from None


def _entry(path: Path, config: Mapping[str, Any], entries: str, field: str, name: str) -> Mapping[str, Any]:
    for entry in config.get(entries) or ():
        if entry.get("name") == name:
            found: Mapping[str, Any] = entry.get(field) or {}
            return found
    known = ", ".join(str(entry.get("name")) for entry in config.get(entries) or ()) or "none"
    raise BadKubeconfig(f"{path}: {entries}: no entry named {name!r}; there are: {known}")


def _pem(path: Path, fields: Mapping[str, Any], name: str) -> str:
    """A PEM text given inline (`NAME-data`) or by a file, which may be relative to the kubeconfig."""
    inline = fields.get(f"{name}-data")
    if inline:
        try:
            return base64.b64decode(str(inline), validate=True).decode("ascii")
        except ValueError as error:
            raise BadKubeconfig(f"{path}: {name}-data: must be base64 of PEM: {error}") from None
    file = fields.get(name)
    if not file:
        return ""
    try:
        return (path.parent / str(file)).read_text()
    except OSError as error:
        raise BadKubeconfig(f"{path}: {name}: {error}") from None


def _credential(path: Path, user: Mapping[str, Any]) -> exec_plugin.Credential:
    if user.get("exec"):
        try:
            return exec_plugin.run(user["exec"], path.parent)
        except exec_plugin.PluginFailed as error:
            raise BadKubeconfig(f"{path}: users[].user.{error}") from None
    file = user.get("tokenFile")
    return exec_plugin.Credential(
        _token_of(path.parent / str(file), f"{path}: tokenFile") if file else str(user.get("token") or ""),
        _pem(path, user, "client-certificate"),
        _pem(path, user, "client-key"),
        good_until=time.time() + TOKEN_FILE_SECONDS if file else None,
    )


def _token_of(file: Path, where: str) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise BadKubeconfig(f"{where}: {error}") from None
