"""The same with Prometheus in place of metrics.k8s.io: usage from cAdvisor's series, and a policy's own PromQL."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.prometheus import Scraped, prometheus
from tests.resize.cluster.world import MI, World, controllers, namespace, pod, policy, rights, world

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="a kubelet runs as root only"),
]
LATENCY = "histogram_quantile(0.99, rate(latency_bucket[1m]))"
ONCE = {"matching": 1, "of": 1}


@pytest.fixture(scope="module")
def here(kubernetes_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world"), kubernetes_programs) as found:
        yield found


@pytest.fixture(scope="module")
def kubeconfig(here: World) -> Path:
    return rights(here)


@pytest.fixture
def scraped() -> Iterator[Scraped]:
    with prometheus() as found:
        yield found


def test_a_cluster_without_a_metrics_api_is_told_in_the_policy(here: World, kubeconfig: Path) -> None:
    here.create("default", namespace("unmeasured"))
    with controllers(here, kubeconfig):
        here.create("unmeasured", policy())
        here.until("told", lambda: here.condition("unmeasured", "MetricsUnavailable")[0] == "True")
        assert "metrics.k8s.io" in here.condition("unmeasured", "MetricsUnavailable")[1]


def test_usage_and_a_query_of_prometheus_resize_pods(here: World, kubeconfig: Path, scraped: Scraped) -> None:
    here.create("default", namespace("scraped"))
    slow = {"metric": "latency", "query": LATENCY, "up": {"above": 300}, "resources": ["memory"], "samples": ONCE}
    asking = policy(triggers=[slow], selector={"matchLabels": {"app": "asked"}})
    asking["metadata"]["name"] = "asked"
    here.create(
        "scraped",
        pod("web", "100m", "64Mi", "32Mi"),
        pod("slow", "100m", "64Mi", "32Mi", labels={"app": "asked"}),
        pod("fast", "100m", "64Mi", "32Mi", labels={"app": "asked"}),
        policy(),
        asking,
    )
    here.runs("scraped", "web", "slow", "fast")
    with controllers(here, kubeconfig, "--prometheus", scraped.url):
        here.until("refused", lambda: "bad_data" in here.condition("scraped", "MetricsUnavailable", "asked")[1])
        scraped.answers[LATENCY] = [(450.0, {"pod": "slow"}), (120.0, {"pod": "fast"})]
        scraped.used["scraped/web/app"] = (0.095, 10 * MI)
        here.until("grown", lambda: here.limits("scraped", "web")[1]["cpu"] == 200)
        here.until("grown", lambda: here.limits("scraped", "slow")[1] == {"cpu": 100, "memory": 128 * MI})
        here.until("measured", lambda: here.condition("scraped", "MetricsUnavailable", "asked")[0] == "False")
        assert here.condition("scraped", "MetricsUnavailable") == ("", ""), "that one's bad query is no other's"
        assert here.limits("scraped", "fast")[0] == {"cpu": 100, "memory": 64 * MI}
        causes = {
            each["spec"]["workload"]: (each["spec"]["cause"]["metric"], each["spec"]["cause"]["policy"])
            for each in here.actions("scraped")
        }
        assert causes == {"web/app": ("cpu", "policy"), "slow/app": ("latency", "asked")}
