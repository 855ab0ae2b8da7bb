"""The committed books as JSON, as the server tells them, and a node's ledger read back from that.

Whole numbers: cpu in millicores, memory in bytes. What was deleted and not confirmed stands among the holders.
"""

from collections.abc import Iterable, Mapping

import msgspec

from headrace.ledger.devices import Pool
from headrace.ledger.node import Floor, Ledger

LEDGER_PATH = "/headrace/v1alpha1/ledger"
"""Where the API server tells them."""


class FloorDocument(msgspec.Struct, frozen=True):
    """A reservation: what its beneficiaries (holders) hold counts as at least these amounts."""

    amounts: dict[str, int]
    beneficiaries: tuple[str, ...] = ()


class LedgerDocument(msgspec.Struct, frozen=True):
    """One node. `available` may be negative: a node that lost capacity is overfull, not broken.

    `devices`: by `driver/pool`, each device and who has it. `floors`: reservations by name, without which a beneficiary
    would be refused what is kept for it.
    """

    total: dict[str, int]
    reserved: dict[str, int]
    allocated: dict[str, int]
    available: dict[str, int]
    holders: dict[str, dict[str, int]]
    devices: dict[str, dict[str, tuple[str, ...]]] = {}
    floors: dict[str, FloorDocument] = {}

    def ledger(self, node: str) -> Ledger:
        floors = {name: Floor(each.amounts, frozenset(each.beneficiaries)) for name, each in self.floors.items()}
        return Ledger(self.total, self.reserved, self.holders, self.allocated, node, floors)


class BooksDocument(msgspec.Struct, frozen=True):
    """All nodes as of one committed revision. `time`: the server's wall clock when it answered, seconds since 1970."""

    revision: str
    time: float
    nodes: dict[str, LedgerDocument]


def document(revision: int, time: float, ledgers: Mapping[str, Ledger], pools: Iterable[Pool]) -> BooksDocument:
    by_node: dict[str, list[Pool]] = {}
    for pool in pools:
        by_node.setdefault(pool.node, []).append(pool)
    nodes = {name: ledger_document(ledgers[name], by_node.get(name, ())) for name in sorted(ledgers)}
    return BooksDocument(str(revision), time, nodes)


def ledger_document(ledger: Ledger, pools: Iterable[Pool]) -> LedgerDocument:
    return LedgerDocument(
        total=dict(ledger.total),
        reserved=dict(ledger.reserved),
        allocated=dict(ledger.allocated),
        available=dict(ledger.available()),
        holders={holder: dict(held) for holder, held in sorted(ledger.holders.items())},
        devices={
            "/".join(pool.key): {
                device: tuple(share.owner for share in pool.used.get(device, ()))
                for device in (*pool.devices, *(gone for gone in pool.used if gone not in pool.devices))
            }
            for pool in sorted(pools, key=lambda each: each.key)
        },
        floors={
            name: FloorDocument(dict(floor.amounts), tuple(sorted(floor.beneficiaries)))
            for name, floor in sorted(ledger.floors.items())
        },
    )
