"""A metrics.k8s.io for tests, as an APIService of the control plane: it tells what it was told that containers use."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headrace.api.times import to_time
from tests.kubernetes import pki
from tests.kubernetes.cluster import ControlPlane
from tests.kubernetes.test_cluster import kubectl

ROOT = "/apis/metrics.k8s.io/v1beta1"
# The server is reached by the name of the Service: an address of loopback may not be an endpoint.
MANIFESTS = """
apiVersion: v1
kind: Service
metadata: {{name: metrics, namespace: kube-system}}
spec: {{type: ExternalName, externalName: localhost, ports: [{{port: {port}}}]}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {{name: v1beta1.metrics.k8s.io}}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {{name: metrics, namespace: kube-system, port: {port}}}
"""


@dataclass
class Usages:
    """Cores and bytes by namespace/pod/container. `lag_seconds`: how old all that is told is."""

    used: dict[str, tuple[float, int]] = field(default_factory=dict)
    lag_seconds: float = 0.0
    asked: int = 0

    def listing(self, namespace: str) -> dict[str, Any]:
        self.asked += 1
        at = to_time(time.time() - self.lag_seconds)
        pods: dict[str, list[dict[str, Any]]] = {}
        for workload, (cores, size) in list(self.used.items()):
            within, pod, container = workload.split("/")
            if namespace in ("", within):
                usage = {"cpu": f"{int(cores * 1e9)}n", "memory": f"{size // 1024}Ki"}
                pods.setdefault(f"{within}/{pod}", []).append({"name": container, "usage": usage})
        items = [
            {
                "metadata": {"namespace": key.split("/")[0], "name": key.split("/")[1]},
                "timestamp": at,
                "window": "1s",
                "containers": containers,
            }
            for key, containers in pods.items()
        ]
        return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


@contextmanager
def metrics_api(plane: ControlPlane) -> Iterator[Usages]:
    """Registered with the control plane; its `used` may be changed at any time."""
    usages = Usages()
    place = plane.directory / "pki"
    pki.load(place).issue("metrics", "metrics", server=True)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            kind = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1"}
            found: dict[str, Any] | None = None
            if path == ROOT:
                pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["list"]}
                found = {**kind, "resources": [pods]}
            elif path == f"{ROOT}/pods":
                found = usages.listing("")
            elif path.startswith(f"{ROOT}/namespaces/"):
                found = usages.listing(path.split("/")[5])
            body = json.dumps(found or {}).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with _serving(Handler, place / "metrics.crt", place / "metrics.key") as port:
        manifests = MANIFESTS.format(port=port)
        kubectl(plane, "apply", "-f", "-", stdin=manifests)
        kubectl(plane, "wait", "apiservice/v1beta1.metrics.k8s.io", "--for=condition=Available", "--timeout=60s")
        try:
            yield usages
        finally:
            kubectl(plane, "delete", "-f", "-", stdin=manifests)


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler], certificate: Path, key: Path) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
