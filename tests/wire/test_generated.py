"""The committed code is what the protos say, and the seed's messages keep their bytes."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.message import Message

from headrace.wire.generated import resize_pb2

ROOT = Path(__file__).parents[2]


def test_the_committed_code_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/wire.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        pytest.param(
            resize_pb2.UpdateResourcesRequest(workload_id="w", cpu_limit=4, memory_limit=2048),
            b"\x0a\x01w\x10\x04\x18\x80\x10",
            id="an update of both limits",
        ),
        pytest.param(
            resize_pb2.UpdateResourcesRequest(workload_id="w", cpu_limit=0),
            b"\x0a\x01w\x10\x00",
            id="zero is not the same as absent",
        ),
        pytest.param(
            resize_pb2.UpdateResourcesResponse(
                success=True,
                status=resize_pb2.ResourceStatus(
                    actual_cpu_limit=4, actual_memory_limit=2048, update_state=resize_pb2.ResourceUpdateState.SUCCESS
                ),
            ),
            b"\x08\x01\x1a\x07\x08\x04\x10\x80\x10\x18\x03",
            id="success carries the status, whose state is 3",
        ),
        pytest.param(
            resize_pb2.GetResourceStatusResponse(
                success=True,
                status=resize_pb2.ResourceRuntimeStatus(cpu_limit=4, memory_limit=2048, runtime_id="r"),
            ),
            b"\x08\x01\x12\x08\x08\x04\x10\x80\x10\x1a\x01r",
            id="a status names its runtime id",
        ),
        pytest.param(
            resize_pb2.ValidateResourceUpdateRequest(workload_id="w", requested_cpu=4, requested_memory=2048),
            b"\x0a\x01w\x10\x04\x18\x80\x10",
            id="a validation",
        ),
        pytest.param(
            resize_pb2.ValidateResourceUpdateResponse(allowed=True, reason="r"), b"\x08\x01\x12\x01r", id="its answer"
        ),
    ],
)
def test_the_bytes_are_those_of_the_design(message: Message, wire: bytes) -> None:
    assert message.SerializeToString(deterministic=True) == wire
    assert type(message).FromString(wire) == message


def test_the_sync_states_count_from_unknown_to_failed() -> None:
    assert dict(resize_pb2.ResourceSyncState.State.items()) == {
        "UNKNOWN": 0,
        "PENDING": 1,
        "APPLYING": 2,
        "SYNCHRONIZED": 3,
        "DRIFT_DETECTED": 4,
        "FAILED": 5,
    }
