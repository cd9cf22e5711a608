"""A world of nodes in memory, for property tests: routers, peers and clients, links that can be cut at any moment, and
messages that are still on their way when the next thing happens. What a session receives is recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from zenspark.router.declarations.announcements import make_declare_body, make_undeclare_body
from zenspark.router.face import KIND_BY_DECLARATION, KIND_BY_UNDECLARATION, DeclarationKind, Face, Outgoing
from zenspark.router.linkstate.gossip import GossipProtocol
from zenspark.router.router import Router, RouterPolicy
from zenspark.wire.messages import (
    Declare,
    Interest,
    NetworkMessage,
    NetworkOam,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
)
from zenspark.wire.values import InterestMode, QueryableInfo, QueryTarget, Roles, WhatAmI, WireExpr, ZenohId

MAX_MESSAGES = 1_000_000
"""More than any of these networks needs: one that gets there forwards messages in circles."""
PEERS_AND_ROUTERS = Roles(WhatAmI.ROUTER.bit | WhatAmI.PEER.bit)


class Node:
    """One node: its router, its gossip, and a session that replies to queries with its own number."""

    def __init__(self, number: int, whatami: WhatAmI, policy: RouterPolicy) -> None:
        self.number = number
        self.whatami = whatami
        self.router = Router(ZenohId(number), whatami, policy)
        is_client = whatami is WhatAmI.CLIENT
        self.gossip = None if is_client else GossipProtocol(ZenohId(number), whatami, PEERS_AND_ROUTERS)
        self.local = self.router.add_local()
        self.links: dict[Face, tuple[Node, Face]] = {}
        self.pushes: list[tuple[str, bytes]] = []
        self.queries: list[tuple[str, int]] = []
        self.replies: dict[int, list[bytes]] = {}
        self.finals: dict[int, int] = {}
        self.known: dict[tuple[DeclarationKind, int], str] = {}
        self.replies_to_queries = True
        self.number_of_requests = 0

    def receive_local(self, message: NetworkMessage) -> list[NetworkMessage]:
        """Deliver a message to the session. Returns the messages that it sends then."""
        match message:
            case Push():
                assert isinstance(message.body, Put)
                self.pushes.append((message.wire_expr.suffix, message.body.payload))
            case Request():
                self.queries.append((message.wire_expr.suffix, message.request_id))
                if self.replies_to_queries:
                    return self.reply(message.request_id)
            case Response(body=Reply()):
                assert isinstance(message.body, Reply)
                assert isinstance(message.body.body, Put)
                self.replies.setdefault(message.request_id, []).append(message.body.body.payload)
            case ResponseFinal():
                self.finals[message.request_id] = self.finals.get(message.request_id, 0) + 1
            case Declare():
                self._note_declaration(message)
        return []

    def reply(self, number: int) -> list[NetworkMessage]:
        body = Reply(body=Put(payload=str(self.number).encode()))
        return [
            Response(request_id=number, wire_expr=WireExpr(0, "reply"), body=body),
            ResponseFinal(request_id=number),
        ]

    def _note_declaration(self, message: Declare) -> None:
        body: Any = message.body
        if type(body) in KIND_BY_DECLARATION:
            self.known[KIND_BY_DECLARATION[type(body)], body.id] = body.wire_expr.suffix
        elif type(body) in KIND_BY_UNDECLARATION:
            del self.known[KIND_BY_UNDECLARATION[type(body)], body.id]


class World:
    """Nodes, links and what is on its way over them, in order on each link."""

    def __init__(self, policy: RouterPolicy | None = None) -> None:
        self.policy = policy or RouterPolicy()
        self.now = 0.0
        self.nodes: list[Node] = []
        self.on_message: Callable[[NetworkMessage], None] = lambda _: None
        self._queues: dict[Face, tuple[Node, deque[NetworkMessage]]] = {}
        self._busy: dict[Face, None] = {}

    def add(self, whatami: WhatAmI, relays: bool = False) -> Node:
        policy = msgspec.structs.replace(self.policy, relays=relays)
        node = Node(len(self.nodes) + 1, whatami, policy)
        self.nodes.append(node)
        return node

    # -- links

    def are_joined(self, one: Node, other: Node) -> bool:
        return any(node is other for node, _ in one.links.values())

    def join(self, one: Node, other: Node) -> None:
        relays = one.router.policy.relays and other.router.policy.relays
        to_other, first = one.router.add_face(other.router.zid, other.whatami, self.now, relays=relays)
        to_one, second = other.router.add_face(one.router.zid, one.whatami, self.now, relays=relays)
        one.links[to_other] = (other, to_one)
        other.links[to_one] = (one, to_other)
        self._queues |= {to_other: (one, deque()), to_one: (other, deque())}
        for node, face, out in ((one, to_other, first), (other, to_one, second)):
            gossiped = [] if node.gossip is None else node.gossip.add_neighbour(face, ())
            self.emit(node, out + gossiped)

    def part(self, one: Node, other: Node) -> None:
        face = next(face for face, (node, _) in one.links.items() if node is other)
        _, back = one.links.pop(face)
        del other.links[back]
        for lost in (face, back):
            del self._queues[lost]
            self._busy.pop(lost, None)
        for node, lost in ((one, face), (other, back)):
            out = [] if node.gossip is None else node.gossip.remove_neighbour(lost)
            self.emit(node, out + node.router.remove_face(lost, self.now))

    # -- messages

    def emit(self, node: Node, out: Outgoing) -> None:
        for face, message in out:
            if face is node.local:
                for sent in node.receive_local(message):
                    self.send_local(node, sent)
            elif face in node.links:
                _, back = node.links[face]
                self._queues[back][1].append(message)
                self._busy[back] = None

    def send_local(self, node: Node, message: NetworkMessage) -> None:
        """Send a message of the session of a node."""
        self.emit(node, node.router.receive(node.local, message, self.now))

    def deliver(self, choice: int) -> None:
        """The first message on one of the links arrives."""
        if not self._busy:
            return
        face = list(self._busy)[choice % len(self._busy)] if choice else next(iter(self._busy))
        node, queue = self._queues[face]
        message = queue.popleft()
        del self._busy[face]
        if queue:
            self._busy[face] = None
        self.on_message(message)
        if isinstance(message, NetworkOam) and node.gossip is not None:
            self.emit(node, node.gossip.receive(face, message)[1])
        self.emit(node, node.router.receive(face, message, self.now))

    def carry(self) -> None:
        """Deliver until nothing is on its way, which takes time."""
        for count in range(MAX_MESSAGES):
            if not self._busy:
                return
            self.deliver(0)
            if count % 100 == 99:
                self.pass_time(0.01)
        raise AssertionError("messages keep circulating")

    def pass_time(self, seconds: float) -> None:
        """Time passes, with everything that is due on the way, in its order."""
        end = self.now + seconds
        while (due := self.next_timeout()) is not None and due <= end:
            self.now = max(self.now, due)
            for node in self.nodes:
                self.emit(node, node.router.handle_timeout(self.now))
        self.now = end

    def next_timeout(self) -> float | None:
        times = [due for node in self.nodes if (due := node.router.next_timeout()) is not None]
        return min(times, default=None)

    def settle(self) -> None:
        """Deliver all messages, and advance the time until no node waits for a timeout."""
        self.carry()
        for _ in range(MAX_MESSAGES):
            due = self.next_timeout()
            if due is None:
                return
            self.pass_time(max(0.0, due - self.now))
            self.carry()
        raise AssertionError("time never ends")

    # -- what sessions do

    def declare(self, node: Node, kind: DeclarationKind, number: int, key: str, complete: bool = False) -> None:
        self.send_local(node, Declare(body=make_declare_body(kind, number, WireExpr(0, key), QueryableInfo(complete))))

    def undeclare(self, node: Node, kind: DeclarationKind, number: int) -> None:
        self.send_local(node, Declare(body=make_undeclare_body(kind, number)))

    def put(self, node: Node, key: str, payload: bytes = b"x") -> None:
        self.send_local(node, Push(wire_expr=WireExpr(0, key), body=Put(payload=payload)))

    def get(self, node: Node, key: str, target: QueryTarget = QueryTarget.ALL, budget: int = 0) -> int:
        node.number_of_requests += 1
        number = node.number_of_requests
        expr = WireExpr(0, key)
        request = Request(
            request_id=number, wire_expr=expr, target=target, budget=budget, timeout_ms=5000, body=Query()
        )
        self.send_local(node, request)
        return number

    def send_interest(
        self, node: Node, number: int, key: str | None, mode: InterestMode = InterestMode.CURRENT_FUTURE
    ) -> None:
        expr = None if key is None else WireExpr(0, key)
        interest = Interest(id=number, mode=mode, subscribers=True, queryables=True, tokens=True, wire_expr=expr)
        self.send_local(node, interest)
