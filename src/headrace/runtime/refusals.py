"""What the ledger refused, remembered so that it is not asked for again until that node's ledger changes.

A memory only: after a restart each wish is tried once more, which is harmless.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Refusal(Generic[W]):
    """What `holder` wished for on `node`, and the Shortfall's words."""

    holder: str
    node: str
    wish: W
    message: str


class Refusals(Generic[W]):
    """One refusal a holder, the last one. Bounded by the holders that exist: `forget` those that are gone."""

    def __init__(self) -> None:
        self._by_holder: dict[str, Refusal[W]] = {}
        self._by_node: dict[str, set[str]] = {}

    def remember(self, refusal: Refusal[W]) -> None:
        self.forget(refusal.holder)
        self._by_holder[refusal.holder] = refusal
        self._by_node.setdefault(refusal.node, set()).add(refusal.holder)

    def of(self, holder: str) -> Refusal[W] | None:
        return self._by_holder.get(holder)

    def forget(self, holder: str) -> None:
        refusal = self._by_holder.pop(holder, None)
        if refusal is not None:
            holders = self._by_node[refusal.node]
            holders.discard(holder)
            if not holders:
                del self._by_node[refusal.node]

    def ledger_changed(self, node: str) -> tuple[str, ...]:
        """Something on this node was released or added: its refusals count no more. Who may ask again, in order."""
        holders = tuple(sorted(self._by_node.get(node, ())))
        for holder in holders:
            self.forget(holder)
        return holders
