"""Namespaces, Nodes, ConfigMaps, Secrets and the other kinds of v1, but for Pods."""

from headrace.api.objects import Object
from headrace.objects.strategy import Strategy, keep
from headrace.objects.validation import names


class NamespaceStrategy(Strategy):
    has_status = True
    ends_by_phase = True

    def name_errors(self, name: str) -> list[str]:
        return names.dns_label(name)

    def default(self, obj: Object) -> None:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]

    def prepare_create(self, obj: Object) -> None:
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        obj["spec"] = {"finalizers": finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, obj: Object, old: Object) -> None:
        keep(obj, old, "status")
        keep(obj.setdefault("spec", {}), old.get("spec", {}), "finalizers")

    def prepare_subresource(self, subresource: str, obj: Object, old: Object) -> None:
        if subresource == "finalize":
            keep(obj, old, "status")
        else:
            keep(obj, old, "spec")

    def mark_ending(self, obj: Object, now: str) -> bool:
        if "deletionTimestamp" not in obj["metadata"]:
            obj["metadata"]["deletionTimestamp"] = now
            obj.setdefault("status", {})["phase"] = "Terminating"
            return True
        return bool(obj.get("spec", {}).get("finalizers"))

    def waits_to_go(self, obj: Object) -> bool:
        return bool(obj.get("spec", {}).get("finalizers"))

    def selectable_fields(self) -> tuple[str, ...]:
        return ("status.phase",)
