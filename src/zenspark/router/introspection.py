"""Read-only view of a router's declarations for the admin space: owners of declared keys, and keys of interests.

Nodes are listed as eclipse-zenoh 1.10.2 lists them in its admin space: keys declared by the session of a node or
downstream of it also belong to that node, and every neighbour beside or upstream of a peer counts as a peer.
"""

from __future__ import annotations

import msgspec

from zenspark.router.face import DeclarationKind, DeclarationOwner, Region
from zenspark.router.router import Router
from zenspark.wire.values import WhatAmI, ZenohId

_DOWNSTREAM_ROLES = {Region.LOCAL: WhatAmI.CLIENT, Region.CLIENT: WhatAmI.CLIENT, Region.DOWNSTREAM_PEER: WhatAmI.PEER}
"""Downstream regions, and the role under which their nodes are listed."""


class OwnersByRole(msgspec.Struct):
    """Nodes a key belongs to, by role."""

    routers: list[str] = msgspec.field(default_factory=list)
    peers: list[str] = msgspec.field(default_factory=list)
    clients: list[str] = msgspec.field(default_factory=list)

    def add(self, whatami: WhatAmI, zid: ZenohId) -> None:
        """List a node, once."""
        listed = {WhatAmI.ROUTER: self.routers, WhatAmI.PEER: self.peers, WhatAmI.CLIENT: self.clients}[whatami]
        if str(zid) not in listed:
            listed.append(str(zid))


def declared_keys(router: Router, kind: DeclarationKind, key: str) -> dict[str, OwnersByRole]:
    """Declared keys that intersect a key expression, with their owners."""
    keys = {}
    for entry in router.tables[kind].matching(key):
        owners = keys[entry.key] = OwnersByRole()
        for owner in entry.owners:
            _add_owner(owners, router, owner)
    return keys


def _add_owner(owners: OwnersByRole, router: Router, owner: DeclarationOwner) -> None:
    if owner.region in _DOWNSTREAM_ROLES:
        owners.add(_DOWNSTREAM_ROLES[owner.region], owner.zid)
        owners.add(router.whatami, router.zid)
    else:
        owners.add(WhatAmI.ROUTER if owner.region is Region.ROUTER else WhatAmI.PEER, owner.zid)


def interested_keys(router: Router, kind: DeclarationKind, key: str) -> dict[str, OwnersByRole]:
    """Keys of interests of downstream nodes that intersect a key expression: these reveal publishers and queriers."""
    keys: dict[str, OwnersByRole] = {}
    for interest in router.interests.matching(kind, key):
        whatami = _DOWNSTREAM_ROLES.get(interest.face.region)
        if whatami is not None:
            assert interest.key is not None, "an interest in everything intersects no key"
            keys.setdefault(interest.key, OwnersByRole()).add(whatami, interest.face.zid)
    return keys
