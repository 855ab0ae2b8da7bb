"""Namespaces, Nodes, ConfigMaps, Secrets and the other kinds of v1, but for Pods."""

import base64
import ipaddress

from headrace.api.objects import Fields, Object
from headrace.objects.strategy import Strategy, keep
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.pods import validate_effect
from headrace.objects.validation.quantities import validate_amount

SECRET_BYTES = 1024 * 1024
OPAQUE = "Opaque"

# What a Secret of each type must have; of basic-auth, one of the two.
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_FROZEN = "field is immutable when `immutable` is set"


class NamespaceStrategy(Strategy):
    has_status = True
    ends_by_phase = True

    def name_errors(self, name: str) -> list[str]:
        return names.dns_label(name)

    def default(self, obj: Object) -> None:
        if obj["metadata"].get("name"):
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]

    def prepare_create(self, obj: Object) -> None:
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        obj["spec"] = {"finalizers": finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, obj: Object, old: Object) -> None:
        keep(obj, old, "status")
        keep(obj.setdefault("spec", {}), old.get("spec", {}), "finalizers")

    def prepare_subresource(self, subresource: str, obj: Object, old: Object) -> None:
        keep(obj, old, "status" if subresource == "finalize" else "spec")

    def mark_ending(self, obj: Object, now: str) -> bool:
        if "deletionTimestamp" not in obj["metadata"]:
            obj["metadata"]["deletionTimestamp"] = now
            obj.setdefault("status", {})["phase"] = "Terminating"
            return True
        return self.waits_to_go(obj)

    def waits_to_go(self, obj: Object) -> bool:
        return bool(obj.get("spec", {}).get("finalizers"))

    def selectable_fields(self) -> tuple[str, ...]:
        return ("status.phase",)


class NodeStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        """podCIDR and the first of podCIDRs are one thing under two names; the single one wins."""
        spec = obj.get("spec") or {}
        one, several = spec.get("podCIDR"), spec.get("podCIDRs") or []
        if one and several[:1] != [one]:
            spec["podCIDRs"] = [one]
        elif several and not one:
            spec["podCIDR"] = several[0]

    def prepare_create(self, obj: Object) -> None:
        """A kubelet creates its Node with the status it has found."""
        _default_allocatable(obj)

    def prepare_status(self, obj: Object, old: Object) -> None:
        """The status and, as kubelets need it, labels and annotations."""
        keep(obj, old, "spec")
        _default_allocatable(obj)

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        seen: set[tuple[str, str]] = set()
        for at, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
            path, key, effect = f"metadata.taints[{at}]", taint.get("key", ""), taint.get("effect", "")
            for message in names.qualified_name_errors(key):
                errors.invalid(f"{path}.key", key, message)
            wrong = names.label_value_errors(taint.get("value", ""))
            if wrong:
                errors.invalid(f"{path}.value", taint["value"], ";".join(wrong))
            validate_effect(effect, f"{path}.effect", errors)
            if (key, effect) in seen:
                errors.duplicate(path, taint, "taints must be unique by key and effect pair")
            seen.add((key, effect))
        _ranges((obj.get("spec") or {}).get("podCIDRs") or [], errors)
        for part in ("capacity", "allocatable"):
            for name, text in ((obj.get("status") or {}).get(part) or {}).items():
                validate_amount(name, text, f"status.{part}.{name}", errors)

    def validate_status(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        status = obj.get("status") or {}
        for part in ("capacity", "allocatable"):
            for name, text in (status.get(part) or {}).items():
                validate_amount(name, text, f"status.{part}.{name}", errors)
        addresses = status.get("addresses") or []
        for at, address in enumerate(addresses):
            if address in addresses[:at]:
                errors.duplicate(f"status.addresses[{at}]", address)

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        ranges, given = ((each.get("spec") or {}).get("podCIDRs") or [] for each in (old, obj))
        if ranges and given != ranges:
            errors.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
        was, now = ((each.get("spec") or {}).get("providerID", "") for each in (old, obj))
        if was and now != was:
            errors.invalid(
                "spec.providerID",
                None,
                "field cannot be modified once set" if now else "field cannot be cleared once set",
            )

    def selectable_fields(self) -> tuple[str, ...]:
        return ("spec.unschedulable",)


def _ranges(given: list[str], errors: FieldErrors) -> None:
    families = []
    for at, text in enumerate(given):
        try:
            families.append(ipaddress.ip_network(text, strict=False).version)
        except ValueError:
            words = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            errors.invalid(f"spec.podCIDRs[{at}]", text, words)
    if len(given) > 2 or len(set(families)) < len(families):
        errors.invalid("spec.podCIDRs", given, "may specify no more than one CIDR for each IP family")


def _default_allocatable(node: Object) -> None:
    status = node.get("status") or {}
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


class ConfigMapStrategy(Strategy):
    def validate(self, obj: Object, errors: FieldErrors) -> None:
        size = 0
        for part in ("data", "binaryData"):
            for key, value in (obj.get(part) or {}).items():
                size += len(value.encode()) if part == "data" else _decoded_size(value)
                for message in names.config_map_key(key):
                    errors.invalid(f"{part}[{key}]", key, message)
        for key in (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys():
            errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        if size > SECRET_BYTES:
            errors.too_long("", SECRET_BYTES)

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        _frozen(obj, old, ("data", "binaryData"), errors)


class SecretStrategy(Strategy):
    def default(self, obj: Object) -> None:
        obj["type"] = obj.get("type") or OPAQUE
        plain = obj.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        data = obj.get("data") or {}
        for key in data:
            for message in names.config_map_key(key):
                errors.invalid(f"data[{key}]", key, message)
        if sum(map(_decoded_size, data.values())) > SECRET_BYTES:
            errors.too_long("data", SECRET_BYTES)
        for key in _SECRET_KEYS.get(obj["type"], ()):
            if key not in data:
                errors.required(f"data[{key}]")
        if obj["type"] == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
            errors.required("data[username]")
            errors.required("data[password]")
        account = "kubernetes.io/service-account.name"
        annotated = (obj["metadata"].get("annotations") or {}).get(account)
        if obj["type"] == "kubernetes.io/service-account-token" and not annotated:
            errors.required(f"metadata.annotations[{account}]")

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        if obj["type"] != old.get("type"):
            errors.invalid("type", obj["type"], names.FIELD_IMMUTABLE)
        _frozen(obj, old, ("data",), errors)

    def selectable_fields(self) -> tuple[str, ...]:
        return ("type",)


def _decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _frozen(obj: Fields, old: Fields, parts: tuple[str, ...], errors: FieldErrors) -> None:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        errors.forbidden("immutable", _FROZEN)
    for part in parts:
        if obj.get(part) != old.get(part):
            errors.forbidden(part, _FROZEN)
