"""States of a Pod as the plan sees them, written shortly. States that cannot exist cannot be said."""

from headrace.node.containers import Memory, Setup, container_id
from headrace.node.pod import view
from headrace.node.pods_plan import Seen
from headrace.node.runtimes.protocol import ContainerState

UID = "0000"
NOW = 10_000.0


def a_pod(*containers, init=(), status=None, deleted=False, grace=None, **spec):
    """Container names, or whole containers."""
    meta = {"uid": UID, "name": "p", "namespace": "default", "resourceVersion": "7", "generation": 2}
    if deleted:
        meta |= {
            "deletionTimestamp": "1970-01-01T02:46:40Z",
            "deletionGracePeriodSeconds": 30 if grace is None else grace,
        }
    return view(
        {
            "metadata": meta,
            "spec": {
                "containers": [a_container(each) for each in containers or ("main",)],
                "initContainers": [a_container(each) for each in init],
                **spec,
            },
            "status": status or {},
        }
    )


def a_container(name):
    return name if isinstance(name, dict) else {"name": name, "command": ["run"]}


def a_sidecar(name):
    return {"name": name, "command": ["run"], "restartPolicy": "Always"}


def running(name="main", attempt=0, since=NOW - 5):
    return ContainerState(
        container_id(UID, name, attempt), UID, name, "running", pid=100 + attempt, start_ticks=1, started_at=since
    )


def exited(name="main", code=1, attempt=0, *, at=NOW - 1, ran=2.0, oom=False):
    return ContainerState(
        container_id(UID, name, attempt),
        UID,
        name,
        "exited",
        pid=100 + attempt,
        start_ticks=1,
        started_at=at - ran,
        finished_at=at,
        exit_code=code,
        oom_killed=oom,
    )


def seen(pod=None, *states, memory=None, setup="ready", gone=False, images=False):
    names = [each.id for each in states]
    assert len(set(names)) == len(names), "a runtime knows an id once"
    ready = setup if isinstance(setup, Setup) else Setup(setup)
    return Seen(pod or a_pod(), states, memory or {}, ready, gone, images=images)


def after(short_runs=None, **fields):
    return Memory(short_runs=short_runs, **fields)
