"""Nodes in memory: routers joined by faces, messages carried until nothing moves."""

from __future__ import annotations

from collections import deque

from zenspark.router.face import Face, Outgoing
from zenspark.router.router import Router, RouterPolicy
from zenspark.wire.codec import encode_link_states
from zenspark.wire.messages import (
    AnyDeclaration,
    Declare,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Interest,
    LinkState,
    NetworkMessage,
    NetworkOam,
    Push,
    Put,
    Query,
    Request,
)
from zenspark.wire.values import InterestMode, QoS, QueryableInfo, QueryTarget, WhatAmI, WireExpr, ZenohId

MAX_STEPS = 10_000


class Node:
    """One router with its local session, which only records the messages it receives."""

    def __init__(self, number: int, whatami: WhatAmI, relays: bool = False) -> None:
        self.router = Router(ZenohId(number), whatami, RouterPolicy(relays=relays))
        self.local = self.router.add_local()
        self.links: dict[Face, tuple[Node, Face]] = {}
        self.received: list[NetworkMessage] = []

    @property
    def trees_due_at(self) -> float | None:
        return None if self.router.network is None else self.router.network.trees_due_at


class Network:
    """Carries messages between nodes; time stands still unless it is advanced."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: list[Node] = []
        self._moving: deque[tuple[Node, Face, NetworkMessage]] = deque()

    def node(self, whatami: WhatAmI, relays: bool = False) -> Node:
        node = Node(len(self.nodes) + 1, whatami, relays)
        self.nodes.append(node)
        return node

    def client(self) -> Node:
        return self.node(WhatAmI.CLIENT)

    def peer(self) -> Node:
        return self.node(WhatAmI.PEER)

    def router(self) -> Node:
        return self.node(WhatAmI.ROUTER)

    def relay(self, whatami: WhatAmI = WhatAmI.PEER) -> Node:
        return self.node(whatami, relays=True)

    def join(self, one: Node, other: Node) -> None:
        relays = one.router.policy.relays and other.router.policy.relays
        to_other, first = one.router.add_face(other.router.zid, other.router.whatami, self.now, relays=relays)
        to_one, second = other.router.add_face(one.router.zid, one.router.whatami, self.now, relays=relays)
        one.links[to_other] = (other, to_one)
        other.links[to_one] = (one, to_other)
        self.emit(one, first)
        self.emit(other, second)
        self.run()

    def announce_links(self, centre: Node, peer: Node, *others: Node) -> None:
        """A peer sends its links to its router."""
        entries = [LinkState(psid=0, sn=2, zid=peer.router.zid, whatami=2, links=tuple(range(1, len(others) + 1)))]
        entries += [LinkState(psid=at + 1, sn=0, zid=other.router.zid, whatami=2) for at, other in enumerate(others)]
        message = NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(entries))
        face = next(face for face, (node, _) in centre.links.items() if node is peer)
        self.emit(centre, centre.router.receive(face, message, self.now))
        self.run()

    def part(self, one: Node, other: Node) -> None:
        face = next(face for face, (node, _) in one.links.items() if node is other)
        _, back = one.links.pop(face)
        del other.links[back]
        self._moving = deque(move for move in self._moving if move[1] not in (face, back))
        self.emit(one, one.router.remove_face(face, self.now))
        self.emit(other, other.router.remove_face(back, self.now))
        self.run()

    def emit(self, node: Node, out: Outgoing) -> None:
        for face, message in out:
            if face is node.local:
                node.received.append(message)
            elif face in node.links:
                target, back = node.links[face]
                self._moving.append((target, back, message))

    def run(self) -> None:
        """Carry messages until nothing moves, and let the routers draw their trees."""
        self.carry()
        while drawing := [(node, due) for node in self.nodes if (due := node.trees_due_at) is not None]:
            self.now = max(self.now, min(due for _, due in drawing))
            for node, _ in drawing:
                self.emit(node, node.router.handle_timeout(self.now))
            self.carry()

    def carry(self) -> None:
        for _ in range(MAX_STEPS):
            if not self._moving:
                return
            node, face, message = self._moving.popleft()
            self.emit(node, node.router.receive(face, message, self.now))
        raise AssertionError("messages keep circulating")

    # what a session does

    def send(self, node: Node, message: NetworkMessage) -> list[NetworkMessage]:
        """Send a message of the local session. Returns the messages that it receives at once."""
        node.received.clear()
        self.emit(node, node.router.receive(node.local, message, self.now))
        self.run()
        return list(node.received)

    def declare(self, node: Node, body: AnyDeclaration) -> None:
        self.send(node, Declare(qos=QoS.DECLARE, body=body))

    def subscribe(self, node: Node, key: str, number: int = 1) -> None:
        self.declare(node, DeclareSubscriber(id=number, wire_expr=WireExpr(0, key)))

    def queryable(self, node: Node, key: str, complete: bool = False, number: int = 1) -> None:
        self.declare(node, DeclareQueryable(id=number, wire_expr=WireExpr(0, key), info=QueryableInfo(complete)))

    def token(self, node: Node, key: str, number: int = 1) -> None:
        self.declare(node, DeclareToken(id=number, wire_expr=WireExpr(0, key)))

    def put(self, node: Node, key: str, payload: bytes = b"x") -> None:
        self.send(node, Push(wire_expr=WireExpr(0, key), body=Put(payload=payload)))

    def get(self, node: Node, key: str, number: int = 1, target: QueryTarget = QueryTarget.BEST_MATCHING) -> None:
        request = Request(request_id=number, wire_expr=WireExpr(0, key), target=target, timeout_ms=1000, body=Query())
        self.send(node, request)

    def send_interest(
        self,
        node: Node,
        key: str | None,
        mode: InterestMode,
        *,
        subscribers: bool = False,
        tokens: bool = False,
        aggregate: bool = False,
    ) -> list[NetworkMessage]:
        """The local session sends interest 7."""
        expr = None if key is None else WireExpr(0, key)
        interest = Interest(
            id=7, mode=mode, subscribers=subscribers, tokens=tokens, aggregate=aggregate, wire_expr=expr
        )
        return self.send(node, interest)


def pushed(node: Node) -> list[tuple[str, bytes]]:
    pushes = [message for message in node.received if isinstance(message, Push)]
    return [(push.wire_expr.suffix, push.body.payload) for push in pushes if isinstance(push.body, Put)]


def declaration_texts(received: list[NetworkMessage]) -> list[str]:
    found = []
    for message in received:
        assert isinstance(message, Declare)
        expr = getattr(message.body, "wire_expr", None)
        found.append(f"{message.body.NAME} {expr.suffix}" if expr else message.body.NAME)
    return found


def requests(node: Node) -> list[Request]:
    return [message for message in node.received if isinstance(message, Request)]


def face_towards(node: Node, other: Node) -> Face:
    return next(face for face, (neighbour, _) in node.links.items() if neighbour is other)
