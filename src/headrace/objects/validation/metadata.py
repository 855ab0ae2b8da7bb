"""The rules of metadata, the same for every kind (apimachinery's api/validation/objectmeta.go)."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from headrace.api.objects import Fields
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors

ANNOTATION_BYTES = 256 * 1024
_KEPT_CHARACTERS = 128  # of a label, beyond which its verdict is not kept: what is refused may be long
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"

_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def validate(meta: Fields, namespaced: bool, name_errors: Callable[[str], list[str]], errors: FieldErrors) -> None:
    """Metadata of an object about to be created."""
    if prefix := meta.get("generateName"):
        _prefix(prefix, name_errors, errors)
    name = meta.get("name", "")
    if not name:
        errors.required("metadata.name", "name or generateName is required")
    else:
        for message in name_errors(name):
            errors.invalid("metadata.name", name, message)
    namespace = meta.get("namespace", "")
    if namespaced and not namespace:
        errors.required("metadata.namespace")
    elif namespaced:
        for message in names.dns_label(namespace):
            errors.invalid("metadata.namespace", namespace, message)
    elif namespace:
        errors.forbidden("metadata.namespace", "not allowed on this type")
    _always(meta, errors)
    if finalizers := meta.get("finalizers"):
        _finalizers(finalizers, errors)


def validate_update(meta: Fields, old: Fields, name_errors: Callable[[str], list[str]], errors: FieldErrors) -> None:
    """Metadata of an object about to be changed, beside what it is now."""
    if prefix := meta.get("generateName"):
        _prefix(prefix, name_errors, errors)
    if "deletionTimestamp" in old:
        extra = sorted(set(meta.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            listed = ", ".join(f'"{each}"' for each in extra)
            errors.forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}",
            )
    for part in _FIXED:
        if meta.get(part) != old.get(part):
            errors.invalid(f"metadata.{part}", meta.get(part, ""), names.FIELD_IMMUTABLE)
    _always(meta, errors)


def _prefix(prefix: str, name_errors: Callable[[str], list[str]], errors: FieldErrors) -> None:
    for message in name_errors(names.as_prefix(prefix)):
        errors.invalid("metadata.generateName", prefix, message)


def _always(meta: Fields, errors: FieldErrors) -> None:
    if labels := meta.get("labels"):
        validate_labels(labels, "metadata.labels", errors)
    if annotations := meta.get("annotations"):
        validate_annotations(annotations, "metadata.annotations", errors)
    if owners := meta.get("ownerReferences"):
        _owners(owners, errors)


def validate_labels(labels: Fields, path: str, errors: FieldErrors) -> None:
    for key, value in labels.items():
        if len(key) <= _KEPT_CHARACTERS and len(value) <= _KEPT_CHARACTERS and _is_label(key, value):
            continue
        for message in names.qualified_name_errors(key):
            errors.invalid(path, key, message)
        for message in names.label_value_errors(value):
            errors.invalid(path, value, message)


@lru_cache(maxsize=4096)
def _is_label(key: str, value: str) -> bool:
    """Kept, since the same few labels stand on most objects."""
    return not names.qualified_name_errors(key) and not names.label_value_errors(value)


def validate_annotations(annotations: Fields, path: str, errors: FieldErrors) -> None:
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        for message in names.qualified_name_errors(key.lower()):
            errors.invalid(path, key, message)
    if size > ANNOTATION_BYTES:
        errors.too_long(path, ANNOTATION_BYTES)


def _owners(owners: list[Any], errors: FieldErrors) -> None:
    controller = ""
    for at, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{at}]"
        version = owner.get("apiVersion", "")
        if version and (version.count("/") > 1 or version.endswith("/") or version.startswith("/")):
            errors.invalid(f"{path}.apiVersion", version, "must be <group>/<version> or <version>")
        for part in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(part):
                errors.required(f"{path}.{part}", "must not be empty")
        if (version, owner.get("kind")) == ("v1", "Event"):
            errors.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                errors.invalid(
                    "metadata.ownerReferences",
                    owners,
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}",
                )
            controller = controller or this


def validate_finalizers_of_built_in(finalizers: list[str], errors: FieldErrors) -> None:
    """Beyond the rules of every object: built-in kinds have few finalizers without a domain."""
    for at, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in ("kubernetes", ORPHAN, FOREGROUND):
            errors.invalid(
                f"metadata.finalizers[{at}]",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def _finalizers(finalizers: list[str], errors: FieldErrors) -> None:
    for finalizer in finalizers:
        for message in names.qualified_name_errors(finalizer):
            errors.invalid("metadata.finalizers", finalizer, message)
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        errors.invalid("metadata.finalizers", finalizers, f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set")
