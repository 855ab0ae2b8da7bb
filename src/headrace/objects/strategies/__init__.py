"""The strategy of each built-in kind, one module for each group of kinds."""

from headrace.api import kinds
from headrace.objects.crd.definition import DefinitionStrategy
from headrace.objects.strategies import (
    apps,
    cluster,
    core,
    endpoints,
    events,
    pods,
    resource,
    roles,
    scaling,
    services,
    storage,
)
from headrace.objects.strategy import Strategy

STRATEGIES: dict[str, Strategy] = {
    kinds.CUSTOM_RESOURCE_DEFINITION.resource: DefinitionStrategy(),
    kinds.NAMESPACE.resource: core.NamespaceStrategy(),
    kinds.NODE.resource: core.NodeStrategy(),
    kinds.POD.resource: pods.PodStrategy(),
    kinds.EVENT.resource: events.EventStrategy(strict=False),
    kinds.CONFIG_MAP.resource: core.ConfigMapStrategy(),
    kinds.SECRET.resource: core.SecretStrategy(),
    kinds.SERVICE.resource: services.ServiceStrategy(),
    kinds.ENDPOINTS.resource: endpoints.EndpointsStrategy(),
    kinds.PERSISTENT_VOLUME_CLAIM.resource: storage.ClaimStrategy(),
    kinds.REPLICA_SET.resource: apps.ReplicaSetStrategy(),
    kinds.DEPLOYMENT.resource: apps.DeploymentStrategy(),
    kinds.HORIZONTAL_POD_AUTOSCALER.resource: scaling.AutoscalerStrategy(),
    "poddisruptionbudgets.policy": scaling.BudgetStrategy(),
    kinds.LEASE.resource: cluster.LeaseStrategy(),
    kinds.PRIORITY_CLASS.resource: cluster.PriorityClassStrategy(),
    kinds.DEVICE_CLASS.resource: resource.DeviceClassStrategy(),
    kinds.RESOURCE_SLICE.resource: resource.ResourceSliceStrategy(),
    kinds.RESOURCE_CLAIM.resource: resource.ResourceClaimStrategy(),
    kinds.RESOURCE_CLAIM_TEMPLATE.resource: resource.ResourceClaimTemplateStrategy(),
    "devicetaintrules.resource.k8s.io": resource.DeviceTaintRuleStrategy(),
    "roles.rbac.authorization.k8s.io": roles.RoleStrategy(namespaced=True),
    "rolebindings.rbac.authorization.k8s.io": roles.BindingStrategy(namespaced=True),
    "clusterroles.rbac.authorization.k8s.io": roles.RoleStrategy(namespaced=False),
    "clusterrolebindings.rbac.authorization.k8s.io": roles.BindingStrategy(namespaced=False),
}
