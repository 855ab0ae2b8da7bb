"""A registry of one image on loopback: plain HTTP, Basic authentication, the calls of a pull and no more."""

import base64
import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Registry:
    """`repository` is what a Pod names, with host and port. `seen`: the name that each request was made with."""

    def __init__(self, layer: bytes, username: str, password: str) -> None:
        packed = gzip.compress(layer, mtime=0)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            "config": {"Env": ["FROM=registry"]},
        }
        self.blobs: dict[str, bytes] = {}
        parts = [self._keep(json.dumps(config).encode()), self._keep(packed)]
        kinds = ["application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip"]
        told = [{"mediaType": kind, **part} for kind, part in zip(kinds, parts, strict=True)]
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": told[0], "layers": told[1:]})
        self.expected = f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
        self.seen: list[str] = []
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.registry = self
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.repository = f"{self.host}/team/app"

    def _keep(self, blob: bytes) -> dict[str, object]:
        self.blobs[_digest(blob)] = blob
        return {"digest": _digest(blob), "size": len(blob)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class _Server(ThreadingHTTPServer):
    registry: Registry


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        registry, told = self.server.registry, self.headers.get("Authorization", "")
        registry.seen.append(base64.b64decode(told.removeprefix("Basic ")).decode().partition(":")[0])
        digest = self.path.rpartition("/")[2]
        if told != registry.expected:
            self._answer(401, b"", "text/plain")
        elif self.path == "/v2/":
            self._answer(200, b"{}", "application/json")
        elif "/manifests/" in self.path:
            self._answer(200, registry.manifest.encode(), MANIFEST)
        elif digest in registry.blobs:
            self._answer(200, registry.blobs[digest], "application/octet-stream")
        else:
            self._answer(404, b"", "text/plain")

    do_HEAD = do_GET

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="stub"')
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if kind == MANIFEST:
            self.send_header("Docker-Content-Digest", _digest(body))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving_image(layer: bytes, username: str, password: str) -> Iterator[Registry]:
    registry = Registry(layer, username, password)
    thread = threading.Thread(target=registry.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        registry.server.server_close()
        thread.join()
