"""Prometheus' answers as samples and values, and the server that gives none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from headrace.client.endpoint import BadEndpoint, endpoint
from headrace.client.http import Client
from headrace.metrics.prometheus import Prometheus, Series, series, usages
from headrace.metrics.protocol import Unmeasured

NOW = 1_800_000_000.0
CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"


def of(name, *points, pod="web", **labels):
    labels = {"__name__": name, "namespace": "default", "pod": pod, "container": "app"} | labels
    return Series(labels, tuple((NOW + at, value) for at, value in points))


def test_counters_and_memory_of_one_scrape_are_one_sample():
    found = usages(
        [
            of(CPU, (0, 10.0), (15, 13.0)),
            of(MEMORY, (0, 1000.0), (15, 2000.0)),
            of("container_cpu_cfs_periods_total", (0, 100.0), (15, 200.0)),
            of("container_cpu_cfs_throttled_periods_total", (0, 1.0), (15, 51.0)),
            of("container_oom_events_total", (0, 0.0), (15, 1.0)),
        ]
    )
    told = [
        (each.at - NOW, each.cpu_seconds, each.working_set_bytes, each.periods, each.throttled_periods, each.oom_kills)
        for each in found["default/web/app"]
    ]
    assert told == [(0, 10.0, 1000, 100, 1, 0), (15, 13.0, 2000, 200, 51, 1)]


def test_a_container_that_was_started_again_is_its_newest_series():
    old, new = of(CPU, (0, 90.0), id="old"), of(CPU, (30, 1.0), (45, 2.0), id="new")
    for order in ([old, new], [new, old]):
        found = usages([*order, of(MEMORY, (30, 1.0), (45, 1.0))])
        assert [each.cpu_seconds for each in found["default/web/app"]] == [1.0, 2.0]


@pytest.mark.parametrize(
    "given",
    [[of(CPU, (0, 1.0))], [of(MEMORY, (0, 1.0))], [of(CPU), of(MEMORY)], [of(CPU, (0, 1.0), container=""), of(MEMORY)]],
    ids=["no memory", "no cpu", "no points", "of no container"],
)
def test_half_a_sample_is_none(given):
    assert not any(usages(given).values())


@pytest.mark.parametrize(
    ("data", "points"),
    [
        ({"resultType": "vector", "result": [{"metric": {"pod": "web"}, "value": [NOW, "450"]}]}, [(NOW, 450.0)]),
        ({"resultType": "scalar", "result": [NOW, "3"]}, [(NOW, 3.0)]),
        ({"resultType": "vector", "result": [{"metric": {}, "value": [NOW, "NaN"]}]}, []),
        ({"resultType": "matrix", "result": [{"metric": {}, "values": [[NOW, "1"], [NOW + 1, "+Inf"]]}]}, [(NOW, 1.0)]),
    ],
    ids=["a vector", "a scalar", "not a number", "a matrix with what is infinite"],
)
def test_an_answer_is_read(data, points):
    [found] = series({"status": "success", "data": data})
    assert list(found.points) == points


def test_a_refusal_is_told_in_its_words():
    with pytest.raises(Unmeasured, match="bad_data: parse error"):
        list(series({"status": "error", "errorType": "bad_data", "error": "parse error"}))


@asynccontextmanager
async def server(*answers) -> AsyncIterator[tuple[str, list[str]]]:
    """Answers in turn, the last one again and again; the queries that it was asked."""
    asked, left = [], list(answers)

    async def query(request: web.Request) -> web.Response:
        asked.append(request.query["query"])
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer() if callable(answer) else web.json_response(answer)

    app = web.Application()
    app.add_routes([web.get("/prefix/api/v1/query", query)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/prefix/", asked
    finally:
        await runner.cleanup()


def matrix(*found: Series):
    result = [
        {"metric": dict(each.labels), "values": [[at, str(value)] for at, value in each.points]} for each in found
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


async def test_a_sample_is_told_once_behind_a_prefix_too():
    first = matrix(of(CPU, (0, 1.0)), of(MEMORY, (0, 5.0)))
    later = matrix(of(CPU, (0, 1.0), (15, 2.0)), of(MEMORY, (0, 5.0), (15, 6.0)))
    async with asyncio.timeout(20), server(first, first, later) as (url, asked):
        cluster, path = endpoint(url)
        async with Client(cluster) as client:
            prometheus = Prometheus(client, path)
            found = [await prometheus.usage(["default", "apps"], NOW) for _ in range(3)]
    assert [[each.cpu_seconds for _, each in times] for times in found] == [[1.0], [], [2.0]]
    assert 'namespace=~"apps|default"' in asked[0]


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(status=400, text='{"status":"error","errorType":"bad_data","error":"x"}'),
        lambda: web.json_response({"status": "success", "data": {"resultType": "vector", "result": [{"value": 1}]}}),
        lambda: web.json_response(["what"]),
    ],
    ids=["a refusal", "a value that is none", "something else"],
)
async def test_a_server_that_gives_no_answer_is_told_and_no_fault(answer):
    async with asyncio.timeout(20), server(answer) as (url, _):
        cluster, path = endpoint(url)
        async with Client(cluster) as client:
            with pytest.raises(Unmeasured, match="Prometheus"):
                await Prometheus(client, path).ask("up")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("prometheus:9090", "must be a URL"),
        ("ftp://prometheus", "must be a URL"),
        ("http://", "must be a URL"),
        ("http://me:secret@prometheus", "by a file with a token"),
        ("http://prometheus/?x=1", "must be a URL"),
    ],
)
def test_an_endpoint_that_is_none_is_refused(url, words):
    with pytest.raises(BadEndpoint, match=words):
        endpoint(url)


def test_a_token_is_read_from_its_file_again(tmp_path):
    file = tmp_path / "token"
    file.write_text("one\n")
    cluster, _ = endpoint("http://prometheus:9090", token_file=str(file))
    file.write_text("two\n")
    assert (cluster.token, cluster.renew().token) == ("one", "two")
    with pytest.raises(BadEndpoint, match="nothing"):
        endpoint("http://prometheus:9090", ca_file=str(tmp_path / "nothing"))
