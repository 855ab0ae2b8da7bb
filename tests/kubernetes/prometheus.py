"""A Prometheus for tests: what containers were told to use as cAdvisor's series, and answers to given queries."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
POINTS = 10


@dataclass
class Scraped:
    """Cores and bytes by namespace/pod/container; `answers`: by query, value and labels of each series."""

    url: str = ""
    used: dict[str, tuple[float, int]] = field(default_factory=dict)
    answers: dict[str, list[tuple[float, dict[str, str]]]] = field(default_factory=dict)

    def answer(self, query: str) -> dict[str, Any]:
        now = time.time()
        if query in self.answers:
            result = [{"metric": labels, "value": [now, str(value)]} for value, labels in self.answers[query]]
            return _data("vector", result)
        if not query.startswith("{__name__=~"):
            return {"status": "error", "errorType": "bad_data", "error": "unknown query"}
        return _data(
            "matrix", [each for workload, used in list(self.used.items()) for each in _series(workload, *used)]
        )


def _series(workload: str, cores: float, size: int) -> Iterator[dict[str, Any]]:
    """One sample a second up to now, as if it had used so much all along."""
    namespace, pod, container = workload.split("/")
    labels = {"namespace": namespace, "pod": pod, "container": container}
    times = [int(time.time()) - back for back in reversed(range(POINTS))]
    yield {"metric": {**labels, "__name__": CPU}, "values": [[at, str(cores * at)] for at in times]}
    yield {"metric": {**labels, "__name__": MEMORY}, "values": [[at, str(size)] for at in times]}


def _data(type: str, result: list[dict[str, Any]]) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": type, "result": result}}


@contextmanager
def prometheus() -> Iterator[Scraped]:
    """On loopback, behind the prefix /prometheus; what it knows may be changed at any time."""
    scraped = Scraped()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            known = parts.path == "/prometheus/api/v1/query"
            found = scraped.answer(parse_qs(parts.query)["query"][0]) if known else {}
            body = json.dumps(found).encode()
            self.send_response(404 if not known else 400 if found["status"] == "error" else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    scraped.url = f"http://127.0.0.1:{server.server_address[1]}/prometheus"
    try:
        yield scraped
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
