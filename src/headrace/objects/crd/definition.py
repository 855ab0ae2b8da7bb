"""CustomResourceDefinitions: their defaults, rules and conditions (apiextensions-apiserver)."""

from collections.abc import Callable
from typing import Any

from headrace.api import kinds
from headrace.api.objects import Object
from headrace.api.resting import Resting
from headrace.objects.bodies import decode
from headrace.objects.conditions import set_condition
from headrace.objects.crd import defaults, protected, structural
from headrace.objects.strategy import Strategy
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.store.rows import Rows

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


class DefinitionStrategy(Strategy):
    has_status = True
    may_be_replaced_unseen = False
    counts_generations = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        given = spec.setdefault("names", {})
        given["singular"] = given.get("singular") or given.get("kind", "").lower()
        if given.get("kind"):
            given["listKind"] = given.get("listKind") or f"{given['kind']}List"
        spec.setdefault("conversion", {"strategy": "None"})

    def admit_new(self, rows: Rows, obj: Object) -> None:
        """A definition is served from the write that creates it, so its conditions are there at once."""
        obj["status"] = {"storedVersions": [storage_version(obj)]}
        _accept(rows, obj, obj["metadata"]["creationTimestamp"])

    def admit_change(self, rows: Rows, obj: Object, old: Object, now: str) -> None:
        status = obj.setdefault("status", {})
        stored, current = status.get("storedVersions") or [], storage_version(obj)
        has_one = any(each.get("storage") for each in obj["spec"].get("versions") or ())
        status["storedVersions"] = [*stored, current] if has_one and current not in stored else stored
        _accept(rows, obj, now)

    def mark_deleting(self, obj: Object, now: str) -> None:
        """Its objects go first: the finalizer holds it until then."""
        finalizers = obj["metadata"].get("finalizers") or []
        if CLEANUP not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, CLEANUP]
        condition = {
            "type": "Terminating",
            "status": "True",
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }
        set_condition(obj.setdefault("status", {}), condition, now)

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        spec, given = obj["spec"], obj["spec"]["names"]
        wanted = f"{given.get('plural', '')}.{spec.get('group', '')}"
        if obj["metadata"].get("name", "") != wanted:
            errors.invalid("metadata.name", obj["metadata"].get("name", ""), 'must be spec.names.plural+"."+spec.group')

    def validate_change(self, subresource: str, obj: Object, old: Object, errors: FieldErrors) -> None:
        """A name cannot change, and what it is made of is immutable too: so it is not judged again."""

    def judging(self, subresource: str, obj: Object, old: Object | None, errors: FieldErrors) -> Resting[None] | None:
        return None if subresource else self._judged(obj, old, errors)

    def _judged(self, obj: Object, old: Object | None, errors: FieldErrors) -> Resting[None]:
        spec, given = obj["spec"], obj["spec"]["names"]
        _group(spec.get("group", ""), errors)
        scope = spec.get("scope", "")
        if not scope:
            errors.required("spec.scope")
        elif scope not in ("Cluster", "Namespaced"):
            errors.not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
        versions = spec.get("versions") or []
        _versions(versions, errors)
        for path, version in _placed(versions):
            yield from _version(path, version, errors)
        _names(given, errors)
        _stored((obj.get("status") or {}).get("storedVersions") or [], versions, errors)
        if spec["conversion"].get("strategy") != "None":
            errors.not_supported("spec.conversion.strategy", spec["conversion"].get("strategy", ""), ("None",))
        protected.check(obj, old, errors)
        if old is not None:
            self.validate_update(obj, old, errors)

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        for path, now, was in (
            ("spec.group", obj["spec"].get("group"), old["spec"].get("group")),
            ("spec.scope", obj["spec"].get("scope"), old["spec"].get("scope")),
            ("spec.names.kind", obj["spec"]["names"].get("kind"), old["spec"]["names"].get("kind")),
            ("spec.names.plural", obj["spec"]["names"].get("plural"), old["spec"]["names"].get("plural")),
        ):
            if now != was:
                errors.invalid(path, now, names.FIELD_IMMUTABLE)


def _accept(rows: Rows, obj: Object, now: str) -> None:
    status = obj["status"]
    taken = _conflict(rows, obj)
    if taken is None:
        status["acceptedNames"] = obj["spec"]["names"]
    said = (
        ("NamesAccepted", *(taken or ("NoConflicts", "no conflicts found"))),
        ("Established", "NotAccepted", "not all names are accepted")
        if taken
        else ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    for kind, reason, message in said:
        state = "False" if taken else "True"
        set_condition(status, {"type": kind, "status": state, "reason": reason, "message": message}, now)


def is_established(obj: Object) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)


def _conflict(rows: Rows, obj: Object) -> tuple[str, str] | None:
    """Reason and message, if another definition of the group already has one of the names."""
    for row in rows.page(kinds.CUSTOM_RESOURCE_DEFINITION.resource).rows:
        other = decode(row.body)
        same_group = other["spec"].get("group") == obj["spec"].get("group")
        if same_group and other["metadata"]["name"] != obj["metadata"].get("name"):
            found = _taken(obj["spec"]["names"], (other.get("status") or {}).get("acceptedNames") or {})
            if found is not None:
                return found
    return None


def _taken(wanted: dict[str, Any], has: dict[str, Any]) -> tuple[str, str] | None:
    taken = {has.get("plural"), has.get("singular"), *(has.get("shortNames") or ())}
    kinds_taken = {has.get("kind"), has.get("listKind")}
    for part, given, others in (
        ("Singular", [wanted.get("singular")], taken),
        ("ShortNames", wanted.get("shortNames") or [], taken),
        ("Kind", [wanted.get("kind")], kinds_taken),
        ("ListKind", [wanted.get("listKind")], kinds_taken),
    ):
        for name in given:
            if name in others:
                return f"{part}Conflict", f'"{name}" is already in use'
    return None


def storage_version(obj: Object) -> str:
    return next((each.get("name", "") for each in obj["spec"].get("versions") or () if each.get("storage")), "")


def _group(group: str, errors: FieldErrors) -> None:
    if not group:
        errors.required("spec.group")
    elif names.dns_subdomain(group):
        errors.invalid("spec.group", group, ",".join(names.dns_subdomain(group)))
    elif "." not in group:
        errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _versions(versions: list[Any], errors: FieldErrors) -> None:
    for at, version in enumerate(versions):
        path, name = f"spec.versions[{at}]", version.get("name", "")
        if names.dns_1035_label(name):
            errors.invalid(f"{path}.name", name, ",".join(names.dns_1035_label(name)))
            if at == 0 and name:
                errors.invalid("spec.version", name, ",".join(names.dns_1035_label(name)))
    if len({each.get("name") for each in versions}) != len(versions):
        errors.invalid("spec.versions", versions, "must contain unique version names")
    if sum(bool(each.get("storage")) for each in versions) != 1:
        errors.invalid("spec.versions", versions, "must have exactly one version marked as storage version")


def _placed(versions: list[Any]) -> list[tuple[Callable[[str], str], dict[str, Any]]]:
    """Each version with the paths of its parts: what a single version says is said of all, as Kubernetes has it."""
    if len(versions) == 1:
        return [(lambda part: "spec.validation" if part == "schema" else f"spec.{part}", versions[0])]

    def of(at: int) -> Callable[[str], str]:
        return lambda part: f"spec.versions[{at}].{part}"

    return [(of(at), version) for at, version in enumerate(versions)]


def _version(path: Callable[[str], str], version: dict[str, Any], errors: FieldErrors) -> Resting[None]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    here = f"{path('schema')}.openAPIV3Schema"
    if schema is None:
        errors.required("spec.versions[0].schema.openAPIV3Schema")
    else:
        found = errors.count
        structural.check(schema, here, errors)
        if errors.count == found:
            defaults.check(schema, here, errors)
        if errors.count == found and structural.has_rules(schema):
            from headrace.objects.crd import rules  # with CEL, which a start does without

            yield from rules.check(schema, here, errors)
    _subresources(version.get("subresources") or {}, path("subresources"), errors)
    for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
        _column(column, f"{path('additionalPrinterColumns')}[{number}]", errors)


def _stored(stored: list[str], versions: list[Any], errors: FieldErrors) -> None:
    path = "status.storedVersions"
    if not stored or (stored == [""] and not any(version.get("storage") for version in versions)):
        errors.invalid(path, stored, "must have at least one stored version")
        return
    left = {version: at for at, version in enumerate(stored)}
    for version in versions:
        name = version.get("name", "")
        if version.get("storage") and name not in left:
            errors.invalid(path, stored, f"must have the storage version {name}")
        left.pop(name, None)
    for name, at in left.items():
        errors.invalid(
            f"{path}[{at}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
            "status.storedVersions",
        )


def _subresources(subresources: dict[str, Any], path: str, errors: FieldErrors) -> None:
    scale = subresources.get("scale")
    if scale is None:
        return
    for name, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(name, "")
        if not value:
            errors.required(f"{path}.scale.{name}")
        elif not value.startswith(root):
            errors.invalid(f"{path}.scale.{name}", value, f"should be a json path under {root[:-1]}")
    selector = scale.get("labelSelectorPath", "")
    if selector and not selector.startswith((".spec.", ".status.")):
        errors.invalid(
            f"{path}.scale.labelSelectorPath", selector, "should be a json path under either .spec or .status"
        )


def _column(column: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not column.get("name"):
        errors.required(f"{path}.name")
    kind = column.get("type", "")
    if not kind:
        errors.required(f"{path}.type", f"must be one of {','.join(COLUMN_TYPES)}")
    elif kind not in COLUMN_TYPES:
        errors.invalid(f"{path}.type", kind, f"must be one of {','.join(COLUMN_TYPES)}")
    if not column.get("jsonPath"):
        errors.required(f"{path}.JSONPath")
    elif not column["jsonPath"].startswith("."):
        errors.invalid(f"{path}.JSONPath", column["jsonPath"], "must be a simple json path starting with .")


def _names(given: dict[str, Any], errors: FieldErrors) -> None:
    for part in ("plural", "singular", "kind", "listKind"):
        value = given.get(part, "")
        wrong = names.dns_1035_label(value.lower() if part in ("kind", "listKind") else value)
        if not value:
            errors.required(f"spec.names.{part}")
        elif wrong and part in ("kind", "listKind"):
            words = "may have mixed case, but should otherwise match: "
            errors.invalid(f"spec.names.{part}", value, words + ",".join(wrong))
        elif wrong:
            errors.invalid(f"spec.names.{part}", value, ",".join(wrong))
    for part in ("shortNames", "categories"):
        for at, value in enumerate(given.get(part) or ()):
            if names.dns_1035_label(value):
                errors.invalid(f"spec.names.{part}[{at}]", value, ",".join(names.dns_1035_label(value)))
    if given.get("kind") and given["kind"] == given.get("listKind"):
        errors.invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")
