"""Services, stored only: no addresses and no node ports are given out (pkg/apis/core/validation.validateService)."""

from typing import Any

from headrace.api.objects import Object
from headrace.objects.strategy import Strategy
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.metadata import validate_labels
from headrace.objects.validation.pod_surroundings import ip_errors
from headrace.objects.validation.probes import validate_port

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
PROTOCOLS = ("SCTP", "TCP", "UDP")
AFFINITY_SECONDS, LONGEST_AFFINITY_SECONDS = 10800, 86400
_OPEN = ("LoadBalancer", "NodePort")


class ServiceStrategy(Strategy):
    has_status = True

    def name_errors(self, name: str) -> list[str]:
        return names.dns_label(name)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
        spec["type"] = spec.get("type") or "ClusterIP"
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        if spec["sessionAffinity"] == "ClientIP":
            address = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            address.setdefault("timeoutSeconds", AFFINITY_SECONDS)
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] in _OPEN:
            spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        for port in spec.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"
            port["targetPort"] = port.get("targetPort") or port.get("port", 0)

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, obj: Object, old: Object) -> None:
        """An address that an update leaves out stays."""
        super().prepare_update(obj, old)
        spec, was = obj["spec"], old["spec"]
        if "ExternalName" not in (spec["type"], was.get("type")) and not spec.get("clusterIP") and was.get("clusterIP"):
            spec["clusterIP"] = was["clusterIP"]

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        spec = obj["spec"]
        ports = spec.get("ports") or []
        if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
            errors.required("spec.ports")
        if spec["type"] == "ExternalName":
            _external_name(spec.get("externalName", ""), errors)
        _ports(ports, errors)
        validate_labels(spec.get("selector") or {}, "spec.selector", errors)
        _affinity(spec, errors)
        for at, address in enumerate(spec.get("externalIPs") or ()):
            for message in ip_errors(address):
                errors.invalid(f"spec.externalIPs[{at}]", address, message)
        if spec["type"] not in TYPES:
            errors.not_supported("spec.type", spec["type"], TYPES)
        _traffic(spec, ports, errors)
        own = spec.get("clusterIP", "")
        for message in ip_errors(own) if own not in ("", "None") else ():
            errors.causes.clear()  # Kubernetes takes the address before it looks at anything else
            errors.invalid("spec.clusterIPs[0]", own, message)

    def selectable_fields(self) -> tuple[str, ...]:
        return ("spec.clusterIP", "spec.type")


def _external_name(name: str, errors: FieldErrors) -> None:
    bare = name.removesuffix(".")
    if not bare:
        errors.required("spec.externalName")
    for message in names.dns_subdomain(bare) if bare else ():
        errors.invalid("spec.externalName", bare, message)


def _ports(ports: list[Any], errors: FieldErrors) -> None:
    seen: set[str] = set()
    for at, port in enumerate(ports):
        _port(port, f"spec.ports[{at}]", len(ports) > 1, seen, errors)
    taken: set[tuple[str, int]] = set()
    for at, port in enumerate(ports):
        key = (port["protocol"], port.get("port", 0))
        if key in taken:
            errors.duplicate(f"spec.ports[{at}]", port)
        taken.add(key)


def _port(port: dict[str, Any], path: str, named: bool, seen: set[str], errors: FieldErrors) -> None:
    name = port.get("name", "")
    if not name and named:
        errors.required(f"{path}.name")
    elif name:
        for message in names.dns_label(name):
            errors.invalid(f"{path}.name", name, message)
        if name in seen:
            errors.duplicate(f"{path}.name", name)
        seen.add(name)
    for message in names.port_number(port.get("port", 0)):
        errors.invalid(f"{path}.port", port.get("port", 0), message)
    if port["protocol"] not in PROTOCOLS:
        errors.not_supported(f"{path}.protocol", port["protocol"], PROTOCOLS)
    validate_port(port["targetPort"], f"{path}.targetPort", errors)
    if "appProtocol" in port:
        for message in names.qualified_name_errors(port["appProtocol"]):
            errors.invalid(f"{path}.appProtocol", port["appProtocol"], message)


def _affinity(spec: dict[str, Any], errors: FieldErrors) -> None:
    kind = spec["sessionAffinity"]
    if kind not in ("ClientIP", "None"):
        errors.not_supported("spec.sessionAffinity", kind, ("ClientIP", "None"))
    if kind == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= LONGEST_AFFINITY_SECONDS:
            words = f"must be greater than 0 and less than {LONGEST_AFFINITY_SECONDS}"
            errors.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, words)


def _traffic(spec: dict[str, Any], ports: list[Any], errors: FieldErrors) -> None:
    if spec["type"] == "ClusterIP":
        for at, port in enumerate(ports):
            if port.get("nodePort"):
                errors.forbidden(f"spec.ports[{at}].nodePort", "may not be used when `type` is 'ClusterIP'")
    if "allocateLoadBalancerNodePorts" in spec and spec["type"] != "LoadBalancer":
        words = "may only be used when `type` is 'LoadBalancer'"
        errors.forbidden("spec.allocateLoadBalancerNodePorts", words)
    outside = spec.get("externalTrafficPolicy", "")
    if spec["type"] in _OPEN:
        if outside not in ("Cluster", "Local"):
            errors.not_supported("spec.externalTrafficPolicy", outside, ("Cluster", "Local"))
    elif outside and not spec.get("externalIPs"):
        words = "may only be set for externally-accessible services"
        errors.invalid("spec.externalTrafficPolicy", outside, words)
    inside = spec.get("internalTrafficPolicy", "Cluster")
    if inside not in ("Cluster", "Local"):
        errors.not_supported("spec.internalTrafficPolicy", inside, ("Cluster", "Local"))
