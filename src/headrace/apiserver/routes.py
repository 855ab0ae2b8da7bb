"""What is served besides stored objects: discovery, OpenAPI, version, health, metrics, the ledger, joining."""

import platform
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from headrace.apiserver import bodies
from headrace.apiserver.answers import Answer, json_answer
from headrace.apiserver.discovery import Discovery
from headrace.apiserver.joining import Joining
from headrace.apiserver.observing import Health, Observations
from headrace.apiserver.openapi import OpenApi, older
from headrace.apiserver.pki import Pki
from headrace.apiserver.requests import Request
from headrace.apiserver.statuses import method_not_allowed
from headrace.client.paths import OWN_BUILD
from headrace.ledger.document import LEDGER_PATH, BooksDocument
from headrace.metrics.paths import METRICS_PATH, USAGE_PATH
from headrace.resize.monitoring import BadMetrics, Monitoring
from headrace.store.protocol import BadRequest

KUBERNETES_VERSION = ("1", "37", "2")  # whose API is served, and whose kubectl is sent for by version

Route = Callable[[Request], Awaitable[Answer]]

OPENAPI = ("/openapi/v2", "/openapi/v3")


class Routes:
    def __init__(
        self,
        discovery: Discovery,
        openapi: OpenApi,
        health: Health,
        observations: Observations,
        joining: Joining,
        pki: Pki,
        version: str,
        books: Callable[[], BooksDocument],
        monitoring: Monitoring | None = None,
    ) -> None:
        self._discovery = discovery
        self._openapi = openapi
        self._health = health
        self._observations = observations
        self._joining = joining
        self._pki = pki
        self._version = _version_document(version)
        self._reads: Mapping[str, Callable[[Request], Answer]] = {
            "/": lambda _: json_answer(
                {"paths": ["/api", "/apis", "/healthz", "/livez", "/metrics", *OPENAPI, "/readyz", "/version"]}
            ),
            "/version": lambda _: json_answer(self._version),
            "/healthz": self._healthy,
            "/livez": self._healthy,
            "/readyz": self._healthy,
            "/metrics": lambda _: self._observations.answer(),
            LEDGER_PATH: lambda _: Answer(200, msgspec.json.encode(books())),
            "/cacerts": lambda _: Answer(200, self._pki.ca_pem(), b"application/x-pem-file"),
        }
        self._posts: Mapping[str, Route] = {
            "/headrace/v1alpha1/join": self._join,
            "/headrace/v1alpha1/renew": self._renew,
        }
        if monitoring is not None:
            self._reads = {**self._reads, USAGE_PATH: lambda _: json_answer(monitoring.usage())}
            self._posts = {**self._posts, METRICS_PATH: partial(self._metrics, monitoring)}

    async def answer(self, request: Request) -> Answer | None:
        """None for a path that nothing is at."""
        path = request.path.rstrip("/") or "/"
        read = self._reads.get(path)
        if read is not None:
            if request.method not in ("GET", "HEAD"):
                raise method_not_allowed()
            return read(request)
        post = self._posts.get(path)
        if post is not None:
            if request.method != "POST":
                raise method_not_allowed()
            return await post(request)
        if path == "/openapi/v2":
            return older(request)
        if path.startswith("/openapi/v3"):
            return self._openapi.answer(request)
        if path.startswith("/api"):
            return self._discovery.answer(request)
        return None

    def _healthy(self, request: Request) -> Answer:
        return self._health.answer(request.path, "verbose" in request.query)

    async def _join(self, request: Request) -> Answer:
        return json_answer(await self._joining.join(bodies.decode(request.body, request.content_type)))

    async def _metrics(self, monitoring: Monitoring, request: Request) -> Answer:
        """What an application says of itself: `{"workload": "ns/pod/container", "metrics": {"latency": 450}}`."""
        body = bodies.decode(request.body, request.content_type)
        if not isinstance(body, dict):
            raise BadRequest("the body must be an object")
        metrics = body.get("metrics")
        try:
            monitoring.report(str(body.get("workload", "")), metrics if isinstance(metrics, dict) else {})
        except BadMetrics as wrong:
            raise BadRequest(str(wrong)) from None
        return json_answer({})

    async def _renew(self, request: Request) -> Answer:
        body = bodies.decode(request.body, request.content_type)
        return json_answer(self._joining.renew(request.identity, body))


def _version_document(version: str) -> dict[str, str]:
    major, minor, patch = KUBERNETES_VERSION
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{major}.{minor}.{patch}{OWN_BUILD}{version}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{_architecture()}",
    }


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
