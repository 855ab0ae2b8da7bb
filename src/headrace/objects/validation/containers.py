"""The rules of a Pod's containers (pkg/apis/core/validation.validateContainers)."""

from typing import Any

from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.mounts import validate_mounts
from headrace.objects.validation.pod_surroundings import validate_container_security
from headrace.objects.validation.probes import validate_probes
from headrace.objects.validation.quantities import validate_requirements
from headrace.objects.validation.references import (
    VARIABLE_PATHS,
    validate_field_reference,
    validate_resource_reference,
)

_PROTOCOLS = ("SCTP", "TCP", "UDP")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
_NOT_FOR_INIT = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def validate_containers(
    spec: dict[str, Any], volumes: dict[str, Any], claims: set[str], path: str, errors: FieldErrors, *, is_pod: bool
) -> None:
    containers = spec.get("containers") or []
    if not containers:
        errors.required(f"{path}.containers")
    seen: set[str] = set()
    ports: set[str] = set()
    for at, container in enumerate(containers):
        here = f"{path}.containers[{at}]"
        _container(container, spec, volumes, claims, here, errors, is_pod=is_pod)
        name = container.get("name", "")
        if name in seen:
            errors.duplicate(f"{here}.name", name)
        seen.add(name)
        validate_probes(container, here, errors)
        _host_ports(container, ports, here, errors)


def validate_init_containers(
    spec: dict[str, Any], volumes: dict[str, Any], claims: set[str], path: str, errors: FieldErrors, *, is_pod: bool
) -> None:
    seen = {container.get("name", "") for container in spec.get("containers") or ()}
    for at, container in enumerate(spec.get("initContainers") or ()):
        here = f"{path}.initContainers[{at}]"
        _container(container, spec, volumes, claims, here, errors, is_pod=is_pod)
        name = container.get("name", "")
        if name in seen:
            errors.duplicate(f"{here}.name", name)
        elif name:
            seen.add(name)
        _host_ports(container, set(), here, errors)
        policy = container.get("restartPolicy")
        if policy is not None and policy not in RESTART_POLICIES:
            errors.not_supported(f"{here}.restartPolicy", policy, RESTART_POLICIES)
        if policy == "Always":
            validate_probes(container, here, errors)
            continue
        for part in _NOT_FOR_INIT:
            if part in container:
                errors.forbidden(f"{here}.{part}", "may not be set for init containers without restartPolicy=Always")
        for number, resizing in enumerate(container.get("resizePolicy") or ()):
            if resizing.get("restartPolicy") == "RestartContainer":
                path_there = f"{here}.resizePolicy[{number}].restartPolicy"
                detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                errors.invalid(path_there, "RestartContainer", detail)


def _container(
    container: dict[str, Any],
    spec: dict[str, Any],
    volumes: dict[str, Any],
    claims: set[str],
    path: str,
    errors: FieldErrors,
    *,
    is_pod: bool,
) -> None:
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        errors.required(f"{path}.name")
    else:
        for message in names.dns_label(name):
            errors.invalid(f"{path}.name", name, message)
    if not image:
        errors.required(f"{path}.image")
    elif is_pod and image != image.strip():
        errors.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    _choice(container, "terminationMessagePolicy", ("File", "FallbackToLogsOnError"), path, errors)
    _ports(container.get("ports") or [], f"{path}.ports", errors)
    _env(container.get("env") or [], f"{path}.env", errors)
    _env_from(container.get("envFrom") or [], f"{path}.envFrom", errors)
    validate_mounts(container, volumes, path, errors)
    _choice(container, "imagePullPolicy", ("Always", "IfNotPresent", "Never"), path, errors)
    validate_requirements(container.get("resources") or {}, claims, f"{path}.resources", errors)
    _resize_policy(container.get("resizePolicy") or [], spec, f"{path}.resizePolicy", errors)
    validate_container_security(container.get("securityContext") or {}, f"{path}.securityContext", errors)


def _choice(container: dict[str, Any], name: str, allowed: tuple[str, ...], path: str, errors: FieldErrors) -> None:
    value = container.get(name, "")
    if not value:
        errors.required(f"{path}.{name}")
    elif value not in allowed:
        errors.not_supported(f"{path}.{name}", value, allowed)


def _ports(ports: list[Any], path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for at, port in enumerate(ports):
        here, name = f"{path}[{at}]", port.get("name", "")
        wrong = names.port_name(name) if name else []
        for message in wrong:
            errors.invalid(f"{here}.name", name, message)
        if name and not wrong and name in seen:
            errors.duplicate(f"{here}.name", name)
        seen.add(name)
        if not port.get("containerPort"):
            errors.required(f"{here}.containerPort")
        for part in ("containerPort", "hostPort"):
            if port.get(part):
                for message in names.port_number(port[part]):
                    errors.invalid(f"{here}.{part}", port[part], message)
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            errors.not_supported(f"{here}.protocol", port["protocol"], _PROTOCOLS)


def _host_ports(container: dict[str, Any], taken: set[str], path: str, errors: FieldErrors) -> None:
    for at, port in enumerate(container.get("ports") or ()):
        if port.get("hostPort"):
            text = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if text in taken:
                errors.duplicate(f"{path}.ports[{at}].hostPort", text)
            taken.add(text)


def _env(variables: list[Any], path: str, errors: FieldErrors) -> None:
    for at, variable in enumerate(variables):
        here, name = f"{path}[{at}]", variable.get("name", "")
        if not name:
            errors.required(f"{here}.name")
        else:
            for message in names.env_name(name):
                errors.invalid(f"{here}.name", name, message)
        if "valueFrom" in variable:
            _env_source(variable, f"{here}.valueFrom", errors)


def _env_source(variable: dict[str, Any], path: str, errors: FieldErrors) -> None:
    source = variable["valueFrom"]
    given = [part for part in _SOURCES if part in source]
    if "fieldRef" in source:
        validate_field_reference(source["fieldRef"], VARIABLE_PATHS, f"{path}.fieldRef", errors)
    if "resourceFieldRef" in source:
        here = f"{path}.resourceFieldRef"
        validate_resource_reference(source["resourceFieldRef"], here, errors, in_volume=False)
    for part in ("configMapKeyRef", "secretKeyRef"):
        if part in source:
            _key_reference(source[part], f"{path}.{part}", errors)
    if not given:
        errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        )
    elif variable.get("value"):
        errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        errors.invalid(path, "", "may not have more than one field specified at a time")


def _key_reference(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    name, key = source.get("name", ""), source.get("key", "")
    for message in names.dns_subdomain(name):
        errors.invalid(f"{path}.name", name, message)
    if not key:
        errors.required(f"{path}.key")
    else:
        for message in names.config_map_key(key):
            errors.invalid(f"{path}.key", key, message)


def _env_from(sources: list[Any], path: str, errors: FieldErrors) -> None:
    for at, source in enumerate(sources):
        here = f"{path}[{at}]"
        if source.get("prefix"):
            for message in names.env_name(source["prefix"]):
                errors.invalid(f"{here}.prefix", source["prefix"], message)
        given = [part for part in ("configMapRef", "secretRef") if part in source]
        for part in given:
            name = source[part].get("name", "")
            if not name:
                errors.required(f"{here}.{part}.name")
            else:
                for message in names.dns_subdomain(names.as_prefix(name)):
                    errors.invalid(f"{here}.{part}.name", name, message)
        if not given:
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            errors.invalid(path, "", "may not have more than one field specified at a time")


def _resize_policy(policies: list[Any], spec: dict[str, Any], path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for at, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.duplicate(f"{path}[{at}]", resource)
        seen.add(resource)
        if not resource or not restart:
            errors.required(path)
        if resource and resource not in ("cpu", "memory"):
            errors.not_supported(path, resource, ("cpu", "memory"))
        if restart and restart not in ("NotRequired", "RestartContainer"):
            errors.not_supported(path, restart, ("NotRequired", "RestartContainer"))
        if spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            errors.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
