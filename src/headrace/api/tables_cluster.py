"""The columns of what a cluster is made of: nodes, namespaces, configuration, services, events, leases, roles."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.objects import Object, metadata, name_of
from headrace.api.printers import AGE, NAME, Printer, TableColumn, age, since, wide

_ROLE_PREFIX = "node-role.kubernetes.io/"
_BALANCER_WIDTH = 16
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _namespace(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), (obj.get("status") or {}).get("phase", ""), age(obj, now)]


def _node(obj: Object, now: float) -> list[Any]:
    status: Mapping[str, Any] = obj.get("status") or {}
    info: Mapping[str, Any] = status.get("nodeInfo") or {}
    ready = [c.get("status") == "True" for c in status.get("conditions") or () if c.get("type") == "Ready"]
    words = ["Ready" if ready[-1] else "NotReady"] if ready else ["Unknown"]
    if (obj.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(obj),
        ",".join(words),
        ",".join(_roles(metadata(obj).get("labels") or {})) or "<none>",
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _roles(labels: Mapping[str, str]) -> list[str]:
    roles = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return sorted(roles - {""})


def _address(status: Mapping[str, Any], kind: str) -> str:
    return next((str(a.get("address")) for a in status.get("addresses") or () if a.get("type") == kind), "<none>")


def _config_map(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)]


def _secret(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or {}), age(obj, now)]


def _service_account(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), age(obj, now)]


def _service(obj: Object, now: float) -> list[Any]:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    addresses = spec.get("clusterIPs") or ["<none>"]
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or "<none>"
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items())) or "<none>"
    kind = spec.get("type", "")
    return [name_of(obj), kind, addresses[0], _external(obj, kind), ports, age(obj, now), selector]


def _port(port: Mapping[str, Any]) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


def _external(service: Object, kind: str) -> str:
    spec: Mapping[str, Any] = service.get("spec") or {}
    external: Sequence[str] = spec.get("externalIPs") or ()
    match kind:
        case "ClusterIP" | "NodePort":
            return ",".join(external) or "<none>"
        case "LoadBalancer":
            ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
            names = ",".join(sorted({str(entry.get("ip") or entry.get("hostname")) for entry in ingress}))
            if len(names) > _BALANCER_WIDTH:
                names = names[: _BALANCER_WIDTH - 3] + "..."
            return ",".join(filter(None, [names, *external])) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return "<unknown>"


def _endpoints(obj: Object, now: float) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or ():
        addresses = [str(address.get("ip")) for address in subset.get("addresses") or ()]
        ports = [port.get("port") for port in subset.get("ports") or ()]
        found += [_joined(ip, port) for port in ports for ip in addresses] if ports else addresses
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [name_of(obj), shown or "<none>", age(obj, now)]


def _joined(ip: str, port: Any) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _claim(obj: Object, now: float) -> list[Any]:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    status: Mapping[str, Any] = obj.get("status") or {}
    phase = "Terminating" if metadata(obj).get("deletionTimestamp") else status.get("phase", "")
    capacity = modes = ""
    if spec.get("volumeName"):
        capacity = str((status.get("capacity") or {}).get("storage", "0"))
        modes = ",".join(short for mode, short in _MODES.items() if mode in (status.get("accessModes") or ()))
    return [
        name_of(obj),
        phase,
        spec.get("volumeName", ""),
        capacity,
        modes,
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _event(obj: Object, now: float) -> list[Any]:
    """Of either group: events.k8s.io calls the same things by other names."""
    about: Mapping[str, Any] = obj.get("involvedObject") or obj.get("regarding") or {}
    source: Mapping[str, Any] = obj.get("source") or obj.get("deprecatedSource") or {}
    series: Mapping[str, Any] | None = obj.get("series")
    first_time = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last_time = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first_time
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if series:
        last_time, count = series.get("lastObservedTime"), series.get("count", 1)
    kind, name = str(about.get("kind", "")).lower(), about.get("name")
    origin = [
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController"),
        source.get("host") or obj.get("reportingInstance"),
    ]
    return [
        since(last_time, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        ", ".join(str(part) for part in origin if part),
        str(obj.get("message") or obj.get("note") or "").strip(),
        since(first_time, now),
        count,
        name_of(obj),
    ]


def _lease(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), (obj.get("spec") or {}).get("holderIdentity") or "", age(obj, now)]


def _priority_class(obj: Object, now: float) -> list[Any]:
    policy = obj.get("preemptionPolicy", "")
    return [name_of(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), policy]


def _role_binding(obj: Object, now: float) -> list[Any]:
    reference: Mapping[str, Any] = obj.get("roleRef") or {}
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        name = str(subject.get("name"))
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        named.setdefault(str(subject.get("kind")), []).append(name)
    people = [", ".join(named[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [name_of(obj), f"{reference.get('kind')}/{reference.get('name')}", age(obj, now), *people]


_BINDING = Printer(
    (NAME, TableColumn("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")), _role_binding
)
_EVENT = Printer(
    (
        TableColumn("Last Seen"),
        TableColumn("Type"),
        TableColumn("Reason"),
        TableColumn("Object"),
        wide("Subobject"),
        wide("Source"),
        TableColumn("Message"),
        wide("First Seen"),
        wide("Count"),
        TableColumn("Name", priority=1, format="name"),
    ),
    _event,
)

PRINTERS = {
    "namespaces": Printer((NAME, TableColumn("Status"), AGE), _namespace),
    "nodes": Printer(
        (
            NAME,
            TableColumn("Status"),
            TableColumn("Roles"),
            AGE,
            TableColumn("Version"),
            wide("Internal-IP"),
            wide("External-IP"),
            wide("OS-Image"),
            wide("Kernel-Version"),
            wide("Container-Runtime"),
        ),
        _node,
    ),
    "configmaps": Printer((NAME, TableColumn("Data"), AGE), _config_map),
    "secrets": Printer((NAME, TableColumn("Type"), TableColumn("Data"), AGE), _secret),
    "serviceaccounts": Printer((NAME, AGE), _service_account),
    "services": Printer(
        (
            NAME,
            TableColumn("Type"),
            TableColumn("Cluster-IP"),
            TableColumn("External-IP"),
            TableColumn("Port(s)"),
            AGE,
            wide("Selector"),
        ),
        _service,
    ),
    "endpoints": Printer((NAME, TableColumn("Endpoints"), AGE), _endpoints),
    "persistentvolumeclaims": Printer(
        (
            NAME,
            TableColumn("Status"),
            TableColumn("Volume"),
            TableColumn("Capacity"),
            TableColumn("Access Modes"),
            TableColumn("StorageClass"),
            TableColumn("VolumeAttributesClass"),
            AGE,
            wide("VolumeMode"),
        ),
        _claim,
    ),
    "events": _EVENT,
    "events.events.k8s.io": _EVENT,
    "leases.coordination.k8s.io": Printer((NAME, TableColumn("Holder"), AGE), _lease),
    "priorityclasses.scheduling.k8s.io": Printer(
        (
            NAME,
            TableColumn("Value", "integer"),
            TableColumn("Global-Default", "boolean"),
            AGE,
            TableColumn("PreemptionPolicy"),
        ),
        _priority_class,
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
}
