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
    __slots__ = ("workload_id", "requested_cpu", "requested_memory")
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_CPU_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    requested_cpu: int
    requested_memory: int
    def __init__(self, workload_id: _Optional[str] = ..., requested_cpu: _Optional[int] = ..., requested_memory: _Optional[int] = ...) -> None: ...

class ValidateResourceUpdateResponse(_message.Message):
    __slots__ = ("allowed", "reason")
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    allowed: bool
    reason: str
    def __init__(self, allowed: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...
