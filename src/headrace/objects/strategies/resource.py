"""The kinds of resource.k8s.io/v1: devices, and claims on them (pkg/registry/resource)."""

from typing import Any

from headrace.api.objects import Fields, Object
from headrace.api.resting import Resting
from headrace.objects.caller import Caller
from headrace.objects.strategies.admin_access import judge_admin_access
from headrace.objects.strategies.claim_rights import judge_claim_status
from headrace.objects.strategies.disabled_fields import drop_from_claim_spec, drop_from_slice_spec
from headrace.objects.strategy import Strategy, keep
from headrace.objects.validation import expressions
from headrace.objects.validation.claim_status import validate_claim_status
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.metadata import validate_annotations, validate_labels
from headrace.objects.validation.names import FIELD_IMMUTABLE
from headrace.objects.validation.resource import (
    selectors_in,
    selectors_of_claim,
    validate_claim_spec,
    validate_class_spec,
    validate_taint_rule_spec,
)
from headrace.objects.validation.resource_slices import validate_slice_spec
from headrace.store.rows import Rows


def default_claim_spec(spec: dict[str, Any]) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        wanted = [request["exactly"]] if "exactly" in request else request.get("firstAvailable") or []
        for each in wanted:
            each["allocationMode"] = each.get("allocationMode") or "ExactCount"
            if each["allocationMode"] == "ExactCount":
                each["count"] = each.get("count") or 1
            for toleration in each.get("tolerations") or ():
                toleration["operator"] = toleration.get("operator") or "Equal"


class ResourceClaimStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        default_claim_spec(obj.setdefault("spec", {}))

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        drop_from_claim_spec(obj["spec"])

    def prepare_status(self, obj: Object, old: Object) -> None:
        """Finalizers may change with the allocation: that is how a claim in use is kept."""
        keep(obj, old, "spec")

    def ahead(self, obj: Object) -> Resting[None]:
        return expressions.known.compile_ahead(selectors_of_claim(obj.get("spec") or {}))

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        validate_claim_spec(obj["spec"], "spec", errors)

    def validate_change(self, subresource: str, obj: Object, old: Object, errors: FieldErrors) -> None:
        if subresource:
            self.validate_status(obj, old, errors)
        else:
            _immutable_spec(obj, old, errors)

    def validate_status(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        validate_claim_status(obj, old, errors)

    def judge_surroundings(
        self, rows: Rows, subresource: str, obj: Object, old: Object | None, errors: FieldErrors
    ) -> None:
        judge_admin_access(rows, obj, old, obj["spec"], errors)

    def judge_caller(
        self, subresource: str, verb: str, obj: Object, old: Object, caller: Caller, errors: FieldErrors
    ) -> None:
        if subresource == "status":
            judge_claim_status(verb, obj, old, caller, errors)


class ResourceClaimTemplateStrategy(Strategy):
    def default(self, obj: Object) -> None:
        default_claim_spec(obj.setdefault("spec", {}).setdefault("spec", {}))

    def prepare_create(self, obj: Object) -> None:
        drop_from_claim_spec(obj["spec"]["spec"])

    def judge_surroundings(
        self, rows: Rows, subresource: str, obj: Object, old: Object | None, errors: FieldErrors
    ) -> None:
        judge_admin_access(rows, obj, old, obj["spec"]["spec"], errors)

    def ahead(self, obj: Object) -> Resting[None]:
        return expressions.known.compile_ahead(selectors_of_claim((obj.get("spec") or {}).get("spec") or {}))

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        meta: Fields = obj["spec"].get("metadata") or {}
        validate_labels(meta.get("labels") or {}, "spec.metadata.labels", errors)
        validate_annotations(meta.get("annotations") or {}, "spec.metadata.annotations", errors)
        validate_claim_spec(obj["spec"]["spec"], "spec.spec", errors)

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        _immutable_spec(obj, old, errors)


def _immutable_spec(obj: Object, old: Object, errors: FieldErrors) -> None:
    if obj["spec"] != old["spec"]:
        errors.invalid("spec", obj["spec"], FIELD_IMMUTABLE)


class DeviceClassStrategy(Strategy):
    counts_generations = True

    def ahead(self, obj: Object) -> Resting[None]:
        return expressions.known.compile_ahead(selectors_in(obj.get("spec") or {}))

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        validate_class_spec(obj.setdefault("spec", {}), errors)


class ResourceSliceStrategy(Strategy):
    counts_generations = True

    def prepare_create(self, obj: Object) -> None:
        drop_from_slice_spec(obj.get("spec") or {})

    def prepare_update(self, obj: Object, old: Object) -> None:
        drop_from_slice_spec(obj.get("spec") or {})

    def admit_new(self, rows: Rows, obj: Object) -> None:
        _stamp(obj, obj["metadata"]["creationTimestamp"])

    def admit_change(self, rows: Rows, obj: Object, old: Object, now: str) -> None:
        _stamp(obj, now)

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        validate_slice_spec(obj.setdefault("spec", {}), None, errors)

    def validate_change(self, subresource: str, obj: Object, old: Object, errors: FieldErrors) -> None:
        validate_slice_spec(obj.setdefault("spec", {}), old["spec"], errors)

    def selectable_fields(self) -> tuple[str, ...]:
        return ("spec.nodeName", "spec.driver")


def _stamp(resource_slice: Object, now: str) -> None:
    for device in (resource_slice.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", now)


class DeviceTaintRuleStrategy(Strategy):
    has_status = True
    may_be_replaced_unseen = False
    counts_generations = True

    def admit_new(self, rows: Rows, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("taint", {}).setdefault("timeAdded", obj["metadata"]["creationTimestamp"])

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        validate_taint_rule_spec(obj.setdefault("spec", {}), errors)
