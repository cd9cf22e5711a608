"""Any messages of neighbours leave a node of any role working, and no state when the neighbours have disconnected.

The first byte chooses the role of the node; then each step is a neighbour that connects or disconnects, time that
passes, or a message from a neighbour or from the local session. How to run: see harness.py.
"""

from __future__ import annotations

from collections import Counter
from types import FunctionType

import msgspec

from fuzz.draws import Draws, network_message, zenoh_id
from fuzz.harness import run
from zenspark.key.tree import KeyTree
from zenspark.router.face import REGION_BY_ROLES, Face, Outgoing
from zenspark.router.linkstate.network import UNREACHABLE_NODE_TTL_SECONDS
from zenspark.router.router import Router
from zenspark.wire.codec import encode
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Push, Request, Response, ResponseFinal
from zenspark.wire.values import WhatAmI, ZenohId

OWN = ZenohId(16)
"""The node under test: one of those that drawn link states are about."""
MAX_FACES = 12
MAX_STEPS = 200
"""Steps of one input; more would only make it slower."""
DELAYS_SECONDS = [0.0, 0.001, 0.05, 0.1, 0.5, 3.0, 10.0, 11.0, 60.0, 4e6]
"""Time that passes in one step: around every delay and timeout of the router."""

SESSION_TIMEOUT_MS = 10_000
"""Timeout of requests of the local session that have none: only those of neighbours get one from the router."""


class Node:
    """A router with neighbours, and checks of the messages that it sends to them."""

    def __init__(self, whatami: WhatAmI) -> None:
        self.router = Router(OWN, whatami)
        self.local = self.router.add_local()
        self.faces: list[Face] = []
        self.now = 0.0
        self.requested: Counter[Face] = Counter()
        self.finished: Counter[Face] = Counter()

    def step(self, draws: Draws) -> None:
        drawn = draws.byte()
        if drawn < 32:
            self.join(draws)
        elif drawn < 48:
            self.leave(draws)
        elif drawn < 72:
            self.wait(draws.choice(DELAYS_SECONDS))
        else:
            self.receive_message(draws)

    def join(self, draws: Draws) -> None:
        whatami, zid = draws.choice(list(WhatAmI)), zenoh_id(draws)
        is_known = zid in {OWN, *(face.zid for face in self.faces)}  # a node refuses a second session of a neighbour
        if (self.router.whatami, whatami) in REGION_BY_ROLES and not is_known and len(self.faces) < MAX_FACES:
            face, out = self.router.add_face(zid, whatami, self.now)
            self.faces.append(face)
            self.check(out)

    def leave(self, draws: Draws) -> None:
        if self.faces:
            self.remove(draws.choice(self.faces))

    def remove(self, face: Face) -> None:
        out = self.router.remove_face(face, self.now)
        self.check(out)  # also messages to the neighbour itself, which has no link any more
        self.faces.remove(face)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.check(self.router.handle_timeout(self.now))

    def receive_message(self, draws: Draws) -> None:
        face = draws.choice([self.local, *self.faces])
        message = network_message(draws)
        if message is None:
            return
        if face is self.local and isinstance(message, Request) and message.timeout_ms is None:
            message = replace(message, timeout_ms=SESSION_TIMEOUT_MS)
        self.requested[face] += isinstance(message, Request)
        self.check(self.router.receive(face, message, self.now), face)

    def check(self, out: Outgoing, source: Face | None = None) -> None:
        """Check that messages go to connected neighbours, can be encoded, and have key ids that were declared."""
        for face, message in out:
            assert face is self.local or face in self.faces, message
            assert not isinstance(message, Push) or face is not source, "sent back"
            assert encode(message)
            if isinstance(message, Push | Request | Response):
                assert face.resolve_outgoing(message.wire_expr) is not None, "a key id that was not declared"
            self.finished[face] += isinstance(message, ResponseFinal)

    def settle(self) -> None:
        """Advance the time until no timeout is pending."""
        for _ in range(1000):
            due = self.router.next_timeout()
            if due is None:
                return
            self.wait(max(0.0, due - self.now))
        raise AssertionError("timeouts never end")


def census(root: object) -> Counter[str]:
    """Count the objects that are referenced, directly or indirectly, by type."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    pending = [root]
    while pending:
        held = pending.pop()
        if id(held) in seen or isinstance(held, str | int | float | bytes | FunctionType | type):
            continue
        seen.add(id(held))
        found[type(held).__name__] += 1
        pending += parts(held)
    return found


def parts(held: object) -> list[object]:
    """Return the objects that an object references."""
    match held:
        case dict():
            return [*held.keys(), *held.values()]
        case list() | tuple() | set() | frozenset():
            return list(held)
        case KeyTree():
            return list(held.items())
        case msgspec.Struct():
            return [getattr(held, name) for name in held.__struct_fields__]
    return list(getattr(held, "__dict__", {}).values())


def check_nothing_is_left(node: Node) -> None:
    """Check that a node without neighbours and local session references what a new one does."""
    for face in list(node.faces):
        node.remove(face)
    node.check(node.router.remove_face(node.local, node.now))
    node.settle()
    if node.router.network is not None:
        connect_another_router(node)
        for _ in range(2):  # the edges are those of the nodes of the previous computation
            node.router.network.recompute_trees(node.now)
    left, expected = census(node.router), census(Router(OWN, node.router.whatami))
    assert left == expected, (left - expected, expected - left)


def connect_another_router(node: Node) -> None:
    """Make the graph change twice: disconnected routers are removed when it does, and not before."""
    for _ in range(2):
        node.settle()
        node.wait(UNREACHABLE_NODE_TTL_SECONDS)
        face, out = node.router.add_face(ZenohId(15), WhatAmI.ROUTER, node.now)
        node.faces.append(face)
        node.check(out)
        node.settle()
        node.remove(face)
    node.settle()
    node.wait(UNREACHABLE_NODE_TTL_SECONDS)


def check(data: bytes) -> None:
    draws = Draws(data)
    node = Node(draws.choice(list(WhatAmI)))
    for _ in range(MAX_STEPS):
        if draws.is_used_up:
            break
        node.step(draws)
    node.settle()
    for face in [node.local, *node.faces]:
        assert node.finished[face] == node.requested[face], "a request ended never, or twice"
    check_nothing_is_left(node)


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
