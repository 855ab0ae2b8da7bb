"""A server that is no Kubernetes cluster, such as Prometheus: its URL, whom it is trusted by, a token from a file."""

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from headrace.client.exec_plugin import Credential
from headrace.client.kubeconfig import TOKEN_FILE_SECONDS, BadKubeconfig, Cluster


class BadEndpoint(BadKubeconfig):
    """The message names what was given, and what would be right."""


def endpoint(url: str, ca_file: str | None = None, token_file: str | None = None) -> tuple[Cluster, str]:
    """The server, and the path that stands before its own paths. Raises BadEndpoint.

    The token is read again from time to time, as whoever renews it writes the file anew.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadEndpoint(f"{url}: must be a URL such as https://prometheus.monitoring.svc:9090")
    if parts.username or parts.password:
        raise BadEndpoint(f"{parts.hostname}: give credentials by a file with a token, not in the URL")
    token = _token(token_file) if token_file else None
    cluster = Cluster(
        server=f"{parts.scheme}://{parts.netloc}",
        ca_pem=_read(ca_file) if ca_file else "",
        token=token().token if token else "",
        good_until=time.time() + TOKEN_FILE_SECONDS if token else None,
        renew=token,
    )
    return cluster, parts.path.rstrip("/")


def _token(file: str) -> Callable[[], Credential]:
    def read() -> Credential:
        return Credential(_read(file).strip(), good_until=time.time() + TOKEN_FILE_SECONDS)

    return read


def _read(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError as failed:
        raise BadEndpoint(f"{file}: {failed.strerror}") from None
