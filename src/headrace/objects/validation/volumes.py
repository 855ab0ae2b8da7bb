"""The rules of a Pod's volumes (pkg/apis/core/validation.ValidateVolumes)."""

from typing import Any

from headrace.api.quantity import parse
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.references import (
    VOLUME_PATHS,
    validate_field_reference,
    validate_resource_reference,
)

HOST_PATH_TYPES = (
    "",
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)
SHORTEST_TOKEN_SECONDS = 600
_MODE_WORDS = "must be a number between 0 and 0777 (octal), both inclusive"


def validate_volumes(volumes: list[Any], path: str, errors: FieldErrors) -> dict[str, Any]:
    """The valid volumes by name."""
    valid: dict[str, Any] = {}
    for at, volume in enumerate(volumes):
        here, name = f"{path}[{at}]", volume.get("name", "")
        own = FieldErrors()
        _source(volume, here, own)
        if not name:
            own.required(f"{here}.name")
        else:
            for message in names.dns_label(name):
                own.invalid(f"{here}.name", name, message)
        if name in valid:
            own.duplicate(f"{here}.name", name)
        for cause in own.causes:
            errors.tell(cause)
        if not own:
            valid[name] = volume
    return valid


def _source(volume: dict[str, Any], path: str, errors: FieldErrors) -> None:
    sources = sorted(volume.keys() - {"name"})
    if not sources:
        errors.required(path, "must specify a volume type")
    for extra in sources[1:]:
        errors.forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    for source in sources[:1]:
        rule = _RULES.get(source)
        if rule is not None:
            rule(volume[source], f"{path}.{source}", errors)


def _host_path(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    where = source.get("path", "")
    if not where:
        errors.required(f"{path}.path")
        return
    if ".." in where.split("/"):
        errors.invalid(f"{path}.path", where, "must not contain '..'")
    if source.get("type", "") not in HOST_PATH_TYPES:
        errors.not_supported(f"{path}.type", source["type"], HOST_PATH_TYPES)


def _config_map(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not source.get("name"):
        errors.required(f"{path}.name")
    _keys(source, path, errors)


def _secret(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not source.get("secretName"):
        errors.required(f"{path}.secretName")
    _keys(source, path, errors)


def _keys(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    _mode(source, "defaultMode", path, errors)
    for at, item in enumerate(source.get("items") or ()):
        _key_to_path(item, f"{path}.items[{at}]", errors)


def _mode(source: dict[str, Any], part: str, path: str, errors: FieldErrors) -> None:
    if not 0 <= source.get(part, 0) <= 0o777:
        errors.invalid(f"{path}.{part}", source[part], _MODE_WORDS)


def _key_to_path(item: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not item.get("key"):
        errors.required(f"{path}.key")
    if not item.get("path"):
        errors.required(f"{path}.path")
    own_path(item.get("path", ""), f"{path}.path", errors)
    _mode(item, "mode", path, errors)


def own_path(text: str, path: str, errors: FieldErrors) -> None:
    """A local path that is not one of those that a volume's update keeps for itself."""
    local_path(text, path, errors)
    if text.startswith("..") and not text.startswith("../"):
        errors.invalid(path, text, "must not start with '..'")


def local_path(text: str, path: str, errors: FieldErrors) -> None:
    """A path that stays inside its volume."""
    if text.startswith("/"):
        errors.invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        errors.invalid(path, text, "must not contain '..'")


def _claim(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not source.get("claimName"):
        errors.required(f"{path}.claimName")


def _empty(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if parse(source.get("sizeLimit", "0")).nano < 0:
        errors.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _downward(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    _mode(source, "defaultMode", path, errors)
    for item in source.get("items") or ():
        _downward_file(item, path, errors)


def _downward_file(item: dict[str, Any], path: str, errors: FieldErrors) -> None:
    """Kubernetes names the source in its errors, not the item."""
    if not item.get("path"):
        errors.required(f"{path}.path")
    own_path(item.get("path", ""), f"{path}.path", errors)
    if "fieldRef" in item:
        validate_field_reference(item["fieldRef"], VOLUME_PATHS, f"{path}.fieldRef", errors)
        if "resourceFieldRef" in item:
            errors.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in item:
        here = f"{path}.resourceFieldRef"
        validate_resource_reference(item["resourceFieldRef"], here, errors, in_volume=True)
    else:
        errors.required(path, "one of fieldRef and resourceFieldRef is required")
    _mode(item, "mode", path, errors)


def _projected(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    _mode(source, "defaultMode", path, errors)
    taken: set[str] = set()
    for at, each in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{at}]"
        for part in ("secret", "configMap"):
            if part in each:
                _projected_keys(each[part], f"{here}.{part}", path, taken, errors)
        for item in (each.get("downwardAPI") or {}).get("items") or ():
            _downward_file(item, f"{here}.downwardAPI", errors)
            _taken(item.get("path", ""), item.get("path", ""), taken, path, errors)
        if "serviceAccountToken" in each:
            _token(each["serviceAccountToken"], here, path, errors)
        if len(each) > 1:
            errors.forbidden(here, "may not specify more than 1 volume type")


def _projected_keys(source: dict[str, Any], here: str, path: str, taken: set[str], errors: FieldErrors) -> None:
    if not source.get("name"):
        errors.required(f"{here}.name")
    for at, item in enumerate(source.get("items") or ()):
        _key_to_path(item, f"{here}.items[{at}]", errors)
        _taken(item.get("path", ""), source.get("name", ""), taken, path, errors)


def _taken(where: str, name: str, taken: set[str], path: str, errors: FieldErrors) -> None:
    if where in taken:
        errors.invalid(path, name, "conflicting duplicate paths")
    taken |= {where} - {""}


def _token(token: dict[str, Any], here: str, path: str, errors: FieldErrors) -> None:
    seconds = token["expirationSeconds"]
    where = f"{here}.serviceAccountToken.expirationSeconds"
    if seconds < SHORTEST_TOKEN_SECONDS:
        errors.invalid(where, seconds, "may not specify a duration less than 10 minutes")
    if seconds > 2**32:
        errors.invalid(where, seconds, "may not specify a duration larger than 2^32 seconds")
    if not token.get("path"):
        errors.required(f"{path}.path")
    else:
        own_path(token["path"], f"{path}.path", errors)


_RULES = {
    "downwardAPI": _downward,
    "emptyDir": _empty,
    "projected": _projected,
    "hostPath": _host_path,
    "configMap": _config_map,
    "secret": _secret,
    "persistentVolumeClaim": _claim,
}
