"""Metrics from an application's own Prometheus endpoint: whom it asks, what counts, and what a failure does."""

import asyncio

import aiohttp
import pytest
import structlog
from aiohttp import web

from headrace.resize.scraper import Scraper, Target, parsed, targets
from headrace.runtime.clock import LoopClock

TEXT = """
# HELP latency how long a request takes
# TYPE latency gauge
latency{route="/"} 120
latency{route="/slow"} 450
fps 25
other NaN
"""


def test_of_several_series_the_largest_counts_and_unnamed_ones_are_left():
    assert parsed(TEXT, frozenset({"latency", "other"})) == {"latency": 450.0}
    with pytest.raises(ValueError, match=r"convert|Invalid|index"):
        parsed("latency{ what", frozenset({"latency"}))


def pod(name="web", port="9000", **annotations):
    notes = {"prometheus.io/scrape": "true", "prometheus.io/port": port} | annotations
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}, "annotations": notes},
        "spec": {"containers": [{"name": "app"}]},
        "status": {"podIP": "127.0.0.1"},
    }


def policy(app="web", metric="latency", namespace="default", mode="Auto"):
    spec = {
        "selector": {"matchLabels": {"app": app}},
        "mode": mode,
        "triggers": [{"metric": metric}, {"metric": "cpu"}],
    }
    return {"metadata": {"name": app, "namespace": namespace}, "spec": spec}


@pytest.mark.parametrize(
    ("policies", "pods", "urls"),
    [
        ([policy()], [pod()], ["http://127.0.0.1:9000/metrics"]),
        ([policy()], [pod(**{"prometheus.io/path": "stats"})], ["http://127.0.0.1:9000/stats"]),
        ([policy()], [pod(**{"prometheus.io/scrape": "no"})], []),
        ([policy()], [pod(port="80; rm")], []),
        ([policy(app="db")], [pod()], []),
        ([policy(namespace="other")], [pod()], []),
        ([policy(metric="memory")], [pod()], []),
        ([policy(mode="Off")], [pod()], []),
    ],
    ids=["selected", "a path of its own", "not opted in", "no port", "not selected", "elsewhere", "own metrics", "off"],
)
def test_asked_are_those_that_opted_in_and_that_a_policy_needs(policies, pods, urls):
    assert [each.url for each in targets(policies, pods)] == urls


class Noted:
    """Stands where the monitoring is, and notes what it is told."""

    def __init__(self):
        self.told = []

    def report(self, workload, metrics):
        self.told.append((workload, dict(metrics)))


class NoInformers:
    def of(self, kind):
        return ()


async def test_a_round_reports_what_an_endpoint_shows_and_a_dead_one_is_told_once():
    async def metrics(_):
        return web.Response(text=TEXT)

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    noted = Noted()
    scraper = Scraper(NoInformers(), noted, LoopClock(lambda: 0.0), structlog.get_logger())
    names = frozenset({"latency", "fps"})
    with structlog.testing.capture_logs() as logs:
        async with aiohttp.ClientSession() as session:
            for path in ("metrics", "gone", "gone"):
                target = Target("default/web/app", f"http://127.0.0.1:{port}/{path}", names)
                await asyncio.wait_for(scraper._read(session, target), 5)
    await runner.cleanup()
    assert noted.told == [("default/web/app", {"latency": 450.0, "fps": 25.0})]
    assert [each["error"] for each in logs] == [f"http://127.0.0.1:{port}/gone answered 404"]
