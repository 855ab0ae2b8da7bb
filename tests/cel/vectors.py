"""The stored answers of Kubernetes' own compiler (k8s.io/dynamic-resource-allocation v0.37.2), expression by line."""

import gzip
import json
from pathlib import Path
from typing import Any

from headrace.cel.answers import prepare_devices
from headrace.cel.device import PreparedDevice

DATA = Path(__file__).parent / "data"
FIELDS = (
    "compile_new", "compile_new_list_attrs", "compile_stored", "output_type", "max_cost", "results", "actual_cost",
)  # fmt: skip


def _lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def expressions() -> list[dict[str, Any]]:
    return _lines("expressions.jsonl.gz")


def devices() -> dict[str, PreparedDevice]:
    return prepare_devices({device.pop("name"): device for device in _lines("devices.jsonl.gz")})
