from headrace.wire.generated import resize_pb2 as _resize_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ToAgent(_message.Message):
    __slots__ = ("request_id", "logs", "update_resources", "get_resource_status", "cancel", "credit")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    GET_RESOURCE_STATUS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    logs: LogsRequest
    update_resources: _resize_pb2.UpdateResourcesRequest
    get_resource_status: _resize_pb2.GetResourceStatusRequest
    cancel: Cancel
    credit: Credit
    def __init__(self, request_id: _Optional[int] = ..., logs: _Optional[_Union[LogsRequest, _Mapping]] = ..., update_resources: _Optional[_Union[_resize_pb2.UpdateResourcesRequest, _Mapping]] = ..., get_resource_status: _Optional[_Union[_resize_pb2.GetResourceStatusRequest, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ...) -> None: ...

class FromAgent(_message.Message):
    __slots__ = ("request_id", "hello", "chunk", "end", "update_resources", "get_resource_status", "samples")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    UPDATE_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    GET_RESOURCE_STATUS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    hello: Hello
    chunk: Chunk
    end: End
    update_resources: _resize_pb2.UpdateResourcesResponse
    get_resource_status: _resize_pb2.GetResourceStatusResponse
    samples: Samples
    def __init__(self, request_id: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ..., update_resources: _Optional[_Union[_resize_pb2.UpdateResourcesResponse, _Mapping]] = ..., get_resource_status: _Optional[_Union[_resize_pb2.GetResourceStatusResponse, _Mapping]] = ..., samples: _Optional[_Union[Samples, _Mapping]] = ...) -> None: ...

class Samples(_message.Message):
    __slots__ = ("samples", "drifts")
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    DRIFTS_FIELD_NUMBER: _ClassVar[int]
    samples: _containers.RepeatedCompositeFieldContainer[Sample]
    drifts: int
    def __init__(self, samples: _Optional[_Iterable[_Union[Sample, _Mapping]]] = ..., drifts: _Optional[int] = ...) -> None: ...

class Sample(_message.Message):
    __slots__ = ("workload", "at", "cpu_seconds", "periods", "throttled_periods", "memory_bytes", "working_set_bytes", "pressure_cpu", "pressure_memory", "oom_kills")
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PERIODS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_PERIODS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    WORKING_SET_BYTES_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_CPU_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    OOM_KILLS_FIELD_NUMBER: _ClassVar[int]
    workload: str
    at: float
    cpu_seconds: float
    periods: int
    throttled_periods: int
    memory_bytes: int
    working_set_bytes: int
    pressure_cpu: float
    pressure_memory: float
    oom_kills: int
    def __init__(self, workload: _Optional[str] = ..., at: _Optional[float] = ..., cpu_seconds: _Optional[float] = ..., periods: _Optional[int] = ..., throttled_periods: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., working_set_bytes: _Optional[int] = ..., pressure_cpu: _Optional[float] = ..., pressure_memory: _Optional[float] = ..., oom_kills: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("node", "version")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    node: str
    version: str
    def __init__(self, node: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("pod_uid", "container", "follow", "previous", "timestamps", "tail_lines", "since", "limit_bytes")
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    pod_uid: str
    container: str
    follow: bool
    previous: bool
    timestamps: bool
    tail_lines: int
    since: float
    limit_bytes: int
    def __init__(self, pod_uid: _Optional[str] = ..., container: _Optional[str] = ..., follow: _Optional[bool] = ..., previous: _Optional[bool] = ..., timestamps: _Optional[bool] = ..., tail_lines: _Optional[int] = ..., since: _Optional[float] = ..., limit_bytes: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Credit(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...
