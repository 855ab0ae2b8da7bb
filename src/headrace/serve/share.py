"""How much of this machine headrace may hand out; asked before a server starts, and again by its agent."""

import dataclasses
from collections.abc import Mapping

from headrace.api.quantity import parse
from headrace.node.machine import Machine, this_machine


def share_of(
    machine: Machine, cpus: int | None, memory_bytes: int | None, reserved: Mapping[str, str] | None = None
) -> Machine:
    """The machine as headrace may use it. Raises ValueError when more is asked or reserved than it has."""
    if cpus is not None and not 1 <= cpus <= machine.cpus:
        raise ValueError(f"--cpus {cpus}: this machine has {machine.cpus}")
    if memory_bytes is not None and not 0 < memory_bytes <= machine.memory_bytes:
        raise ValueError(f"--memory {memory_bytes} bytes: this machine has {machine.memory_bytes}")
    share = dataclasses.replace(machine, cpus=cpus or machine.cpus, memory_bytes=memory_bytes or machine.memory_bytes)
    capacity = share.capacity()
    for name, amount in (reserved or {}).items():
        if parse(amount).nano >= parse(capacity[name]).nano:
            raise ValueError(f"--system-reserved {name}={amount}: nothing of {capacity[name]} would be left for Pods")
    return share


def share_of_this_machine(cpus: int | None, memory_bytes: int | None, reserved: Mapping[str, str]) -> Machine:
    """Raises ValueError, OSError."""
    return share_of(this_machine(), cpus, memory_bytes, reserved)
