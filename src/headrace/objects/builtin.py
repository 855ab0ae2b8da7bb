"""The built-in kinds as Kubernetes' discovery tells of them: short names, categories, subresources."""

from headrace.api import kinds
from headrace.api.kinds import DEVICE_TAINT_RULE, Kind
from headrace.objects import events
from headrace.objects.registry import VERBS, Registry, ScalePaths, Served
from headrace.objects.strategies import STRATEGIES
from headrace.objects.strategies.events import EventStrategy
from headrace.objects.strategy import Strategy

EVENTS_EVENT = Kind("events.k8s.io", "v1", "Event", "events")
_RBAC = "rbac.authorization.k8s.io"
ROLE = Kind(_RBAC, "v1", "Role", "roles")
ROLE_BINDING = Kind(_RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Kind(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)

_ALL = ("all",)
_WITHOUT_COLLECTION = ("create", "delete", "get", "list", "patch", "update", "watch")


def _built_in(
    kind: Kind,
    short_names: tuple[str, ...] = (),
    subresources: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
) -> Served:
    return Served(
        kind,
        kind.kind.lower(),
        short_names,
        categories,
        verbs=_WITHOUT_COLLECTION if kind is kinds.NAMESPACE else VERBS,
        subresources=subresources,
        list_kind=f"{kind.kind}List",
        scale=ScalePaths() if "scale" in subresources else None,
        strategy=STRATEGIES.get(kind.resource, Strategy()),
    )


def built_in_kinds() -> list[Served]:
    return [
        _built_in(kinds.NAMESPACE, ("ns",), ("finalize", "status")),
        _built_in(kinds.NODE, ("no",), ("status",)),
        _built_in(kinds.POD, ("po",), ("binding", "eviction", "log", "resize", "status"), _ALL),
        _built_in(kinds.EVENT, ("ev",)),
        _built_in(kinds.CONFIG_MAP, ("cm",)),
        _built_in(kinds.SECRET),
        _built_in(kinds.SERVICE_ACCOUNT, ("sa",)),
        _built_in(kinds.SERVICE, ("svc",), ("status",), _ALL),
        _built_in(kinds.ENDPOINTS, ("ep",)),
        _built_in(kinds.PERSISTENT_VOLUME_CLAIM, ("pvc",), ("status",)),
        _built_in(kinds.DEPLOYMENT, ("deploy",), ("scale", "status"), _ALL),
        _built_in(kinds.REPLICA_SET, ("rs",), ("scale", "status"), _ALL),
        _built_in(kinds.HORIZONTAL_POD_AUTOSCALER, ("hpa",), ("status",), _ALL),
        _built_in(kinds.LEASE),
        _built_in(kinds.PRIORITY_CLASS, ("pc",)),
        _built_in(kinds.POD_DISRUPTION_BUDGET, ("pdb",), ("status",)),
        _built_in(kinds.DEVICE_CLASS),
        _built_in(kinds.RESOURCE_SLICE),
        _built_in(kinds.RESOURCE_CLAIM, (), ("status",)),
        _built_in(kinds.RESOURCE_CLAIM_TEMPLATE),
        _built_in(DEVICE_TAINT_RULE, (), ("status",)),
        _built_in(kinds.CUSTOM_RESOURCE_DEFINITION, ("crd", "crds"), ("status",), ("api-extensions",)),
        _built_in(ROLE),
        _built_in(ROLE_BINDING),
        _built_in(CLUSTER_ROLE),
        _built_in(CLUSTER_ROLE_BINDING),
        Served(
            EVENTS_EVENT,
            "event",
            ("ev",),
            list_kind="EventList",
            at_rest=kinds.EVENT,
            strategy=EventStrategy(strict=True),
            read=events.to_events_v1,
            write=events.to_core_v1,
        ),
    ]


def built_in_registry() -> Registry:
    registry = Registry()
    registry.add(*built_in_kinds())
    return registry
