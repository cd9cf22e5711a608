"""Router: messages from faces in, messages to faces out.

Invariants: a PUSH reaches every face with a matching subscriber, once, and never goes back to its source; a REQUEST
reaches the queryables its target selects and ends in exactly one RESPONSE_FINAL; the reply to an INTEREST is the
current declarations and then D_FINAL. Roles differ only in the table of `routing/routes.py`; a router also belongs to a
network of routers (`linkstate/network.py`), where declarations belong to routers instead of neighbours
(`linkstate/sourced_declarations.py`). A peer that relays belongs to it like a router (docs/routing.md).

All declarations of a face are removed with the face. Protocol violations of a peer are ignored, never raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, assert_never

import msgspec

from zenspark.router.declarations.announcements import emit_declare
from zenspark.router.declarations.declarations import Declarations
from zenspark.router.face import (
    KIND_BY_DECLARATION,
    KIND_BY_UNDECLARATION,
    MAX_REQUEST_BITS,
    REGION_BY_ROLES,
    DeclarationKind,
    Face,
    FaceDeclaration,
    Outgoing,
    Region,
)
from zenspark.router.interceptors.actions import make_final
from zenspark.router.interceptors.rules import NeighbourAttributes, RouterSubject
from zenspark.router.interests.interest_handler import INITIAL_INTEREST, InterestHandler
from zenspark.router.interests.table import INTEREST_TIMEOUT_SECONDS, InterestTable
from zenspark.router.limits import Admission, RefusalObserver, RefusalReason, Refusals, RouterLimits
from zenspark.router.linkstate.network import RouterNetwork
from zenspark.router.linkstate.peer_links import PeerLinks
from zenspark.router.linkstate.sourced_declarations import SourcedDeclarations
from zenspark.router.linkstate.states import SELF, is_oversized
from zenspark.router.queries.query_router import MAX_QUERY_SECONDS, QueryRouter, make_error_response
from zenspark.router.routing.routes import ANNOUNCED_WITHOUT_INTEREST, ReachabilityPolicy
from zenspark.router.routing.tables import DeclarationTable
from zenspark.router.timestamping import TimestampPolicy
from zenspark.wire.message_schema import replace
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
    """Configurable behaviour of a router."""

    query_timeout: float = 10.0
    """Seconds until requests without a timeout expire."""
    max_query_timeout: float = MAX_QUERY_SECONDS
    """Maximum seconds until a request of a neighbour expires, whatever timeout it carries."""
    interest_timeout: float = INTEREST_TIMEOUT_SECONDS
    """Seconds to wait for upstream nodes to reply to a forwarded interest."""
    trusts_complete_flag: bool = False
    """Whether AllComplete selects all queryables declared complete, not only those whose key includes that of the
    query."""
    is_broker: bool = True
    """Whether a router forwards messages between its peers that have no link to each other."""
    relays: bool = False
    """Whether this node forms one network with the neighbouring routers and peers that relay, too."""
    weights: Mapping[ZenohId, int] = {}
    """Link weights of neighbouring routers."""
    first_link_state_sn: int = 1
    """Initial version of this node's link state: later starts should begin higher."""
    timestamping: TimestampPolicy | None = None
    """Clock for publications without a timestamp; None to leave them without."""
    routers: tuple[RouterSubject, ...] | None = None
    """Subjects that may connect to a router as another router; None for any."""
    limits: RouterLimits = RouterLimits()
    """Limits on the state neighbours may create in this node."""


def _is_accepted_from_member(member: Face, message: NetworkMessage) -> bool:
    """Whether a message of a group member is processed: publications, requests, interests, tokens and key mappings are.

    Its subscribers and queryables are ignored, as in eclipse-zenoh. From a node that also has a session, only the
    session counts.
    """
    match message:
        case Push() | Request() | Interest() | Declare(body=DeclareToken()):
            return not member.is_duplicate_member
        case Declare(body=DeclareKeyexpr() | UndeclareKeyexpr() | UndeclareToken()):
            return True
    return False


class Router:
    """Routing state of one node, and the handlers of all network messages."""

    def __init__(
        self,
        zid: ZenohId,
        whatami: WhatAmI,
        policy: RouterPolicy | None = None,
        refusal_observer: RefusalObserver | None = None,
    ) -> None:
        policy = policy or RouterPolicy()
        self.zid = zid
        self.whatami = whatami
        self.policy = policy
        self.timestamping = policy.timestamping
        self.refusals = Refusals(refusal_observer)
        """Counters of messages refused because of a limit."""
        self._admission = Admission(policy.limits, self.refusals)
        self._always_within = policy.limits.key.always_within
        network = None
        if whatami is WhatAmI.ROUTER or (policy.relays and whatami is WhatAmI.PEER):
            network = RouterNetwork(zid, policy.weights, policy.first_link_state_sn, self._admission)
        self._out: Outgoing = []
        self._last_face_number = 0
        self._faces: dict[int, Face] = {}
        self._peers: dict[ZenohId, Face] = {}
        """Peers connected to this router."""
        self._initialized_relays: set[Face] = set()
        """Neighbouring relays that were sent D_FINAL(0), so that they know all declarations of this node."""
        self._peer_links = PeerLinks()
        self._reachability = ReachabilityPolicy(policy.is_broker, whatami is WhatAmI.ROUTER)
        self.interests = InterestTable()
        self._declarations = Declarations(self._out, self.interests, self._reachability, network, self._admission)
        self._sources = self._declarations.sources
        self._interest_handler = InterestHandler(
            self._out, self.interests, self._declarations, self._reachability, self._admission, policy.interest_timeout
        )
        self.routes = self._declarations.routes
        self.routes.trusts_complete_flag = policy.trusts_complete_flag
        self._query_router = QueryRouter(
            self._out, self.routes, self._admission, policy.query_timeout, policy.max_query_timeout
        )

    # -- faces

    def add_local(self) -> Face:
        """Add the face of this node's own session."""
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
        """Add a neighbour; returns its face and the messages to send at once.

        `locators` are this node's addresses as reachable by the neighbour and others, `request_bits` the negotiated RID
        resolution, `relays` whether relaying was negotiated.
        """
        region = Region.ROUTER if relays else REGION_BY_ROLES[self.whatami, whatami]
        face = self._add(zid, whatami, region, request_bits, relays)
        if self._sources is not None and face.region is Region.ROUTER:
            self._sources.add_neighbour(face)
            self._out += self._sources.network.add_neighbour(face, locators, now)
        self._interest_handler.add_face(face, now)
        self._declarations.add_face(face)
        self._announce_served_peer(face, True, now)
        if face.region is Region.PEER:
            emit_declare(self._out, face, DeclareFinal(), INITIAL_INTEREST)
        return face, self._flush()

    def add_group(self) -> Face:
        """Add the face of a multicast group, which gets every publication: declarations of its members are ignored."""
        group = self._add(self.zid, self.whatami, Region.GROUP)
        self.routes.add_face(group)
        return group

    def add_member(self, group: Face, zid: ZenohId, whatami: WhatAmI) -> Face:
        """Add a member of a group."""
        face = self._add(zid, whatami, Region.MEMBER)
        face.group = group
        group.members.add(zid)
        self.routes.clear()
        return face

    def _announce_served_peer(self, face: Face, is_present: bool, now: float) -> None:
        """Announce to other relays that a peer which does not relay is reached through this router, or no longer."""
        if self.policy.relays and self.network is not None and face.region is Region.DOWNSTREAM_PEER:
            self._out += self.network.set_served_peer(face.zid, is_present, face, now)

    def _add(
        self,
        zid: ZenohId,
        whatami: WhatAmI,
        region: Region,
        request_bits: int = MAX_REQUEST_BITS,
        relays: bool = False,
    ) -> Face:
        self._last_face_number += 1
        relays = relays and WhatAmI.PEER in (self.whatami, whatami)
        face = Face(self._last_face_number, zid, whatami, region, request_bits, relays)
        self._faces[face.number] = face
        if region is Region.DOWNSTREAM_PEER:
            self._peers[zid] = face
        self._update_duplicate_members()
        return face

    def _update_duplicate_members(self) -> None:
        """Mark group members whose messages are also received elsewhere: one path is used, preferably a session."""
        members = [face for face in self._faces.values() if face.region is Region.MEMBER]
        zids = {face.zid for face in self._faces.values() if face.region is not Region.MEMBER} if members else set()
        zids |= self._reachability.reached_via_network
        for face in members:
            face.is_duplicate_member = face.zid in zids
            zids.add(face.zid)

    def remove_face(self, face: Face, now: float) -> Outgoing:
        """Remove a neighbour with its declarations, interests and pending requests."""
        del self._faces[face.number]
        self._interest_handler.remove_face(face)
        self._declarations.remove_face(face)
        self._query_router.remove_face(face)
        if face.region is Region.DOWNSTREAM_PEER:
            self._remove_peer(face, now)
        if self._sources is not None and face.region is Region.ROUTER:
            self._initialized_relays.discard(face)
            self._sources.remove_neighbour(face, now)
            self._out += self._sources.network.remove_neighbour(face, now)
        if face.group is not None:
            face.group.members.discard(face.zid)
        self._update_duplicate_members()
        return self._flush()

    def _remove_peer(self, peer: Face, now: float) -> None:
        self._peer_links.remove_face(peer)
        if self._peers[peer.zid] is peer:
            del self._peers[peer.zid]
            self._reachability.remove_peer(peer.zid)
            self._announce_served_peer(peer, False, now)

    def _flush(self) -> Outgoing:
        out = self._out.copy()
        self._out.clear()
        return out

    # -- messages

    def receive(self, face: Face, message: NetworkMessage, now: float) -> Outgoing:
        """Handle a message from a face; returns the messages to send."""
        if face.region is not Region.MEMBER or _is_accepted_from_member(face, message):
            self._HANDLERS[type(message)](self, face, message, now)
        return self._flush()

    def reject(self, face: Face, message: NetworkMessage, text: str) -> Outgoing:
        """Reply with its final to a query or interest that must not be processed; a querier also gets an error with the
        text."""
        final = make_final(message)
        if final is None or face.region is Region.MEMBER:
            return []
        if isinstance(message, Request):
            return [
                (face, make_error_response(message.request_id, message.qos, self.zid, text.encode())),
                (face, final),
            ]
        return [(face, final)]

    def _on_declare(self, face: Face, message: Declare, now: float) -> None:
        body = message.body
        match body:
            case DeclareKeyexpr():
                self._on_declare_keyexpr(face, body)
            case UndeclareKeyexpr():
                face.remove_key_mapping(body.expr_id)
            case DeclareFinal():
                if message.interest_id is not None:
                    self._interest_handler.on_final(face, message.interest_id)
            case DeclareSubscriber() | DeclareQueryable() | DeclareToken():
                self._on_declaration(face, message, body, now)
            case UndeclareSubscriber() | UndeclareQueryable() | UndeclareToken():
                self._on_undeclaration(face, message, body, now)
            case _:
                assert_never(body)

    def _on_declare_keyexpr(self, face: Face, body: DeclareKeyexpr) -> None:
        key = face.new_key_mapping(body)
        if key is None or self._admission.admit_key_mapping(face, face.usage, key):
            face.add_key_mapping(body)

    def _on_declaration(
        self, face: Face, message: Declare, body: DeclareSubscriber | DeclareQueryable | DeclareToken, now: float
    ) -> None:
        key = self._valid_key(face, body.wire_expr)
        if key is None:
            return
        kind = KIND_BY_DECLARATION[type(body)]
        info = body.info if isinstance(body, DeclareQueryable) else QueryableInfo.NONE
        if self._sources is not None and face.region is Region.ROUTER:
            source = self._sources.network.source(face, message.node_id)
            if source is not None:
                self._sources.declare(face, source, kind, key, info, now)
            return
        interest_id = message.interest_id
        if interest_id is None or self._interest_handler.on_interest_reply(face, interest_id, kind, key, info):
            self._declarations.declare(face, kind, body.id, FaceDeclaration(key, info))

    def _on_undeclaration(
        self,
        face: Face,
        message: Declare,
        body: UndeclareSubscriber | UndeclareQueryable | UndeclareToken,
        now: float,
    ) -> None:
        kind = KIND_BY_UNDECLARATION[type(body)]
        if self._sources is None or face.region is not Region.ROUTER:
            self._declarations.undeclare(face, kind, body.id)
            return
        key = None if body.ext_wire_expr is None else self._valid_key(face, body.ext_wire_expr)
        source = self._sources.network.source(face, message.node_id)
        if key is not None and source is not None:
            self._sources.undeclare(face, source, kind, key, now)

    def _valid_key(self, face: Face, expr: WireExpr) -> str | None:
        key = face.resolve(expr)
        return key if key is not None and self._admission.admit_key(face, key) else None

    def is_within_limits(self, key: str) -> bool:
        """Whether a key is within this node's limits."""
        return len(key) <= self._always_within or self.policy.limits.key.excess(key) is None

    def _on_interest(self, face: Face, interest: Interest, now: float) -> None:
        self._interest_handler.on_interest(face, interest, now)

    @property
    def faces_awaiting_declarations(self) -> list[Face]:
        """Faces to whose interests the reply is not complete."""
        return self._interest_handler.current_declarations.awaiting_faces

    def is_awaiting_declarations(self, face: Face) -> bool:
        """Whether the reply to the interests of a face is not complete."""
        return self._interest_handler.current_declarations.is_awaited_by(face)

    def send_next_portion(self, face: Face) -> Outgoing:
        """Send the next portion of the declarations in reply to a face's interests."""
        self._interest_handler.current_declarations.send_next_portion(face)
        return self._flush()

    @property
    def tables(self) -> dict[DeclarationKind, DeclarationTable]:
        """Declared keys and their owners, by kind."""
        return self._declarations.tables

    # -- the network of routers

    def accepts(self, whatami: WhatAmI, neighbour: NeighbourAttributes, name: str) -> bool:
        """Whether a connecting node may have its role: routers may be restricted, others are not. `name` is what log
        lines call the node."""
        if WhatAmI.ROUTER is not self.whatami or whatami is not WhatAmI.ROUTER or self.policy.routers is None:
            return True
        if any(subject.matches(neighbour) for subject in self.policy.routers):
            return True
        self.refusals.count(RefusalReason.ROUTERS, name)
        return False

    @property
    def network(self) -> RouterNetwork | None:
        """Network of routers and relays, if this node belongs to one."""
        return None if self._sources is None else self._sources.network

    def root_psid(self, face: Face, node_id: int) -> int | None:
        """Psid of the router where a message from a face entered the network. None if unknown, or if the message
        arrived off its tree: then it must not be forwarded, or it might loop."""
        if self._sources is None or face.region is not Region.ROUTER:
            return SELF
        network = self._sources.network
        source = network.source(face, node_id)
        return None if source is None or network.parent(source) is not face else network.psid(source)

    def _on_oam(self, face: Face, message: NetworkOam, now: float) -> None:
        if is_oversized(message):
            self.refusals.count(RefusalReason.NETWORK_LINKS, face)
            return
        if self._sources is not None and face.region is Region.ROUTER:
            self._out += self._sources.network.receive(face, message, now)
            self._recompute_due_trees(self._sources, now)
        elif face.region is Region.DOWNSTREAM_PEER:
            links = self._peer_links.receive(face, message)
            changed = frozenset() if links is None else self._reachability.set_peer_links(face.zid, links)
            for zid in sorted(changed & self._peers.keys()):
                self._declarations.update_reachability(face, self._peers[zid])

    @property
    def may_relay(self) -> bool:
        """Whether the network has capacity for one more relay; a neighbour beyond that is accepted without relaying."""
        return self._sources is not None and self._sources.network.has_capacity

    @property
    def initial_declarations_received(self) -> bool:
        """Whether every neighbouring peer and relay has sent its initial declarations, and is reachable."""
        faces = self._faces.values()
        return not any(
            face.initial_declarations_pending or (face.relays and face not in self._initialized_relays)
            for face in faces
        )

    def _recompute_due_trees(self, sources: SourcedDeclarations, now: float) -> None:
        due = sources.network.trees_due_at
        if due is not None and due <= now:
            change, floods = sources.network.recompute_trees(now)
            self._out += floods
            self.routes.clear()
            sources.apply_tree_change(change, now)
            if self.policy.relays:
                self._update_relays(sources.network, now)

    def _update_relays(self, network: RouterNetwork, now: float) -> None:
        """Follow a tree change as a relay: new neighbours get D_FINAL(0), and some neighbours are now reached through
        the network instead of their links, or vice versa."""
        for face in network.children(self.zid):
            if face.relays and face not in self._initialized_relays:
                self._initialized_relays.add(face)
                emit_declare(self._out, face, DeclareFinal(), INITIAL_INTEREST)
        changed = self._reachability.reached_via_network ^ network.reached_via_network
        self._reachability.reached_via_network = network.reached_via_network
        for face in [
            face for face in self._faces.values() if face.region in ANNOUNCED_WITHOUT_INTEREST and face.zid in changed
        ]:
            self._declarations.update_face_reachability(face)
            if face.region is Region.UPSTREAM:
                self._interest_handler.propagate_all(face, now)
        self._update_duplicate_members()

    # -- publications and queries

    def _on_push(self, face: Face, message: Push, now: float) -> None:
        key = face.resolve(message.wire_expr)
        root_psid = self.root_psid(face, message.node_id)
        if key is None or root_psid is None:
            return
        targets = self.routes.push_next_hops(face, key, root_psid)
        if targets and self.timestamping is not None:
            timestamped = self.timestamping.timestamp(message)
            if timestamped is None:
                return
            message = timestamped
        for target in targets:
            node_id = root_psid if target.region is Region.ROUTER else SELF
            self._out.append((target, replace(message, wire_expr=target.to_wire_expr(key), node_id=node_id)))

    def _on_request(self, face: Face, request: Request, now: float) -> None:
        self._query_router.on_request(face, request, self.root_psid(face, request.node_id), now)

    def _on_response(self, face: Face, response: Response, now: float) -> None:
        self._query_router.on_response(face, response)

    def _on_response_final(self, face: Face, final: ResponseFinal, now: float) -> None:
        self._query_router.on_response_final(face, final.request_id)

    # -- timers

    def next_timeout(self) -> float | None:
        """Time at which `handle_timeout` must be called; None for never."""
        times = [self._query_router.next_timeout(), self._interest_handler.next_timeout()]
        if self._sources is not None:
            times += [self._sources.network.trees_due_at, self._sources.next_timeout()]
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> Outgoing:
        """Expire queries and interests, recompute trees that are due, and remove unconfirmed declarations."""
        self._query_router.handle_timeout(now)
        self._interest_handler.handle_timeout(now)
        if self._sources is not None:
            self._recompute_due_trees(self._sources, now)
            self._sources.handle_timeout(now)
        return self._flush()

    _HANDLERS: ClassVar[dict[type[NetworkMessage], Callable[..., None]]] = {
        Declare: _on_declare,
        Interest: _on_interest,
        Push: _on_push,
        Request: _on_request,
        Response: _on_response,
        ResponseFinal: _on_response_final,
        NetworkOam: _on_oam,
    }
