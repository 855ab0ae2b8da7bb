from headrace.wire.generated import dra_v1_pb2 as _dra_v1_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
