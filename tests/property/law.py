"""The delivery law of a whole network: which sessions receive from which, by nodes, links and declarations alone.

It knows nothing of faces, regions, trees or routes, and nothing here is taken from the router. Every session has a
home: its own node, or, for a client, the node its link leads to. Two homes are in touch if they are one, if a link
joins them directly, or if both belong to one network: as routers or relaying peers of it, or as peers with a link to a
router of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from zenspark.key import KeyExpr
from zenspark.wire.values import WhatAmI

CLIENT, PEER, ROUTER = WhatAmI.CLIENT, WhatAmI.PEER, WhatAmI.ROUTER


class Law:
    """What must be the case in one world."""

    def __init__(self, is_broker: bool = True) -> None:
        self.is_broker = is_broker
        self.roles: dict[int, WhatAmI] = {}
        self.relays: set[int] = set()
        """The peers that relay: they count as nodes of the network, not as peers."""
        self.links: set[frozenset[int]] = set()
        self.declared: dict[tuple[int, str, int], tuple[str, bool]] = {}
        """(node, kind, id) to the key and whether it is complete."""

    def neighbours(self, node: int, role: WhatAmI) -> set[int]:
        near = {other for link in self.links if node in link for other in link if other != node}
        return {other for other in near if self.roles[other] is role and other not in self.relays}

    def _network_neighbours(self, node: int) -> set[int]:
        near = {other for link in self.links if node in link for other in link if other != node}
        return {other for other in near if self._is_in_network(other)}

    def _is_in_network(self, node: int) -> bool:
        return self.roles[node] is ROUTER or node in self.relays

    def _is_peer(self, node: int) -> bool:
        return self.roles[node] is PEER and node not in self.relays

    def may_join(self, one: int, other: int) -> bool:
        """Whether a link makes sense: a client has one, and peers with links to each other have one router at most."""
        if one == other or frozenset((one, other)) in self.links:
            return False
        if self.roles[one] is self.roles[other] is CLIENT:
            return False
        for node in (one, other):
            if self.roles[node] is CLIENT and any(node in link for link in self.links):
                return False
        routers: set[int] = set()
        circle = [node for node in (one, other) if self._is_peer(node)]
        for peer in circle:
            for near in {peer} | self.neighbours(peer, PEER):
                routers |= self.neighbours(near, ROUTER)
        if circle:
            routers |= {node for node in (one, other) if self.roles[node] is ROUTER}
        return not circle or CLIENT in (self.roles[one], self.roles[other]) or len(routers) <= 1

    def home(self, node: int) -> int | None:
        if self.roles[node] is not CLIENT:
            return node
        return next((other for link in self.links if node in link for other in link if other != node), None)

    def network(self, node: int) -> set[int]:
        """The network a home belongs to: all that a router or relay, or the router of a peer, is connected with."""
        found = {node} if self._is_in_network(node) else self.neighbours(node, ROUTER)
        waiting = list(found)
        while waiting:
            near = self._network_neighbours(waiting.pop()) - found
            found |= near
            waiting += near
        return found

    def reaches(self, listener: int, sender: int) -> bool:
        """Whether a publication of one session must reach another."""
        one, other = self.home(listener), self.home(sender)
        if listener == sender or one is None or other is None:
            return False
        if one == other or frozenset((one, other)) in self.links:
            return True
        if not self.network(one) & self.network(other):
            return False
        both_peers = self._is_peer(one) and self._is_peer(other)
        return self.is_broker or not both_peers or self.neighbours(one, ROUTER) != self.neighbours(other, ROUTER)

    def holders(self, kind: str, key: str) -> set[int]:
        """The nodes with a declaration that matches a key."""
        return {
            node
            for (node, each, _), (declared, _) in self.declared.items()
            if each == kind and KeyExpr(declared).intersects(key)
        }

    def complete_holders(self, key: str) -> set[int]:
        """The nodes with a queryable that is complete for a key."""
        return {
            node
            for (node, kind, _), (declared, complete) in self.declared.items()
            if kind == "QUERYABLE" and complete and KeyExpr(declared).includes(key)
        }

    def receivers(self, sender: int, kind: str, key: str) -> set[int]:
        """The sessions a publication or a query to all must reach."""
        return {node for node in self.holders(kind, key) if self.reaches(node, sender)}

    def visible(self, listener: int) -> set[tuple[str, str]]:
        """The declarations a session may know of, with its own tokens."""
        return {
            (kind, key)
            for (node, kind, _), (key, _) in self.declared.items()
            if self.reaches(listener, node) or (node == listener and kind == "TOKEN")
        }

    def matching(self, declared: Iterable[tuple[str, str]], key: str | None) -> set[tuple[str, str]]:
        return {(kind, each) for kind, each in declared if key is None or KeyExpr(each).intersects(key)}
