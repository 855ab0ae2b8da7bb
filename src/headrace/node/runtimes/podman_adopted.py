"""Containers that people started and a Pod has taken over: which is whose, kept beside the agent's other records.

Podman cannot label a container that exists, so the labels of ours are a file here. Such a container is let go when its
Pod ends, unless it was adopted to be stopped with it.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.node.runtimes import podman_bodies as bodies
from headrace.node.runtimes.protocol import ContainerSpec

ADOPTED = "headrace.dev/adopted-container"  # annotation of a Pod: Podman's id of the container
ON_DELETE = "headrace.dev/on-delete"  # annotation of it: Release (default) or Stop


class Adopted:
    """By headrace's id. Every change is on the disk before it is acted upon."""

    def __init__(self, path: Path) -> None:
        self._path, self._kept = path, dict[str, dict[str, str]]()
        with contextlib.suppress(FileNotFoundError):
            self._kept = json.loads(path.read_text(encoding="utf-8"))

    def __contains__(self, id: str) -> bool:
        return id in self._kept

    def podman_id(self, id: str) -> str | None:
        return self._kept[id]["podman"] if id in self._kept else None

    def podman_ids(self) -> list[str]:
        return [each["podman"] for each in self._kept.values()]

    def id_of(self, podman_id: str) -> str | None:
        return next((id for id, each in self._kept.items() if each["podman"] == podman_id), None)

    def is_released(self, id: str) -> bool:
        """Whether it is let go where others are stopped."""
        return id in self._kept and self._kept[id]["onDelete"] != "Stop"

    def put(self, spec: ContainerSpec, podman_id: str) -> None:
        labels = {bodies.ID: spec.id, bodies.POD_UID: spec.pod_uid, bodies.POD: spec.pod}
        kept = {"podman": podman_id, "onDelete": spec.on_delete, **labels, bodies.CONTAINER: spec.container}
        self._write({**self._kept, spec.id: kept})

    def drop(self, id: str) -> None:
        if id in self._kept:
            self._write({name: each for name, each in self._kept.items() if name != id})

    def labelled(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Rows of Podman's list with the labels that ours would have; rows of others are left out."""
        found = []
        for row in rows:
            id = self.id_of(row["Id"])
            if id is not None:
                found.append({**row, "Labels": {**(row["Labels"] or {}), **self._kept[id]}})
        return found

    def _write(self, kept: dict[str, dict[str, str]]) -> None:
        new = self._path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        self._kept = kept
