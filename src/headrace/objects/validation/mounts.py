"""The rules of what a container mounts, as files or as devices (pkg/apis/core/validation.ValidateVolumeMounts)."""

from typing import Any

from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.volumes import local_path

_BLOCK = {"persistentVolumeClaim", "ephemeral"}
_BLOCK_WORDS = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"


def validate_mounts(container: dict[str, Any], volumes: dict[str, Any], path: str, errors: FieldErrors) -> None:
    mounts, devices = container.get("volumeMounts") or [], container.get("volumeDevices") or []
    _mounts(mounts, devices, volumes, f"{path}.volumeMounts", errors)
    _devices(devices, mounts, volumes, f"{path}.volumeDevices", errors)


def _mounts(mounts: list[Any], devices: list[Any], volumes: dict[str, Any], path: str, errors: FieldErrors) -> None:
    taken: set[str] = set()
    for at, mount in enumerate(mounts):
        here, name, where = f"{path}[{at}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.required(f"{here}.name")
        if name not in volumes:
            errors.not_found(f"{here}.name", name)
        _place(where, taken, f"{here}.mountPath", errors)
        taken.add(where)
        _apart(mount, "mountPath", devices, "devicePath", "volumeDevices", here, errors)
        _sub_paths(mount, path, here, errors)


def _sub_paths(mount: dict[str, Any], path: str, here: str, errors: FieldErrors) -> None:
    for part in ("subPath", "subPathExpr"):
        if mount.get(part):
            local_path(mount[part], f"{path}.{part}", errors)
    if mount.get("subPath") and mount.get("subPathExpr"):
        words = "subPathExpr and subPath are mutually exclusive"
        errors.invalid(f"{here}.subPathExpr", mount["subPathExpr"], words)


def _devices(devices: list[Any], mounts: list[Any], volumes: dict[str, Any], path: str, errors: FieldErrors) -> None:
    names: set[str] = set()
    paths: set[str] = set()
    for at, device in enumerate(devices):
        here, name, where = f"{path}[{at}]", device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.required(f"{here}.name")
        if name in names:
            errors.invalid(f"{here}.name", name, "must be unique")
        if name not in volumes:
            errors.not_found(f"{here}.name", name)
        elif not _BLOCK & volumes[name].keys():
            errors.invalid(f"{here}.name", name, _BLOCK_WORDS)
        _place(where, paths, f"{here}.devicePath", errors)
        if ".." in where.split("/"):
            errors.invalid(f"{here}.devicePath", where, "can not contain backsteps ('..')")
        else:
            paths.add(where)
        _apart(device, "devicePath", mounts, "mountPath", "volumeMounts", here, errors)
        names |= {name} - {""}


def _place(where: str, taken: set[str], path: str, errors: FieldErrors) -> None:
    if not where:
        errors.required(path)
    if where in taken:
        errors.invalid(path, where, "must be unique")


def _apart(
    one: dict[str, Any], own: str, others: list[Any], their: str, word: str, path: str, errors: FieldErrors
) -> None:
    """A volume is mounted or it is a device; and nothing stands where the other is."""
    if any(other.get("name", "") == one.get("name", "") for other in others):
        errors.invalid(f"{path}.name", one.get("name", ""), f"must not already exist in {word}")
    if any(other.get(their, "") == one.get(own, "") for other in others):
        errors.invalid(f"{path}.{own}", one.get(own, ""), f"must not already exist as a path in {word}")
