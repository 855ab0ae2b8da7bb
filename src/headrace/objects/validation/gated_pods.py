"""What may change of where a Pod may be while it has scheduling gates: it may only be narrowed (ValidatePodUpdate)."""

from typing import Any

from headrace.objects.validation.errors import FieldErrors

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PATH = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def validate_narrowing(spec: dict[str, Any], was: dict[str, Any], errors: FieldErrors) -> None:
    """Judges selector and node affinity, and puts them back in `spec`, so that nothing else complains of them."""
    now, before = spec.get("nodeSelector") or {}, was.get("nodeSelector") or {}
    if any(now.get(name) != value for name, value in before.items()):
        words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.invalid("spec.nodeSelector", now, words)
    _keep(spec, was, "nodeSelector")
    affinity, old = spec.get("affinity") or {}, was.get("affinity") or {}
    if affinity.get("nodeAffinity") != old.get("nodeAffinity"):
        _terms(_terms_of(affinity), _terms_of(old), errors)
        affinity = dict(affinity)
        _keep(affinity, old, "nodeAffinity")
        spec["affinity"] = affinity
        if not affinity and "affinity" not in was:
            spec.pop("affinity")


def _terms_of(affinity: dict[str, Any]) -> list[Any]:
    required = (affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return required.get("nodeSelectorTerms") or []


def _terms(now: list[Any], was: list[Any], errors: FieldErrors) -> None:
    if not was:
        return
    if len(now) != len(was):
        errors.invalid(_PATH, now, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for at, (term, before) in enumerate(zip(now, was, strict=True)):
        if not _only_adds(term, before):
            errors.invalid(f"{_PATH}[{at}]", term, "only additions are allowed (no mutations or deletions)")


def _only_adds(now: dict[str, Any], was: dict[str, Any]) -> bool:
    """An empty term matches nothing, so nothing may be added to it either."""
    parts = ("matchExpressions", "matchFields")
    if not any(was.get(part) for part in parts) and any(now.get(part) for part in parts):
        return False
    return all((now.get(part) or [])[: len(was.get(part) or ())] == (was.get(part) or []) for part in parts)


def _keep(now: dict[str, Any], was: dict[str, Any], part: str) -> None:
    if part in was:
        now[part] = was[part]
    else:
        now.pop(part, None)
