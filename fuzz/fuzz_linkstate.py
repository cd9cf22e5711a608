"""Any link states of neighbours leave a node with trees that are trees and messages that can be encoded.

The first byte chooses the role of the node; then each step is a neighbour that connects or disconnects, time that
passes, or link states from a neighbour: drawn, or the bytes of the input. Routers make a graph of them, peers connect
to the nodes in them. How to run: see harness.py.
"""

from __future__ import annotations

from fuzz.draws import RAW_BYTES, Draws, link_state_oam, zenoh_id
from fuzz.harness import run
from zenspark.router.face import REGION_BY_ROLES, Face, Outgoing, Region
from zenspark.router.linkstate.gossip import GossipProtocol
from zenspark.router.linkstate.network import RouterNetwork
from zenspark.router.router import Router
from zenspark.wire.codec import decode_link_states, encode
from zenspark.wire.messages import NetworkOam
from zenspark.wire.values import Locator, Roles, WhatAmI, ZenohId

OWN = ZenohId(1)
"""The node under test: the first of those that drawn link states are about."""
MAX_FACES = 8
MAX_STEPS = 100
DELAYS_SECONDS = [0.0, 0.1, 3.0, 11.0]
LOCATORS = (Locator("tcp/127.0.0.1:7447"),)
ALL_ROLES = Roles(WhatAmI.ROUTER.bit | WhatAmI.PEER.bit | WhatAmI.CLIENT.bit)


class Node:
    """A router or peer, its gossip, and its neighbours."""

    def __init__(self, whatami: WhatAmI, multihop: bool) -> None:
        self.router = Router(OWN, whatami)
        self.gossip = GossipProtocol(OWN, whatami, ALL_ROLES, multihop)
        self.faces: list[Face] = []
        self.now = 0.0

    def step(self, draws: Draws) -> None:
        drawn = draws.byte()
        if drawn < 48:
            self.join(draws)
        elif drawn < 64:
            self.leave(draws)
        elif drawn < 96:
            self.wait(draws.choice(DELAYS_SECONDS))
        elif self.faces:
            self.receive_link_states(draws)

    def join(self, draws: Draws) -> None:
        whatami, zid = draws.choice(list(WhatAmI)), zenoh_id(draws)
        is_known = zid in {OWN, *(face.zid for face in self.faces)}
        if (self.router.whatami, whatami) in REGION_BY_ROLES and not is_known and len(self.faces) < MAX_FACES:
            face, out = self.router.add_face(zid, whatami, self.now, LOCATORS)
            self.faces.append(face)
            self.check(out + self.gossip.add_neighbour(face, LOCATORS))

    def leave(self, draws: Draws) -> None:
        if self.faces:
            face = draws.choice(self.faces)
            self.faces.remove(face)
            self.check(self.gossip.remove_neighbour(face) + self.router.remove_face(face, self.now))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.check(self.router.handle_timeout(self.now))
        self.check_trees()

    def receive_link_states(self, draws: Draws) -> None:
        face = draws.choice(self.faces)
        message = link_state_oam(draws)
        if draws.byte() % 4 == 1:
            message = NetworkOam(id=NetworkOam.LINK_STATE, zbuf=draws.take(RAW_BYTES))
        assert isinstance(message, NetworkOam)
        found, out = self.gossip.receive(face, message)
        assert all(one.zid != OWN and one.locators for one in found), found
        self.check(out + self.router.receive(face, message, self.now))

    def check(self, out: Outgoing) -> None:
        for face, message in out:
            assert face in self.faces, message
            assert encode(message)
            if isinstance(message, NetworkOam):
                assert message.zbuf is not None
                decode_link_states(message.zbuf)

    def check_trees(self) -> None:
        network = self.router.network
        if network is not None:
            for psid, zid in network.nodes.items():
                assert network.psid(zid) == psid
                assert network.root(psid) == zid
                self.check_tree(network, zid)

    def check_tree(self, network: RouterNetwork, root: ZenohId) -> None:
        """Check a tree: only the node's own has no parent, the parent is no child, every next hop is a child."""
        tree = network.tree(root)
        assert tree is not None
        assert (tree.parent is None) == (root == OWN), root
        assert tree.parent not in tree.children
        assert set(tree.next_hops.values()) == tree.children
        assert tree.next_hops.keys() <= tree.distances.keys()
        routers = [face for face in self.faces if face.region is Region.ROUTER]
        assert all(face in routers for face in network.children(root))


def check(data: bytes) -> None:
    draws = Draws(data)
    node = Node(draws.choice([WhatAmI.ROUTER, WhatAmI.PEER]), draws.flag())
    for _ in range(MAX_STEPS):
        if draws.is_used_up:
            break
        node.step(draws)
    for _ in range(MAX_STEPS):
        due = node.router.next_timeout()
        if due is None:
            return
        node.wait(max(0.0, due - node.now))
    raise AssertionError("the trees never converge")


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
