"""Router: a message from a face in, messages to faces out.

The law it keeps: a PUSH reaches every face with a matching subscriber, once, and never goes back where it came from;
a REQUEST reaches the queryables its target names and ends in exactly one RESPONSE_FINAL; whoever sends INTEREST gets
the current declarations and then D_FINAL. Roles differ only in the table of `routes.py`; a router also is part of a
network of routers (`network.py`), where declarations belong to routers instead of neighbours (`sources.py`). A peer
that relays is part of it like a router (docs/routing.md).

Everything a face declared goes when the face goes. What the peer may not do is ignored, never raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, assert_never

import msgspec

from zenspark.router.declarations.announcements import emit_declare
from zenspark.router.declarations.store import Declarations
from zenspark.router.face import (
    DECLARE,
    MAX_REQUEST_BITS,
    REGIONS,
    UNDECLARE,
    DeclarationKind,
    Face,
    FaceDeclaration,
    Outgoing,
    Region,
)
from zenspark.router.interceptors.actions import make_final
from zenspark.router.interceptors.rules import PeerAttributes, RouterSubject
from zenspark.router.interests.handler import INITIAL_INTEREST, InterestHandler
from zenspark.router.interests.table import INTEREST_TIMEOUT_SECONDS, InterestTable
from zenspark.router.limits import Admission, Limit, Refusals, RouterLimits
from zenspark.router.linkstate.network import SELF, RouterNetwork
from zenspark.router.linkstate.peer_links import PeerLinks
from zenspark.router.linkstate.sourced_declarations import SourcedDeclarations
from zenspark.router.linkstate.states import is_oversized
from zenspark.router.queries.handler import MAX_QUERY_SECONDS, QueryRouter, make_error_response
from zenspark.router.routing.routes import ANNOUNCED_WITHOUT_INTEREST, ReachabilityPolicy
from zenspark.router.routing.tables import DeclarationTable
from zenspark.router.timestamping import TimestampPolicy
from zenspark.wire.declare import replace
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Interest,
    NetworkMessage,
    NetworkOam,
    Push,
    Request,
    Response,
    ResponseFinal,
    UndeclareKeyexpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import Locator, QueryableInfo, WhatAmI, WireExpr, ZenohId


class RouterPolicy(msgspec.Struct, frozen=True, eq=False):
    """How a router behaves where that is a matter of choice."""

    query_timeout: float = 10.0
    """Seconds for requests that do not say how long they may take."""
    max_query_timeout: float = MAX_QUERY_SECONDS
    """Seconds a request of a neighbour may take, whatever it says."""
    interest_timeout: float = INTEREST_TIMEOUT_SECONDS
    """Seconds an asker waits for the nodes above us to answer an interest."""
    trusts_complete_flag: bool = False
    """Whether AllComplete means all queryables declared complete, not only those whose key includes that of a query."""
    is_broker: bool = True
    """Whether a router carries messages between its peers that have no link to each other."""
    relays: bool = False
    """Whether this node is in one network with the routers and peers beside it that relay, too."""
    weights: Mapping[ZenohId, int] = {}
    """How far away routers beside us count."""
    first_sn: int = 1
    """The version from which we count the states of our links: later starts should begin higher."""
    timestamping: TimestampPolicy | None = None
    """The clock for what has no timestamp, if there should be none without."""
    routers: tuple[RouterSubject, ...] | None = None
    """Who may connect to a router as another router; None for everybody."""
    limits: RouterLimits = RouterLimits()
    """What neighbours may make this node hold."""


def _is_heard(member: Face, message: NetworkMessage) -> bool:
    """Whether what a member of a group sends counts: publications, requests, tokens, and the numbers of their keys.

    Its subscribers and queryables change nothing, as in eclipse-zenoh. A node that also has a session is heard there.
    """
    match message:
        case Push() | Request() | Declare(body=DeclareToken()):
            return not member.is_duplicate_member
        case Declare(body=DeclareKeyexpr() | UndeclareKeyexpr() | UndeclareToken()):
            return True
    return False


class Router:
    """The tables of one node and the moves that change them."""

    def __init__(self, zid: ZenohId, whatami: WhatAmI, policy: RouterPolicy | None = None) -> None:
        policy = policy or RouterPolicy()
        self.zid = zid
        self.whatami = whatami
        self.policy = policy
        self.timestamping = policy.timestamping
        self.refusals = Refusals()
        """What was refused because of a limit."""
        self._admission = Admission(policy.limits, self.refusals)
        self._always_within = policy.limits.key.always_within
        network = None
        if whatami is WhatAmI.ROUTER or (policy.relays and whatami is WhatAmI.PEER):
            network = RouterNetwork(zid, policy.weights, policy.first_sn, self._admission)
        self._out: Outgoing = []
        self._numbers = 0
        self._faces: dict[int, Face] = {}
        self._peers: dict[ZenohId, Face] = {}
        """Those under us."""
        self._greeted: set[Face] = set()
        """The relays beside us that were told that they know all we have declared."""
        self._peering = PeerLinks()
        self._reach = ReachabilityPolicy(policy.is_broker, whatami is WhatAmI.ROUTER)
        self.interests = InterestTable()
        self._declarations = Declarations(self._out, self.interests, self._reach, network, self._admission)
        self._sources = self._declarations.sources
        self._asking = InterestHandler(
            self._out, self.interests, self._declarations, self._reach, self._admission, policy.interest_timeout
        )
        self.routes = self._declarations.routes
        self.routes.trusts_complete_flag = policy.trusts_complete_flag
        self._requests = QueryRouter(
            self._out, self.routes, self._admission, policy.query_timeout, policy.max_query_timeout
        )

    # -- faces

    def add_local(self) -> Face:
        """The face of this node's own session."""
        return self._add(self.zid, self.whatami, Region.LOCAL)

    def add_face(
        self,
        zid: ZenohId,
        whatami: WhatAmI,
        now: float,
        locators: Sequence[Locator] = (),
        request_bits: int = MAX_REQUEST_BITS,
        relays: bool = False,
    ) -> tuple[Face, Outgoing]:
        """A new neighbour, and what it must be told at once.

        `locators` is where it and others can reach us, `request_bits` what the session agreed on for request ids,
        `relays` whether it and we have agreed to relay.
        """
        region = Region.ROUTER if relays else REGIONS[self.whatami, whatami]
        face = self._add(zid, whatami, region, request_bits, relays)
        if self._sources is not None and face.region is Region.ROUTER:
            self._sources.opened(face)
            self._out += self._sources.network.opened(face, locators, now)
        self._asking.add(face, now)
        self._declarations.add(face)
        self._serve(face, True, now)
        if face.region is Region.PEER:
            emit_declare(self._out, face, DeclareFinal(), INITIAL_INTEREST)
        return face, self._flush()

    def add_group(self) -> Face:
        """The face of a multicast group, which gets every publication: its members declare nothing that counts."""
        group = self._add(self.zid, self.whatami, Region.GROUP)
        self.routes.add(group)
        return group

    def add_member(self, group: Face, zid: ZenohId, whatami: WhatAmI) -> Face:
        """A node that is heard in a group."""
        face = self._add(zid, whatami, Region.MEMBER)
        face.group = group
        group.members.add(zid)
        self.routes.clear()
        return face

    def _serve(self, face: Face, is_there: bool, now: float) -> None:
        """Let the other relays know that a peer which does not relay is reached through this router."""
        if self.policy.relays and self.network is not None and face.region is Region.SOUTH_PEER:
            self._out += self.network.set_served_peer(face.zid, is_there, face, now)

    def _add(
        self,
        zid: ZenohId,
        whatami: WhatAmI,
        region: Region,
        request_bits: int = MAX_REQUEST_BITS,
        relays: bool = False,
    ) -> Face:
        self._numbers += 1
        relays = relays and WhatAmI.PEER in (self.whatami, whatami)
        face = Face(self._numbers, zid, whatami, region, request_bits, relays)
        self._faces[face.number] = face
        if region is Region.SOUTH_PEER:
            self._peers[zid] = face
        self._change_faces()
        return face

    def _change_faces(self) -> None:
        """Faces came or went. A node that is heard in several ways is listened to in one, best in its own session."""
        members = [face for face in self._faces.values() if face.region is Region.MEMBER]
        heard = {face.zid for face in self._faces.values() if face.region is not Region.MEMBER} if members else set()
        heard |= self._reach.reached_via_network
        for face in members:
            face.is_duplicate_member = face.zid in heard
            heard.add(face.zid)

    def remove_face(self, face: Face, now: float) -> Outgoing:
        """A neighbour is gone, with everything it declared, asked and owed."""
        del self._faces[face.number]
        self._asking.remove(face)
        self._declarations.remove(face)
        self._requests.remove(face)
        if face.region is Region.SOUTH_PEER:
            self._leave_peers(face, now)
        if self._sources is not None and face.region is Region.ROUTER:
            self._greeted.discard(face)
            self._sources.closed(face, now)
            self._out += self._sources.network.closed(face, now)
        if face.group is not None:
            face.group.members.discard(face.zid)
        self._change_faces()
        return self._flush()

    def _leave_peers(self, peer: Face, now: float) -> None:
        self._peering.remove(peer)
        if self._peers[peer.zid] is peer:
            del self._peers[peer.zid]
            self._reach.leave(peer.zid)
            self._serve(peer, False, now)

    def _flush(self) -> Outgoing:
        out = self._out.copy()
        self._out.clear()
        return out

    # -- one message in

    def receive(self, face: Face, message: NetworkMessage, now: float) -> Outgoing:
        """What a face says, and what follows from it."""
        if face.region is not Region.MEMBER or _is_heard(face, message):
            self._MOVES[type(message)](self, face, message, now)
        return self._flush()

    def reject(self, face: Face, message: NetworkMessage, why: str) -> Outgoing:
        """End what a face asks for in a message that must not be processed; a querier also gets the reason."""
        final = make_final(message)
        if final is None or face.region is Region.MEMBER:
            return []
        if isinstance(message, Request):
            return [(face, make_error_response(message.request_id, message.qos, self.zid, why.encode())), (face, final)]
        return [(face, final)]

    def _on_declare(self, face: Face, message: Declare, now: float) -> None:
        body = message.body
        match body:
            case DeclareKeyexpr():
                self._on_key_number(face, body)
            case UndeclareKeyexpr():
                face.remove_key_mapping(body.expr_id)
            case DeclareFinal():
                if message.interest_id is not None:
                    self._asking.on_final(face, message.interest_id)
            case DeclareSubscriber() | DeclareQueryable() | DeclareToken():
                self._on_declaration(face, message, body, now)
            case UndeclareSubscriber() | UndeclareQueryable() | UndeclareToken():
                self._on_undeclaration(face, message, body, now)
            case _:
                assert_never(body)

    def _on_key_number(self, face: Face, body: DeclareKeyexpr) -> None:
        key = face.new_key_mapping(body)
        if key is None or self._admission.key_number(face, face.usage, key):
            face.add_key_mapping(body)

    def _on_declaration(
        self, face: Face, message: Declare, body: DeclareSubscriber | DeclareQueryable | DeclareToken, now: float
    ) -> None:
        key = self._valid_key(face, body.wire_expr)
        if key is None:
            return
        kind = DECLARE[type(body)]
        info = body.info if isinstance(body, DeclareQueryable) else QueryableInfo.NONE
        if self._sources is not None and face.region is Region.ROUTER:
            source = self._sources.network.source(face, message.node_id)
            if source is not None:
                self._sources.declare(face, source, kind, key, info, now)
            return
        interest_id = message.interest_id
        if interest_id is None or self._asking.on_interest_reply(face, interest_id, kind, key, info):
            self._declarations.declare(face, kind, body.id, FaceDeclaration(key, info))

    def _on_undeclaration(
        self,
        face: Face,
        message: Declare,
        body: UndeclareSubscriber | UndeclareQueryable | UndeclareToken,
        now: float,
    ) -> None:
        kind = UNDECLARE[type(body)]
        if self._sources is None or face.region is not Region.ROUTER:
            self._declarations.undeclare(face, kind, body.id)
            return
        key = None if body.ext_wire_expr is None else self._valid_key(face, body.ext_wire_expr)
        source = self._sources.network.source(face, message.node_id)
        if key is not None and source is not None:
            self._sources.undeclare(face, source, kind, key, now)

    def _valid_key(self, face: Face, expr: WireExpr) -> str | None:
        key = face.resolve(expr)
        return key if key is not None and self._admission.key(face, key) else None

    def is_within_limits(self, key: str) -> bool:
        """Whether a key is not too large for this node."""
        return len(key) <= self._always_within or self.policy.limits.key.excess(key) is None

    def _on_interest(self, face: Face, interest: Interest, now: float) -> None:
        self._asking.on_interest(face, interest, now)

    @property
    def faces_awaiting_declarations(self) -> list[Face]:
        """The faces that have not got all answers to their interests."""
        return self._asking.unfinished

    def is_awaiting_declarations(self, face: Face) -> bool:
        """Whether a face has not got all answers to its interests."""
        return self._asking.is_awaiting_declarations(face)

    def send_next_declarations(self, face: Face) -> Outgoing:
        """The next portion of answers to a face."""
        self._asking.go_on(face)
        return self._flush()

    @property
    def tables(self) -> dict[DeclarationKind, DeclarationTable]:
        """Who declared what."""
        return self._declarations.tables

    # -- the network of routers

    def accepts(self, whatami: WhatAmI, party: PeerAttributes) -> bool:
        """Whether a node that calls may be what it says it is: routers may be restricted, others are not."""
        if WhatAmI.ROUTER is not self.whatami or whatami is not WhatAmI.ROUTER or self.policy.routers is None:
            return True
        if any(subject.matches(party) for subject in self.policy.routers):
            return True
        self.refusals.count(Limit.ROUTERS, party.zid)
        return False

    @property
    def network(self) -> RouterNetwork | None:
        """The network of routers, if this is one."""
        return None if self._sources is None else self._sources.network

    def tree(self, face: Face, node_id: int) -> int | None:
        """Our number for the router where a message from a face has entered the network. None if nobody knows, or if
        the message should not have come this way: then it is not passed on, or it might go in circles."""
        if self._sources is None or face.region is not Region.ROUTER:
            return SELF
        network = self._sources.network
        source = network.source(face, node_id)
        return None if source is None or network.parent(source) is not face else network.psid(source)

    def _on_oam(self, face: Face, message: NetworkOam, now: float) -> None:
        if is_oversized(message):
            self.refusals.count(Limit.NETWORK_LINKS, face)
            return
        if self._sources is not None and face.region is Region.ROUTER:
            self._out += self._sources.network.receive(face, message, now)
            self._draw_trees(self._sources, now)
        elif face.region is Region.SOUTH_PEER:
            links = self._peering.receive(face, message)
            changed = frozenset() if links is None else self._reach.link(face.zid, links)
            for zid in sorted(changed & self._peers.keys()):
                self._declarations.update_reachability(face, self._peers[zid])

    @property
    def may_relay(self) -> bool:
        """Whether the network has room for one more neighbour; one that comes when it has none does not relay."""
        return self._sources is not None and self._sources.network.has_capacity

    @property
    def initial_declarations_received(self) -> bool:
        """Whether every peer and relay beside this node has told all it has, and is reached."""
        faces = self._faces.values()
        return not any(
            face.initial_declarations_pending or (face.relays and face not in self._greeted) for face in faces
        )

    def _draw_trees(self, sources: SourcedDeclarations, now: float) -> None:
        due = sources.network.trees_due_at
        if due is not None and due <= now:
            moved, told = sources.network.recompute_trees(now)
            self._out += told
            self.routes.clear()
            sources.follow(moved, now)
            if self.policy.relays:
                self._follow_relays(sources.network, now)

    def _follow_relays(self, network: RouterNetwork, now: float) -> None:
        """What other links change for a relay besides trees: new neighbours are told that they know all we declared,
        and some neighbours are now reached through the network instead of their links, or the other way round."""
        for face in network.children(self.zid):
            if face.relays and face not in self._greeted:
                self._greeted.add(face)
                emit_declare(self._out, face, DeclareFinal(), INITIAL_INTEREST)
        changed = self._reach.reached_via_network ^ network.reached_via_network
        self._reach.reached_via_network = network.reached_via_network
        for face in [
            face for face in self._faces.values() if face.region in ANNOUNCED_WITHOUT_INTEREST and face.zid in changed
        ]:
            self._declarations.update_face_reachability(face)
            if face.region is Region.UPSTREAM:
                self._asking.ask(face, now)
        self._change_faces()

    # -- publications and queries

    def _on_push(self, face: Face, message: Push, now: float) -> None:
        key = face.resolve(message.wire_expr)
        tree = self.tree(face, message.node_id)
        if key is None or tree is None:
            return
        targets = self.routes.push(face, key, tree)
        if targets and self.timestamping is not None:
            stamped = self.timestamping.timestamp(message)
            if stamped is None:
                return
            message = stamped
        for target in targets:
            node_id = tree if target.region is Region.ROUTER else SELF
            self._out.append((target, replace(message, wire_expr=target.to_wire_expr(key), node_id=node_id)))

    def _on_request(self, face: Face, request: Request, now: float) -> None:
        self._requests.on_request(face, request, self.tree(face, request.node_id), now)

    def _on_response(self, face: Face, response: Response, now: float) -> None:
        self._requests.on_response(face, response)

    def _on_response_final(self, face: Face, final: ResponseFinal, now: float) -> None:
        self._requests.on_response_final(face, final.request_id)

    # -- time

    def next_timeout(self) -> float | None:
        """When `handle_timeout` has something to do."""
        times = [self._requests.next_timeout(), self._asking.next_timeout()]
        if self._sources is not None:
            times += [self._sources.network.trees_due_at, self._sources.next_timeout()]
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> Outgoing:
        """Give up on answers that are too late, and draw the trees that are due."""
        self._requests.handle_timeout(now)
        self._asking.handle_timeout(now)
        if self._sources is not None:
            self._draw_trees(self._sources, now)
            self._sources.handle_timeout(now)
        return self._flush()

    _MOVES: ClassVar[dict[type[NetworkMessage], Callable[..., None]]] = {
        Declare: _on_declare,
        Interest: _on_interest,
        Push: _on_push,
        Request: _on_request,
        Response: _on_response,
        ResponseFinal: _on_response_final,
        NetworkOam: _on_oam,
    }
