"""Names that a definition may not take: those of built-in kinds, and groups of Kubernetes' community without approval.

A definition of a built-in kind would show that kind's rows as its own, and take them along when it is deleted.
Source: apiextensions-apiserver's pkg/apihelpers.
"""

from urllib.parse import urlsplit

from headrace.api.objects import Fields, Object
from headrace.objects.validation.errors import FieldErrors

APPROVAL = "api-approved.kubernetes.io"
GROUPS = ("k8s.io", "kubernetes.io")
SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


def check(obj: Object, old: Object | None, errors: FieldErrors) -> None:
    if old is None:
        _not_built_in(obj["spec"], errors)
    group = str(obj["spec"].get("group", ""))
    if any(group == each or group.endswith(f".{each}") for each in GROUPS):
        _approved(obj["metadata"], None if old is None else old["metadata"], errors)


def _not_built_in(spec: Fields, errors: FieldErrors) -> None:
    from headrace.objects.builtin import built_in_kinds  # not at the top: definitions are built in themselves

    plural = spec["names"].get("plural", "")
    resource = f"{plural}.{spec.get('group', '')}"
    if any(each.kind.resource == resource for each in built_in_kinds()):
        errors.invalid("spec.names.plural", plural, f"{resource} is built into this server")


def _approved(meta: Fields, was: Fields | None, errors: FieldErrors) -> None:
    """What was not approved before may stay so: then its group is no news."""
    state = _state(meta)
    if state == "approved" or (was is not None and state == _state(was)):
        return
    path = f"metadata.annotations[{APPROVAL}]"
    if state == "missing":
        errors.required(path, f'protected groups must have approval annotation "{APPROVAL}", {SEE}')
    else:
        detail = (
            f'protected groups must have approval annotation "{APPROVAL}" with either a URL or a reason starting with '
        )
        errors.invalid(path, _approval(meta), f'{detail}"unapproved", {SEE}')


def _state(meta: Fields) -> str:
    text = _approval(meta)
    if not text:
        return "missing"
    if text.startswith("unapproved"):
        return "approved"
    try:
        url = urlsplit(text)
    except ValueError:
        return "invalid"
    return "approved" if url.scheme and url.netloc else "invalid"


def _approval(meta: Fields) -> str:
    return str((meta.get("annotations") or {}).get(APPROVAL, ""))
