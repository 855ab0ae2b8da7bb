"""Which columns kubectl prints for a kind, and one object's cells under them. Pure: ages are counted from a given now.

Source: Kubernetes pkg/printers/internalversion (1.37).
"""

from typing import Any

from headrace.api import tables_cluster, tables_custom, tables_devices, tables_pods, tables_workloads
from headrace.api.kinds import Kind
from headrace.api.objects import Object, metadata, name_of
from headrace.api.printers import NAME, Printer, TableColumn

FAMILIES = (tables_pods, tables_cluster, tables_workloads, tables_devices, tables_custom)


def printer(kind: Kind) -> Printer:
    """A kind without columns of its own shows its name and when it was created."""
    for family in FAMILIES:
        found = family.PRINTERS.get(kind.resource)
        if found is not None:
            return found
    return PLAIN


def _plain(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), metadata(obj).get("creationTimestamp", "")]


PLAIN = Printer((NAME, TableColumn("Created At", "date")), _plain)
