"""Health and metrics of a process that serves no API: /livez, /readyz, /leaderz and /metrics on a port of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

METRICS_TYPE = "text/plain; version=0.0.4"


class Health:
    """A candidate is ready too: it waits for its turn, and need not be restarted for that."""

    def __init__(self) -> None:
        self.leads: Callable[[], bool] = lambda: False
        self.registry = CollectorRegistry()


@asynccontextmanager
async def serve_health(health: Health, host: str, port: int) -> AsyncIterator[int]:
    """The port while the body runs. Raises OSError when it is taken."""

    async def well(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def leader(_: web.Request) -> web.Response:
        leads = health.leads()
        return web.Response(text="leading" if leads else "standing by", status=200 if leads else 503)

    async def metrics(_: web.Request) -> web.Response:
        body = generate_latest(health.registry)
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    app = web.Application()
    routes = {"/livez": well, "/healthz": well, "/readyz": well, "/leaderz": leader, "/metrics": metrics}
    app.add_routes([web.get(path, answer) for path, answer in routes.items()])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
