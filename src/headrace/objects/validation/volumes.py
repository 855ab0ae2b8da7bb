"""The rules of a Pod's volumes (pkg/apis/core/validation.ValidateVolumes)."""

from typing import Any

from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors

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
        if own:
            errors.causes += own.causes
        else:
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
    elif ".." in where.split("/"):
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
    if not 0 <= source.get("defaultMode", 0) <= 0o777:
        errors.invalid(f"{path}.defaultMode", source["defaultMode"], _MODE_WORDS)
    for at, item in enumerate(source.get("items") or ()):
        here = f"{path}.items[{at}]"
        if not item.get("key"):
            errors.required(f"{here}.key")
        if not item.get("path"):
            errors.required(f"{here}.path")
        else:
            local_path(item["path"], f"{here}.path", errors)
        if not 0 <= item.get("mode", 0) <= 0o777:
            errors.invalid(f"{here}.mode", item["mode"], _MODE_WORDS)


def local_path(text: str, path: str, errors: FieldErrors) -> None:
    """A path that stays inside its volume."""
    if text.startswith("/"):
        errors.invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        errors.invalid(path, text, "must not contain '..'")


def _claim(source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not source.get("claimName"):
        errors.required(f"{path}.claimName")


_RULES = {
    "hostPath": _host_path,
    "configMap": _config_map,
    "secret": _secret,
    "persistentVolumeClaim": _claim,
}
