"""What a plan may ask for. Actions are data; `headrace.runtime.perform` is the only code that carries them out."""

from dataclasses import dataclass, field
from typing import Literal

from headrace.api.kinds import Kind
from headrace.api.objects import Fields
from headrace.store.protocol import Deletion

RESIZE = "resize"
"""The subresource of a Pod by which its desired resources change."""


@dataclass(frozen=True, slots=True)
class Create:
    """Names of created things are computed, never random, so that a plan made twice is harmless."""

    kind: Kind
    namespace: str
    object: Fields


@dataclass(frozen=True, slots=True)
class Delete:
    kind: Kind
    namespace: str
    name: str
    deletion: Deletion = field(default_factory=Deletion)


@dataclass(frozen=True, slots=True)
class Patch:
    """Change only these fields, and only if the object is still at `version`. An admission is such a patch too."""

    kind: Kind
    namespace: str
    name: str
    fields: Fields
    version: str | None
    subresource: str | None = None
    strategic: bool = False


@dataclass(frozen=True, slots=True)
class Subresource:
    """POST of a body to a subresource: binding, eviction."""

    kind: Kind
    namespace: str
    name: str
    subresource: str
    body: Fields


@dataclass(frozen=True, slots=True)
class Event:
    """Something people should see about an object; repeated ones are counted, not stored again."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Again:
    """Look again after this many seconds, even if nothing changes."""

    seconds: float


Action = Create | Delete | Patch | Subresource | Event | Again
