"""Metrics from an application's own Prometheus endpoint: whom it asks, what counts, and what a failure does."""

import asyncio
import gzip
from contextlib import asynccontextmanager, suppress

import pytest
import structlog
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from headrace.resize.monitoring import BadMetrics
from headrace.resize.scraper import Scraper, Target, parsed, targets
from headrace.runtime.clock import LoopClock

TEXT = """
# HELP latency how long a request takes
# TYPE latency gauge
latency{route="/"} 120
latency{route="/slow"} 450
fps 25
other NaN
most +Inf
"""


def test_of_several_series_the_largest_counts_and_unnamed_ones_are_left():
    assert parsed(TEXT, frozenset({"latency", "other", "most"})) == {"latency": 450.0}


@pytest.mark.parametrize(
    "line",
    [
        "latency{ what",
        'latency{a="b", ="d"} 5',
        'latency{a="b"',
        "latency 5 5 5",
        'latency{a="\\',
        "latency{=,} {",
        'latency{} "',
        "latency 1 # {",
    ],
)
def test_whatever_the_parser_stumbles_over_is_bad_metrics(line):
    with suppress(BadMetrics):
        parsed(line, frozenset({"latency"}))


@given(st.text(st.sampled_from('abé{}="\\,# \t1.e+-N\n'), max_size=40))
def test_no_text_raises_anything_else(text):
    with suppress(BadMetrics):
        parsed("latency" + text, frozenset({"latency"}))


def test_what_nobody_asked_for_is_not_read_and_too_many_series_are_refused():
    """A text of a megabyte costs a parser a second, in which the server would answer nobody."""
    others = "".join(f'latency_bucket{{le="{number}"}} {number}\n' for number in range(20_000))
    assert parsed("nonsense{ what\n" + others + TEXT, frozenset({"latency"})) == {"latency": 450.0}
    with pytest.raises(BadMetrics, match="20000 series of latency_bucket: at most 1000 are read"):
        parsed(others, frozenset({"latency_bucket"}))


def test_a_selector_that_cannot_be_read_stops_nobody_else():
    """On a cluster no admission of ours has seen the policy."""
    broken = policy(app="broken")
    broken["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}
    assert urls_of([broken, policy()], [pod()]) == ["http://127.0.0.1:9000/metrics"]


def urls_of(policies, pods):
    return [each.url for each in targets(policies, pods, lambda key, error: pytest.fail(f"{key}: {error!r}"))]


def test_pods_and_policies_that_cannot_be_read_are_told_by_name_and_stop_nobody_else():
    without = {"metadata": {"name": "without", "namespace": "default"}}
    unnamed = policy(app="unnamed")
    unnamed["spec"]["triggers"] = [{"up": {}}]
    listed = pod("listed") | {"spec": ["x"]}
    labelled = pod("labelled")
    labelled["metadata"]["labels"] = "web"
    odd = {}
    found = targets([without, unnamed, policy(), policy("listed")], [listed, labelled, pod()], odd.__setitem__)
    assert [each.url for each in found] == ["http://127.0.0.1:9000/metrics"]
    assert sorted(odd) == ["default/labelled", "default/listed", "default/unnamed", "default/without"]


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
    assert urls_of(policies, pods) == urls


class Noted:
    """Stands where the monitoring is, and notes what it is told."""

    def __init__(self):
        self.told = []

    def report(self, workload, metrics):
        self.told.append((workload, dict(metrics)))


class NoInformers:
    def of(self, kind):
        return ()


@asynccontextmanager
async def reading(routes, seconds=60.0):
    """(read a path, what was reported, what was logged, where) with an application that answers by these routes."""
    app = web.Application()
    app.add_routes([web.get(f"/{path}", answer) for path, answer in routes.items()])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    noted = Noted()
    scraper = Scraper(NoInformers(), noted, LoopClock(lambda: 0.0), structlog.get_logger())
    with structlog.testing.capture_logs() as logs:
        async with scraper.session(seconds) as session:

            async def read(path):
                target = Target("default/web/app", f"{origin}/{path}", frozenset({"latency", "fps"}))
                await asyncio.wait_for(scraper._read(session, target), 90)

            yield read, noted.told, logs, origin
    await runner.cleanup()


async def metrics(_):
    return web.Response(text=TEXT)


async def test_a_round_reports_what_an_endpoint_shows_and_a_dead_one_is_told_once():
    async with reading({"metrics": metrics}) as (read, told, logs, origin):
        for path in ("metrics", "gone", "gone"):
            await read(path)
    assert told == [("default/web/app", {"latency": 450.0, "fps": 25.0})]
    assert [each["error"] for each in logs] == [f"{origin}/gone answered 404"]


async def test_a_long_answer_is_read_to_its_end():
    """(It was cut at whatever had arrived first: `latency 45` of `latency 450`.)"""

    async def in_pieces(request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        for piece in ("# " + "x" * 300_000 + "\n", "latency 45", "0\n"):
            await answer.write(piece.encode())
            await asyncio.sleep(0.02)
        return answer

    async with reading({"metrics": in_pieces}) as (read, told, _, _):
        await read("metrics")
    assert told == [("default/web/app", {"latency": 450.0})]


async def endless(request):
    answer = web.StreamResponse()
    await answer.prepare(request)
    with suppress(ConnectionError):
        while True:
            await answer.write(b"latency 450\n" * 10_000)


async def test_one_target_that_breaks_something_is_told_and_the_others_are_read():
    """(A line `latency{a="b", ="d"} 5` of one Pod ended the server, and again at each start.)"""

    async def odd(_):
        return web.Response(text='latency{a="b", ="d"} 5\n')

    async with reading({"odd": odd, "metrics": metrics}) as (read, told, logs, _):
        for path in ("odd", "odd", "metrics"):
            await read(path)
    assert told == [("default/web/app", {"latency": 450.0, "fps": 25.0})]
    assert [each["log_level"] for each in logs] == ["warning"]


async def silent(_):
    await asyncio.sleep(60)


async def elsewhere(_):
    raise web.HTTPFound("/metrics")


async def packed(_):
    text = gzip.compress(b"latency 450\n" * 10_000)
    return web.Response(body=text, headers={"Content-Encoding": "gzip"})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(endless, "answers more than 1048576 bytes", id="endless"),
        pytest.param(silent, "did not answer within 1 s", id="silent"),
        pytest.param(elsewhere, "answered 302", id="a redirection"),
        pytest.param(packed, "answered in gzip, which was not asked for", id="compressed"),
    ],
)
async def test_an_answer_that_is_none_is_told_and_nothing_of_it_is_reported(answer, said):
    async with reading({"odd": answer}, seconds=0.5 if answer is silent else 60.0) as (read, told, logs, origin):
        await read("odd")
        assert told == []
        assert [each["error"] for each in logs] == [f"{origin}/odd {said}"]
