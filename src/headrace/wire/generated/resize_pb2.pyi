from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UpdateResourcesRequest(_message.Message):
    __slots__ = ("workload_id", "cpu_limit", "memory_limit", "cpu_milli", "memory_bytes", "revision")
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    cpu_limit: int
    memory_limit: int
    cpu_milli: int
    memory_bytes: int
    revision: int
    def __init__(self, workload_id: _Optional[str] = ..., cpu_limit: _Optional[int] = ..., memory_limit: _Optional[int] = ..., cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class UpdateResourcesResponse(_message.Message):
    __slots__ = ("success", "message", "status")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    success: bool
    message: str
    status: ResourceStatus
    def __init__(self, success: _Optional[bool] = ..., message: _Optional[str] = ..., status: _Optional[_Union[ResourceStatus, _Mapping]] = ...) -> None: ...

class ResourceStatus(_message.Message):
    __slots__ = ("actual_cpu_limit", "actual_memory_limit", "update_state", "cpu_milli", "memory_bytes", "cpu_unlimited", "memory_unlimited", "revision")
    ACTUAL_CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_STATE_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    actual_cpu_limit: int
    actual_memory_limit: int
    update_state: ResourceUpdateState.State
    cpu_milli: int
    memory_bytes: int
    cpu_unlimited: bool
    memory_unlimited: bool
    revision: int
    def __init__(self, actual_cpu_limit: _Optional[int] = ..., actual_memory_limit: _Optional[int] = ..., update_state: _Optional[_Union[ResourceUpdateState.State, str]] = ..., cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., cpu_unlimited: _Optional[bool] = ..., memory_unlimited: _Optional[bool] = ..., revision: _Optional[int] = ...) -> None: ...

class ResourceUpdateState(_message.Message):
    __slots__ = ()
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[ResourceUpdateState.State]
        PENDING: _ClassVar[ResourceUpdateState.State]
        RUNNING: _ClassVar[ResourceUpdateState.State]
        SUCCESS: _ClassVar[ResourceUpdateState.State]
        FAILED: _ClassVar[ResourceUpdateState.State]
    UNKNOWN: ResourceUpdateState.State
    PENDING: ResourceUpdateState.State
    RUNNING: ResourceUpdateState.State
    SUCCESS: ResourceUpdateState.State
    FAILED: ResourceUpdateState.State
    def __init__(self) -> None: ...

class ResourceSyncState(_message.Message):
    __slots__ = ()
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[ResourceSyncState.State]
        PENDING: _ClassVar[ResourceSyncState.State]
        APPLYING: _ClassVar[ResourceSyncState.State]
        SYNCHRONIZED: _ClassVar[ResourceSyncState.State]
        DRIFT_DETECTED: _ClassVar[ResourceSyncState.State]
        FAILED: _ClassVar[ResourceSyncState.State]
    UNKNOWN: ResourceSyncState.State
    PENDING: ResourceSyncState.State
    APPLYING: ResourceSyncState.State
    SYNCHRONIZED: ResourceSyncState.State
    DRIFT_DETECTED: ResourceSyncState.State
    FAILED: ResourceSyncState.State
    def __init__(self) -> None: ...

class ResourceSpec(_message.Message):
    __slots__ = ("cpu_limit", "memory_limit")
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    cpu_limit: int
    memory_limit: int
    def __init__(self, cpu_limit: _Optional[int] = ..., memory_limit: _Optional[int] = ...) -> None: ...

class ResourceRuntimeStatus(_message.Message):
    __slots__ = ("cpu_limit", "memory_limit", "runtime_id", "cpu_milli", "memory_bytes", "cpu_unlimited", "memory_unlimited")
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_ID_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    cpu_limit: int
    memory_limit: int
    runtime_id: str
    cpu_milli: int
    memory_bytes: int
    cpu_unlimited: bool
    memory_unlimited: bool
    def __init__(self, cpu_limit: _Optional[int] = ..., memory_limit: _Optional[int] = ..., runtime_id: _Optional[str] = ..., cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., cpu_unlimited: _Optional[bool] = ..., memory_unlimited: _Optional[bool] = ...) -> None: ...

class GetResourceStatusRequest(_message.Message):
    __slots__ = ("workload_id",)
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    def __init__(self, workload_id: _Optional[str] = ...) -> None: ...

class GetResourceStatusResponse(_message.Message):
    __slots__ = ("success", "status")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    success: bool
    status: ResourceRuntimeStatus
    def __init__(self, success: _Optional[bool] = ..., status: _Optional[_Union[ResourceRuntimeStatus, _Mapping]] = ...) -> None: ...

class ValidateResourceUpdateRequest(_message.Message):
    __slots__ = ("workload_id", "requested_cpu", "requested_memory", "cpu_milli", "memory_bytes")
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_CPU_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    requested_cpu: int
    requested_memory: int
    cpu_milli: int
    memory_bytes: int
    def __init__(self, workload_id: _Optional[str] = ..., requested_cpu: _Optional[int] = ..., requested_memory: _Optional[int] = ..., cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class ValidateResourceUpdateResponse(_message.Message):
    __slots__ = ("allowed", "reason", "available_cpu_milli", "available_memory_bytes", "reservation")
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    allowed: bool
    reason: str
    available_cpu_milli: int
    available_memory_bytes: int
    reservation: str
    def __init__(self, allowed: _Optional[bool] = ..., reason: _Optional[str] = ..., available_cpu_milli: _Optional[int] = ..., available_memory_bytes: _Optional[int] = ..., reservation: _Optional[str] = ...) -> None: ...

class UpdateDesiredStateRequest(_message.Message):
    __slots__ = ("workload_id", "cpu_limit", "memory_limit", "cpu_milli", "memory_bytes")
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    cpu_limit: int
    memory_limit: int
    cpu_milli: int
    memory_bytes: int
    def __init__(self, workload_id: _Optional[str] = ..., cpu_limit: _Optional[int] = ..., memory_limit: _Optional[int] = ..., cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class UpdateDesiredStateResponse(_message.Message):
    __slots__ = ("success", "sync_state", "message", "revision")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    SYNC_STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    success: bool
    sync_state: ResourceSyncState.State
    message: str
    revision: int
    def __init__(self, success: _Optional[bool] = ..., sync_state: _Optional[_Union[ResourceSyncState.State, str]] = ..., message: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class ReportActualStateRequest(_message.Message):
    __slots__ = ("workload_id", "cpu_limit", "memory_limit", "update_success", "cpu_milli", "memory_bytes")
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    cpu_limit: int
    memory_limit: int
    update_success: bool
    cpu_milli: int
    memory_bytes: int
    def __init__(self, workload_id: _Optional[str] = ..., cpu_limit: _Optional[int] = ..., memory_limit: _Optional[int] = ..., update_success: _Optional[bool] = ..., cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class ReportActualStateResponse(_message.Message):
    __slots__ = ("synchronized", "sync_state", "drift_detected")
    SYNCHRONIZED_FIELD_NUMBER: _ClassVar[int]
    SYNC_STATE_FIELD_NUMBER: _ClassVar[int]
    DRIFT_DETECTED_FIELD_NUMBER: _ClassVar[int]
    synchronized: bool
    sync_state: ResourceSyncState.State
    drift_detected: bool
    def __init__(self, synchronized: _Optional[bool] = ..., sync_state: _Optional[_Union[ResourceSyncState.State, str]] = ..., drift_detected: _Optional[bool] = ...) -> None: ...

class GetResourceStateRequest(_message.Message):
    __slots__ = ("workload_id",)
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    def __init__(self, workload_id: _Optional[str] = ...) -> None: ...

class GetResourceStateResponse(_message.Message):
    __slots__ = ("found", "desired_cpu", "desired_memory", "actual_cpu", "actual_memory", "sync_state", "desired_cpu_milli", "desired_memory_bytes", "actual_cpu_milli", "actual_memory_bytes", "admitted_cpu_milli", "admitted_memory_bytes", "reason", "message")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    DESIRED_CPU_FIELD_NUMBER: _ClassVar[int]
    DESIRED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_CPU_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_MEMORY_FIELD_NUMBER: _ClassVar[int]
    SYNC_STATE_FIELD_NUMBER: _ClassVar[int]
    DESIRED_CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    DESIRED_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    found: bool
    desired_cpu: int
    desired_memory: int
    actual_cpu: int
    actual_memory: int
    sync_state: ResourceSyncState.State
    desired_cpu_milli: int
    desired_memory_bytes: int
    actual_cpu_milli: int
    actual_memory_bytes: int
    admitted_cpu_milli: int
    admitted_memory_bytes: int
    reason: str
    message: str
    def __init__(self, found: _Optional[bool] = ..., desired_cpu: _Optional[int] = ..., desired_memory: _Optional[int] = ..., actual_cpu: _Optional[int] = ..., actual_memory: _Optional[int] = ..., sync_state: _Optional[_Union[ResourceSyncState.State, str]] = ..., desired_cpu_milli: _Optional[int] = ..., desired_memory_bytes: _Optional[int] = ..., actual_cpu_milli: _Optional[int] = ..., actual_memory_bytes: _Optional[int] = ..., admitted_cpu_milli: _Optional[int] = ..., admitted_memory_bytes: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ScalingActionRequest(_message.Message):
    __slots__ = ("node_id", "workload_id", "target_cpu_limit", "target_memory_limit", "cpu_milli", "memory_bytes", "priority", "on_insufficient")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    TARGET_MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ON_INSUFFICIENT_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    workload_id: str
    target_cpu_limit: int
    target_memory_limit: int
    cpu_milli: int
    memory_bytes: int
    priority: int
    on_insufficient: str
    def __init__(self, node_id: _Optional[str] = ..., workload_id: _Optional[str] = ..., target_cpu_limit: _Optional[int] = ..., target_memory_limit: _Optional[int] = ..., cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., priority: _Optional[int] = ..., on_insufficient: _Optional[str] = ...) -> None: ...

class ScalingActionResponse(_message.Message):
    __slots__ = ("success", "message", "sync_state", "actual_cpu_limit", "actual_memory_limit", "cpu_milli", "memory_bytes", "action", "reason")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SYNC_STATE_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    success: bool
    message: str
    sync_state: ResourceSyncState.State
    actual_cpu_limit: int
    actual_memory_limit: int
    cpu_milli: int
    memory_bytes: int
    action: str
    reason: str
    def __init__(self, success: _Optional[bool] = ..., message: _Optional[str] = ..., sync_state: _Optional[_Union[ResourceSyncState.State, str]] = ..., actual_cpu_limit: _Optional[int] = ..., actual_memory_limit: _Optional[int] = ..., cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., action: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReportMetricsRequest(_message.Message):
    __slots__ = ("workload_id", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, workload_id: _Optional[str] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class ReportMetricsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchPerformanceEventsRequest(_message.Message):
    __slots__ = ("workload_id",)
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    def __init__(self, workload_id: _Optional[str] = ...) -> None: ...

class PerformanceEvent(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...
