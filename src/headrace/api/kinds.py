"""The kinds that code names: group, version, kind, plural and scope, as discovery would tell them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Kind:
    """`resource` is `pods`, `deployments.apps`: how Kubernetes names it in messages, and how rows are keyed."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    api_version: str = field(init=False, repr=False, compare=False)
    resource: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Worked out once: each read and write of an object asks for them.
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        object.__setattr__(self, "resource", f"{self.plural}.{self.group}" if self.group else self.plural)


NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
POD = Kind("", "v1", "Pod", "pods")
EVENT = Kind("", "v1", "Event", "events")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SECRET = Kind("", "v1", "Secret", "secrets")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
SERVICE = Kind("", "v1", "Service", "services")
ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints")
PERSISTENT_VOLUME_CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
HORIZONTAL_POD_AUTOSCALER = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
DEVICE_CLASS = Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_SLICE = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
RESOURCE_CLAIM = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_CLAIM_TEMPLATE = Kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates")
DEVICE_TAINT_RULE = Kind("resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", namespaced=False)
CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
RESIZE_POLICY = Kind("headrace.dev", "v1alpha1", "ResizePolicy", "resizepolicies")
RESOURCE_SCALING_ACTION = Kind("headrace.dev", "v1alpha1", "ResourceScalingAction", "resourcescalingactions")
CAPACITY_RESERVATION = Kind("headrace.dev", "v1alpha1", "CapacityReservation", "capacityreservations")
