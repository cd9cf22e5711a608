"""What a router knows of declarations, for somebody who looks from outside: who holds which keys, and who asks.

Nodes are listed as eclipse-zenoh 1.10.2 lists them in its admin space: what is declared by the session of a node or
below it also belongs to that node, and everybody beside or above a peer counts as a peer.
"""

from __future__ import annotations

import msgspec

from zenspark.router.face import DeclarationKind, DeclarationOwner, Region
from zenspark.router.router import Router
from zenspark.wire.values import WhatAmI, ZenohId

_DOWNSTREAM_ROLES = {Region.LOCAL: WhatAmI.CLIENT, Region.CLIENT: WhatAmI.CLIENT, Region.SOUTH_PEER: WhatAmI.PEER}
"""Those below a node, and as what they are listed."""


class OwnersByRole(msgspec.Struct):
    """The nodes a key belongs to, by their roles."""

    routers: list[str] = msgspec.field(default_factory=list)
    peers: list[str] = msgspec.field(default_factory=list)
    clients: list[str] = msgspec.field(default_factory=list)

    def add(self, whatami: WhatAmI, zid: ZenohId) -> None:
        """List a node, once."""
        listed = {WhatAmI.ROUTER: self.routers, WhatAmI.PEER: self.peers, WhatAmI.CLIENT: self.clients}[whatami]
        if str(zid) not in listed:
            listed.append(str(zid))


def declared_keys(router: Router, kind: DeclarationKind, key: str) -> dict[str, OwnersByRole]:
    """The declared keys that intersect one, and who holds them."""
    found = {}
    for entry in router.tables[kind].matching(key):
        holders = found[entry.key] = OwnersByRole()
        for holder in entry.holders:
            _place(holders, router, holder)
    return found


def _place(holders: OwnersByRole, router: Router, holder: DeclarationOwner) -> None:
    if holder.region in _DOWNSTREAM_ROLES:
        holders.add(_DOWNSTREAM_ROLES[holder.region], holder.zid)
        holders.add(router.whatami, router.zid)
    else:
        holders.add(WhatAmI.ROUTER if holder.region is Region.ROUTER else WhatAmI.PEER, holder.zid)


def interested_keys(router: Router, kind: DeclarationKind, key: str) -> dict[str, OwnersByRole]:
    """The keys that nodes below asked about and that intersect one: so publishers and queriers are known."""
    found: dict[str, OwnersByRole] = {}
    for interest in router.interests.matching(kind, key):
        whatami = _DOWNSTREAM_ROLES.get(interest.face.region)
        if whatami is not None:
            assert interest.key is not None, "it intersects one"
            found.setdefault(interest.key, OwnersByRole()).add(whatami, interest.face.zid)
    return found
