"""`delete` says what it waits for."""

from typing import Any

import pytest

from headrace.cli.objects import tell_what_keeps, what_keeps
from headrace.client.errors import ApiError

RELEASING = {"type": "headrace.dev/DevicesReleased", "status": "False", "message": "driver d is not registered"}


def pod(*conditions: dict[str, str], **meta: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"deletionGracePeriodSeconds": 30, **meta},
        "spec": {"nodeName": "node-a"},
        "status": {"conditions": list(conditions)},
    }


@pytest.mark.parametrize(
    ("there", "words"),
    [
        pytest.param(pod(), "node node-a ends its containers, which have 30 s for it", id="containers that end"),
        pytest.param(pod(RELEASING), "driver d is not registered", id="a driver that is away"),
        pytest.param(pod(finalizers=["a/b"]), "finalizers are there: a/b", id="a finalizer"),
        pytest.param({"kind": "ConfigMap", "metadata": {}}, "it is being deleted", id="nothing that is known"),
    ],
)
def test_what_an_object_is_still_there_for(there: dict[str, Any], words: str) -> None:
    assert what_keeps(there) == words


async def test_each_reason_is_told_once_until_the_object_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    left = [pod(), pod(), pod(RELEASING), pod(RELEASING)]

    class Answers:
        async def request(self, method: str, path: str) -> dict[str, Any]:
            if not left:
                raise ApiError(404, "NotFound", "gone", {})
            return left.pop(0)

    await tell_what_keeps(Answers(), "/api/v1/namespaces/default/pods/a", seconds=0)
    assert capsys.readouterr().err.splitlines() == [
        "waiting: node node-a ends its containers, which have 30 s for it",
        "waiting: driver d is not registered",
    ]
