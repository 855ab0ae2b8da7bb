"""Pods beside Pods: required affinity and anti-affinity, and spread over domains, as kube-scheduler filters."""

import pytest

from headrace.api.kinds import POD
from headrace.objects.local import Caller
from headrace.scheduling.neighbours import (
    KEEPS_AWAY,
    KEPT_AWAY,
    NO_TOPOLOGY,
    NOT_BESIDE,
    NOT_SPREAD,
    keeps_others_away,
    refusals,
)
from headrace.store.protocol import Deletion
from tests.scheduling.scene import add_node, node, pod, scheduled, settle, where, why

ZONE = "topology.kubernetes.io/zone"
NODES = {
    name: {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone}}}
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"))
}
NODES["bare"] = {"metadata": {"name": "bare"}}
NAMESPACES = {"default": {}, "team": {"env": "prod"}}


def web(name="web", app="web", namespace="default", deleting=False, **spec):
    meta = {"name": name, "uid": f"{namespace}/{name}", "namespace": namespace, "labels": {"app": app, "v": name}}
    return {"metadata": meta | ({"deletionTimestamp": "now"} if deleting else {}), "spec": spec}


def term(app="web", key=ZONE, **more):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def affinity(*terms, sort="podAffinity"):
    return {"affinity": {sort: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def apart(*terms):
    return affinity(*terms, sort="podAntiAffinity")


def spread(skew=1, key=ZONE, **more):
    return {
        "topologySpreadConstraints": [{"maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **term(key=key), **more}]
    }


@pytest.mark.parametrize(
    ("asking", "placed", "expected"),
    [
        pytest.param(web("n"), [(web(), "a1")], {}, id="who asks nothing may go anywhere"),
        pytest.param(
            web("n", **affinity(term())),
            [(web(), "a1")],
            {"b1": NOT_BESIDE, "bare": NOT_BESIDE},
            id="beside, in a zone",
        ),
        pytest.param(
            web("n", **affinity(term(key="kubernetes.io/hostname"))),
            [(web(), "a1")],
            {"a2": NOT_BESIDE, "b1": NOT_BESIDE, "bare": NOT_BESIDE},
            id="beside, on a node",
        ),
        pytest.param(web("n", **affinity(term())), [], {"bare": NOT_BESIDE}, id="the first of those that go together"),
        pytest.param(
            web("n", **affinity(term(app="db"))),
            [],
            dict.fromkeys(NODES, NOT_BESIDE),
            id="beside one that is not there",
        ),
        pytest.param(
            web("n", **affinity(term(app="db"), term(app="db", key="kubernetes.io/hostname"))),
            [(web(app="db"), "b1")],
            {"a1": NOT_BESIDE, "a2": NOT_BESIDE, "bare": NOT_BESIDE},
            id="all terms must hold",
        ),
        pytest.param(
            web("n", **apart(term())), [(web(), "a1")], {"a1": KEEPS_AWAY, "a2": KEEPS_AWAY}, id="away from its like"
        ),
        pytest.param(
            web("n"), [(web(**apart(term())), "b1")], {"b1": KEPT_AWAY}, id="kept away by one that is there already"
        ),
        pytest.param(web("n", **apart(term())), [(web("n"), "b1")], {}, id="not from itself"),
        pytest.param(
            web("n", **apart(term())), [(web(namespace="team"), "b1")], {}, id="other namespaces do not count"
        ),
        pytest.param(
            web("n", **apart(term(namespaces=["team"]))),
            [(web(namespace="team"), "b1")],
            {"b1": KEEPS_AWAY},
            id="unless they are named",
        ),
        pytest.param(
            web("n", **apart(term(namespaceSelector={"matchLabels": {"env": "prod"}}))),
            [(web(namespace="team"), "b1"), (web(), "a1")],
            {"b1": KEEPS_AWAY},
            id="or selected",
        ),
        pytest.param(
            web("n", **apart(term(mismatchLabelKeys=["v"]))),
            [(web("m"), "b1"), (web("n", namespace="team"), "a1")],
            {"b1": KEEPS_AWAY},
            id="away from those of other values",
        ),
        pytest.param(
            web("n", **spread()),
            [(web(), "a1")],
            {"a1": NOT_SPREAD, "a2": NOT_SPREAD, "bare": NO_TOPOLOGY},
            id="spread over zones",
        ),
        pytest.param(web("n", **spread(skew=2)), [(web(), "a1")], {"bare": NO_TOPOLOGY}, id="as far as the skew"),
        pytest.param(
            web("n", **spread(minDomains=3)),
            [(web("x"), "a1"), (web("y"), "b1")],
            {"a1": NOT_SPREAD, "a2": NOT_SPREAD, "b1": NOT_SPREAD, "bare": NO_TOPOLOGY},
            id="with fewer domains than there must be",
        ),
        pytest.param(
            web("n", **spread()),
            [(web(deleting=True), "a1")],
            {"bare": NO_TOPOLOGY},
            id="those that leave do not count",
        ),
        pytest.param(
            web("n", nodeSelector={ZONE: "a"}, **spread(key="kubernetes.io/hostname")),
            [(web("x"), "a1"), (web("y"), "a2")],
            {"bare": NO_TOPOLOGY},
            id="nodes that it may not go to are no domains",
        ),
        pytest.param(
            web("n", nodeSelector={ZONE: "a"}, **spread(key="kubernetes.io/hostname", nodeAffinityPolicy="Ignore")),
            [(web("x"), "a1"), (web("y"), "a2")],
            {"a1": NOT_SPREAD, "a2": NOT_SPREAD, "bare": NO_TOPOLOGY},
            id="unless it says otherwise",
        ),
        pytest.param(
            web("n", **spread(whenUnsatisfiable="ScheduleAnyway")),
            [(web(), "a1")],
            {},
            id="a preference keeps nobody away",
        ),
    ],
)
def test_where_a_pod_may_not_go(asking, placed, expected):
    keeping = [(each, where) for each, where in placed if keeps_others_away(each)]
    assert refusals(asking, NODES, placed, keeping, NAMESPACES.__getitem__) == expected


def labelled(name, **spec):
    found = pod(name, cpu="100m", **spec)
    found["metadata"]["labels"] = {"app": "web"}
    return found


@pytest.mark.looptime
async def test_two_that_keep_apart_are_on_two_nodes_and_a_third_waits_until_one_has_gone():
    async with scheduled() as store:
        for name in ("node-a", "node-b"):
            await add_node(store, node(name))
        rules = apart(term(key="kubernetes.io/hostname"))
        for name in ("one", "two", "three"):
            await store.create(POD, labelled(name, **rules), "default")
        await settle()
        places = {name: await where(store, name) for name in ("one", "two", "three")}
        [waits] = [name for name, place in places.items() if place is None]
        assert sorted(place for place in places.values() if place) == ["node-a", "node-b"]
        assert await why(store, waits) == f"0/2 nodes are available: 2 {KEEPS_AWAY}."
        goes = next(name for name, place in places.items() if place == "node-a")
        agent = store.acting_as(Caller(user="system:node:node-a"))
        await agent.delete(POD, goes, "default", Deletion(grace_seconds=0))
        await settle()
        assert await where(store, waits) == "node-a"


@pytest.mark.looptime
async def test_one_that_wants_to_be_beside_another_waits_for_it():
    async with scheduled() as store:
        for name in ("node-a", "node-b"):
            await add_node(store, node(name))
        beside = affinity(term(key="kubernetes.io/hostname"))
        await store.create(POD, pod("follower", cpu="100m", **beside), "default")
        await settle()
        assert await why(store, "follower") == f"0/2 nodes are available: 2 {NOT_BESIDE}."
        await store.create(POD, labelled("leader", nodeName="node-a"), "default")
        await settle()
        assert await where(store, "follower") == "node-a"
