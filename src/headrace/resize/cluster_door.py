"""The store of a real cluster for the controllers of resizing: there the API server's admission is the door.

It refuses what the node never has (NodeCapacity), what a quota or a LimitRange forbids, what changes the QoS class.
Such an answer to a resize is as final as the ledger's at home, so it is raised as one: in its own words.
"""

from headrace.api.kinds import POD, Kind
from headrace.api.objects import Fields, Object
from headrace.ledger.node import Shortfall
from headrace.runtime.fenced import FencedStore
from headrace.store.protocol import BadRequest, Forbidden, Invalid, Refused


class ResizeDoor(FencedStore):
    """Writes raise NotLeading when the lease is not held; a resize that the server refuses raises Refused."""

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        fields: Fields,
        version: str | None = None,
        subresource: str | None = None,
        strategic: bool = False,
        dry_run: bool = False,
    ) -> Object:
        try:
            return await super().patch(
                kind,
                name,
                namespace,
                fields=fields,
                version=version,
                subresource=subresource,
                strategic=strategic,
                dry_run=dry_run,
            )
        except (Forbidden, Invalid, BadRequest) as no:
            if kind != POD or subresource != "resize":
                raise
            raise Refused(Shortfall({}, words=str(no))) from no
