"""The feature gates that change an allocation, under Kubernetes' names; the defaults are those of Kubernetes 1.37."""

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Features:
    """Gates of the scheduler's allocator. The last four are alpha and off by default."""

    AdminAccess: bool = True
    PrioritizedList: bool = True
    PartitionableDevices: bool = True
    DeviceTaints: bool = True
    DeviceBindingAndStatus: bool = True
    ConsumableCapacity: bool = True
    FractionalCapacityRange: bool = True
    CompatibilityGroups: bool = False
    DerivedAttributes: bool = False
    ListTypeAttributes: bool = False
    OptionalNodeOperations: bool = False

    @property
    def is_experimental(self) -> bool:
        """Whether Kubernetes would use the allocator that knows the alpha features."""
        return (
            self.CompatibilityGroups or self.DerivedAttributes or self.ListTypeAttributes or self.OptionalNodeOperations
        )

    @classmethod
    def exactly(cls, enabled: Mapping[str, bool]) -> "Features":
        """The set in which just the named gates that are true are on."""
        return cls(**{field.name: bool(enabled.get(field.name)) for field in fields(cls)})


DEFAULT = Features()
