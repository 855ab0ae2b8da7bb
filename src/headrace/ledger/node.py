"""What one node can still give: available = total - reserved - allocated. A wish is admitted or gets a Shortfall."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The refusal: on which node, which resources are missing and by how much, and who holds the most of them."""

    missing: Mapping[str, int]
    node: str = ""
    holders: tuple[str, ...] = ()
    wanted: Mapping[str, int] = field(default_factory=dict)
    available: Mapping[str, int] = field(default_factory=dict)
