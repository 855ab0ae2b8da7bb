"""A Pod's volumes as directories of this machine. Contents of ConfigMaps and Secrets change in one step.

A payload lies in a time-stamped directory; `..data` points to it, and what containers see are links through `..data`:
renaming one link replaces all files at once, as a kubelet does.
"""

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.node.environment import Source, Surroundings, Unresolved, expand, field_value, resource_value
from headrace.node.pod import Container, Pod
from headrace.node.runtimes.protocol import Mount

SUPPORTED = ("emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected")
DEFAULT_MODE = 0o644
UNPROJECTABLE = ("serviceAccountToken", "clusterTrustBundle", "podCertificate")

_HOST_TYPES = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}

Payload = dict[str, tuple[bytes, int]]
"""Contents and mode by path below the volume."""


def references(pod: Pod) -> set[Source]:
    """The ConfigMaps and Secrets that volumes show."""
    found: set[Source] = set()
    for volume in pod.spec.volumes:
        for source in [volume, *((volume.get("projected") or {}).get("sources") or ())]:
            if config_map := source.get("configMap"):
                found.add(("ConfigMap", config_map["name"]))
            if secret := source.get("secret"):
                found.add(("Secret", secret.get("secretName") or secret.get("name") or ""))
    return found


def set_up(pod: Pod, directory: Path, around: Surroundings) -> None:
    """Make every volume below `directory`, or bring its contents up to date. Raises Unresolved, OSError."""
    for volume in pod.spec.volumes:
        name = volume["name"]
        if "emptyDir" in volume:
            if (volume["emptyDir"] or {}).get("medium"):
                raise Unresolved(f'volume "{name}": emptyDir.medium {volume["emptyDir"]["medium"]!r}: must be empty')
            path = directory / name
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)
        elif "hostPath" in volume:
            _host_path(name, volume["hostPath"])
        else:
            write(directory / name, payload(volume, pod, around))


def tear_down(directory: Path) -> None:
    """Remove what `set_up` made. Links are removed, never followed, and nothing of the host is touched."""
    if directory.exists():
        shutil.rmtree(directory)


def mounts(pod: Pod, container: Container, directory: Path, env: Mapping[str, str]) -> list[Mount]:
    """Where a container sees its volumes; subPathExpr is expanded by its environment. Raises Unresolved."""
    volumes = {volume["name"]: volume for volume in pod.spec.volumes}
    found: list[Mount] = []
    for mount in container.volume_mounts:
        volume = volumes.get(mount["name"])
        if volume is None:
            raise Unresolved(f'volumeMount "{mount["name"]}": the Pod has no volume of this name')
        host = volume.get("hostPath")
        source = Path(host["path"]) if host else directory / mount["name"]
        if sub_path := mount.get("subPath") or expand(mount.get("subPathExpr") or "", env):
            source = _beneath(source, sub_path, make="emptyDir" in volume or bool(host))
        read_only = bool(mount.get("readOnly")) or not ("emptyDir" in volume or host)
        found.append(Mount(str(source), mount["mountPath"], read_only))
    return found


def _beneath(volume: Path, sub_path: str, *, make: bool) -> Path:
    """A path inside a volume, with links resolved: one that a container made must not lead out of it."""
    if sub_path.startswith("/") or ".." in Path(sub_path).parts:
        raise Unresolved(f"volumeMount subPath {sub_path!r}: must be a relative path without '..'")
    inside = (volume / sub_path).resolve()
    if not inside.is_relative_to(volume.resolve()):
        raise Unresolved(f"volumeMount subPath {sub_path!r}: leads out of its volume through a symbolic link")
    if not inside.exists():
        if not make:
            raise Unresolved(f"volumeMount subPath {sub_path!r}: does not exist in the volume")
        inside.mkdir(mode=0o750, parents=True)
    return inside


def payload(volume: Mapping[str, Any], pod: Pod, around: Surroundings) -> Payload:
    """The files of a ConfigMap, Secret, downward API or projected volume. Raises Unresolved."""
    for kind, key in (("ConfigMap", "configMap"), ("Secret", "secret")):
        if source := volume.get(key):
            mode = int(source.get("defaultMode") or DEFAULT_MODE)
            return _of_source(kind, source, mode, around)
    if source := volume.get("downwardAPI"):
        return _downward(source, int(source.get("defaultMode") or DEFAULT_MODE), pod, around)
    if source := volume.get("projected"):
        mode, files = int(source.get("defaultMode") or DEFAULT_MODE), Payload()
        for part in source.get("sources") or ():
            if unknown := [key for key in part if key in UNPROJECTABLE]:
                raise Unresolved(f'volume "{volume["name"]}": projected source {unknown[0]} is not supported')
            [inner] = part.values()
            files |= payload(
                {"name": volume["name"], **{key: {**inner, "defaultMode": mode} for key in part}}, pod, around
            )
        return files
    kinds = ", ".join(sorted(key for key in volume if key != "name"))
    raise Unresolved(f'volume "{volume["name"]}": {kinds}: must be one of {", ".join(SUPPORTED)}')


def write(path: Path, files: Payload) -> None:
    """Replace the contents of a volume in one step; nothing happens when they are what they were."""
    path.mkdir(parents=True, exist_ok=True)
    current = path / "..data"
    if current.exists() and _read(current) == files:
        return
    number = 1 + max((int(each.name[2:]) for each in path.glob("..[0-9]*")), default=0)
    fresh = path / f"..{number}"
    fresh.mkdir(mode=0o755)
    for name, (content, mode) in files.items():
        file = fresh / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(mode)
    draft = path / "..data_tmp"
    draft.unlink(missing_ok=True)
    draft.symlink_to(fresh.name)
    draft.rename(current)
    tops = {Path(name).parts[0] for name in files}
    for top in tops:
        link = path / top
        if not link.is_symlink():
            link.symlink_to(Path("..data") / top)
    for link in path.iterdir():
        if not link.name.startswith("..") and link.name not in tops:
            link.unlink()
    for old in path.glob("..[0-9]*"):
        if old != fresh:
            shutil.rmtree(old)


def _read(directory: Path) -> Payload:
    return {
        str(file.relative_to(directory)): (file.read_bytes(), stat.S_IMODE(file.stat().st_mode))
        for file in directory.rglob("*")
        if file.is_file()
    }


def _of_source(kind: str, source: Mapping[str, Any], mode: int, around: Surroundings) -> Payload:
    name = source.get("name") or source.get("secretName") or ""
    data = around.sources.get((kind, name))
    optional = bool(source.get("optional"))
    if data is None:
        if optional:
            return {}
        raise Unresolved(f'{kind.lower()} "{name}" not found')
    items = source.get("items")
    if items is None:
        return {key: (content, mode) for key, content in data.items()}
    files = Payload()
    for item in items:
        if item["key"] not in data:
            if optional:
                continue
            raise Unresolved(f'{kind.lower()} "{name}": references non-existent key: {item["key"]}')
        files[_inside(item["path"])] = (data[item["key"]], int(item.get("mode") or mode))
    return files


def _downward(source: Mapping[str, Any], mode: int, pod: Pod, around: Surroundings) -> Payload:
    files = Payload()
    for item in source.get("items") or ():
        if ref := item.get("fieldRef"):
            path = ref["fieldPath"]
            if path in ("metadata.labels", "metadata.annotations"):
                table = (pod.object.get("metadata") or {}).get(path.partition(".")[2]) or {}
                text = "\n".join(f'{key}="{_quoted(value)}"' for key, value in sorted(table.items()))
            else:
                text = field_value(path, pod, around)
        else:
            ref = item["resourceFieldRef"]
            text = resource_value(ref, pod, pod.container(ref["containerName"]), around)
        files[_inside(item["path"])] = (text.encode(), int(item.get("mode") or mode))
    return files


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _inside(path: str) -> str:
    if path.startswith(("/", "..")) or ".." in Path(path).parts:
        raise Unresolved(f"items path {path!r}: must be a relative path that does not contain or begin with '..'")
    return path


def _host_path(name: str, source: Mapping[str, Any]) -> None:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate" and not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    elif kind in _HOST_TYPES:
        if not path.exists():
            raise Unresolved(f'volume "{name}": hostPath {path}: does not exist (type {kind})')
        if not _HOST_TYPES[kind](path.stat().st_mode):
            raise Unresolved(f'volume "{name}": hostPath {path}: is not a {kind}')
