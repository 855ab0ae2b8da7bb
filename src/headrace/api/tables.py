"""Which columns kubectl prints for a kind, and one object's cells under them. Pure: ages are counted from a given now.

Source: Kubernetes pkg/printers/internalversion (1.37).
"""

from collections.abc import Mapping
from typing import Any

from headrace.api import tables_cluster, tables_custom, tables_devices, tables_pods, tables_workloads
from headrace.api.kinds import Kind
from headrace.api.objects import Object, metadata, name_of
from headrace.api.printers import NAME, Printer, TableColumn

PRINTERS: Mapping[str, Printer] = {
    **tables_custom.PRINTERS,
    **tables_devices.PRINTERS,
    **tables_workloads.PRINTERS,
    **tables_cluster.PRINTERS,
    **tables_pods.PRINTERS,
}


def printer(kind: Kind) -> Printer:
    """A kind without columns of its own shows its name and when it was created."""
    return PRINTERS.get(kind.resource, PLAIN)


def _plain(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), metadata(obj).get("creationTimestamp", "")]


PLAIN = Printer((NAME, TableColumn("Created At", "date")), _plain)
