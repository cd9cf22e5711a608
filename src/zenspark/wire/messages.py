"""Declarations of every message of the protocol.

Read a class as bytes, top to bottom. The header string is the first byte from bit 7 to bit 0; the extension block is at
the position of the first `Ext` field (or `exts`, the unknown ones), and extensions are written in the order declared.
`wire/codec.py` is generated from this file: edit here, then `make codec`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from zenspark.errors import CloseReason
from zenspark.wire.message_schema import (
    Bits,
    Blob,
    Ext,
    Flags,
    FunctionCodec,
    LongText,
    Message,
    Rest,
    RestText,
    ShortBlob,
    Size,
    ValueCodec,
    When,
    u8,
    u16,
    z16,
    z32,
    z64,
)
from zenspark.wire.values import (
    BoundExpr,
    Consolidation,
    Encoding,
    EntityId,
    Extensions,
    InterestMode,
    Locator,
    NextSns,
    Priority,
    QoS,
    QueryableInfo,
    QueryBody,
    QueryTarget,
    Roles,
    SourceInfo,
    Timestamp,
    TimestampStack,
    TimeUnit,
    WhatAmI,
    WireExpr,
    ZenohId,
)

SizedId = Annotated[ZenohId, ValueCodec(ZenohId, "sized")]
ExtensionExpr = Annotated[WireExpr, ValueCodec(WireExpr, "extension")]

# -- scouting: one datagram each ---------------------------------------------------------------------------------


class ScoutingMessage(Message):
    """Base of scouting messages: one datagram each, for discovery."""

    LENIENT: ClassVar = True


class Scout(ScoutingMessage, header="Z|_:2|0x01"):
    """SCOUT: discovery request; `what` is the bitmap of roles that shall reply."""

    version: u8
    roles: ClassVar[Flags] = Flags("LEN:4|I|WHAT:3")
    what: Annotated[Roles, Bits("WHAT")]
    zid: Annotated[SizedId | None, When("I"), Size("LEN")] = None
    exts: Extensions = ()


class Hello(ScoutingMessage, header="Z|_|L|0x02"):
    """HELLO: reply to SCOUT, with the node's identity and locators. Without locators, the source address of the
    datagram is the locator."""

    version: u8
    role: ClassVar[Flags] = Flags("LEN:4|_:2|WAI:2")
    whatami: Annotated[WhatAmI, Bits("WAI")]
    zid: Annotated[SizedId, Size("LEN")]
    locators: Annotated[tuple[Locator, ...], When("L")] = ()
    exts: Extensions = ()


# -- transport: between two ends of a link -----------------------------------------------------------------------


MAX_TRANSPORT_ID = 0x07
"""Largest id of a transport message; network messages have larger ones, which distinguishes them in a batch.
Compiled loops have the same constant in `columns/layout.py` and `layout.pxd`; a test compares the three."""


class TransportMessage(Message):
    """Base of transport messages, between the two ends of a link; data is carried inside FRAME and FRAGMENT."""


class TransportOam(TransportMessage, header="Z|ENC:2|0x00", name="OAM"):
    """OAM: transport management; unused by eclipse-zenoh 1.10."""

    id: z16
    priority: Annotated[Priority, Ext(0x1, mandatory=True)] = Priority.DATA
    exts: Extensions = ()
    value: Annotated[z64 | None, When("ENC", 1)] = None
    zbuf: Annotated[Blob | None, When("ENC", 2)] = None


class InitSyn(TransportMessage, header="Z|S|A=0|0x01", listed=True):
    """INIT(SYN): first handshake message; identity and capabilities of the initiator."""

    version: u8
    role: ClassVar[Flags] = Flags("LEN:4|_:2|WAI:2")
    whatami: Annotated[WhatAmI, Bits("WAI")]
    zid: Annotated[SizedId, Size("LEN")]
    resolution: Annotated[u8 | None, When("S")] = None
    batch_size: Annotated[u16 | None, When("S")] = None
    qos: Annotated[bool, Ext(0x1)] = False
    qos_link: Annotated[z64 | None, Ext(0x1)] = None
    shm: Annotated[Rest | None, Ext(0x2)] = None
    auth: Annotated[Rest | None, Ext(0x3)] = None
    multilink: Annotated[Rest | None, Ext(0x4)] = None
    low_latency: Annotated[bool, Ext(0x5)] = False
    compression: Annotated[bool, Ext(0x6)] = False
    patch: Annotated[z64 | None, Ext(0x7)] = None
    region_name: Annotated[RestText | None, Ext(0x8)] = None
    exts: Extensions = ()


class InitAck(TransportMessage, header="Z|S|A=1|0x01", listed=True):
    """INIT(ACK): second handshake message; negotiated parameters, and the cookie that OPEN(SYN) must return."""

    version: u8
    role: ClassVar[Flags] = Flags("LEN:4|_:2|WAI:2")
    whatami: Annotated[WhatAmI, Bits("WAI")]
    zid: Annotated[SizedId, Size("LEN")]
    resolution: Annotated[u8 | None, When("S")] = None
    batch_size: Annotated[u16 | None, When("S")] = None
    cookie: ShortBlob
    qos: Annotated[bool, Ext(0x1)] = False
    qos_link: Annotated[z64 | None, Ext(0x1)] = None
    shm: Annotated[Rest | None, Ext(0x2)] = None
    auth: Annotated[Rest | None, Ext(0x3)] = None
    multilink: Annotated[Rest | None, Ext(0x4)] = None
    low_latency: Annotated[bool, Ext(0x5)] = False
    compression: Annotated[bool, Ext(0x6)] = False
    patch: Annotated[z64 | None, Ext(0x7)] = None
    region_name: Annotated[RestText | None, Ext(0x8)] = None
    exts: Extensions = ()


class OpenSyn(TransportMessage, header="Z|T|A=0|0x02", listed=True):
    """OPEN(SYN): third handshake message; the cookie, lease and initial sequence number of the initiator."""

    unit: Annotated[TimeUnit, Bits("T")]
    lease: z64
    initial_sn: z32
    cookie: ShortBlob
    qos: Annotated[bool, Ext(0x1)] = False
    shm: Annotated[Rest | None, Ext(0x2)] = None
    auth: Annotated[Rest | None, Ext(0x3)] = None
    multilink: Annotated[Rest | None, Ext(0x4)] = None
    low_latency: Annotated[bool, Ext(0x5)] = False
    compression: Annotated[bool, Ext(0x6)] = False
    remote_bound: Annotated[z64 | None, Ext(0x7)] = None
    exts: Extensions = ()


class OpenAck(TransportMessage, header="Z|T|A=1|0x02", listed=True):
    """OPEN(ACK): last handshake message; lease and initial sequence number of the acceptor."""

    unit: Annotated[TimeUnit, Bits("T")]
    lease: z64
    initial_sn: z32
    qos: Annotated[bool, Ext(0x1)] = False
    shm: Annotated[Rest | None, Ext(0x2)] = None
    auth: Annotated[Rest | None, Ext(0x3)] = None
    multilink: Annotated[bool, Ext(0x4)] = False
    low_latency: Annotated[bool, Ext(0x5)] = False
    compression: Annotated[bool, Ext(0x6)] = False
    remote_bound: Annotated[z64 | None, Ext(0x7)] = None
    exts: Extensions = ()


class Close(TransportMessage, header="Z|_|S|0x03"):
    """CLOSE: ends this link (S = 0) or the whole session (S = 1), with a reason."""

    session: Annotated[bool, Bits("S")]
    reason: u8
    exts: Extensions = ()

    @property
    def close_reason(self) -> CloseReason:
        """The reason as an enumeration member; unknown numbers are GENERIC."""
        return CloseReason(self.reason) if self.reason in set(CloseReason) else CloseReason.GENERIC


class KeepAlive(TransportMessage, header="Z|_:2|0x04"):
    """KEEP_ALIVE: renews the lease when nothing else is sent."""

    exts: Extensions = ()


class Frame(TransportMessage, header="Z|_|R|0x05"):
    """FRAME: network messages of one priority and reliability; it ends where the next transport message begins."""

    reliable: Annotated[bool, Bits("R")]
    sn: z32
    priority: Annotated[Priority, Ext(0x1, mandatory=True)] = Priority.DATA
    exts: Extensions = ()
    msgs: Annotated[tuple[NetworkMessage, ...], FunctionCodec("network_messages")] = ()


class Fragment(TransportMessage, header="Z|M|R|0x06"):
    """FRAGMENT: part of one network message too large for a batch; it extends to the end of its batch."""

    more: Annotated[bool, Bits("M")]
    reliable: Annotated[bool, Bits("R")]
    sn: z32
    priority: Annotated[Priority, Ext(0x1, mandatory=True)] = Priority.DATA
    first: Annotated[bool, Ext(0x2)] = False
    drop: Annotated[bool, Ext(0x3)] = False
    exts: Extensions = ()
    payload: Rest


class Join(TransportMessage, header="Z|S|T|0x07", listed=True):
    """JOIN: announces membership of a multicast group, parameters and next sequence numbers; sent periodically instead
    of a handshake."""

    version: u8
    role: ClassVar[Flags] = Flags("LEN:4|_:2|WAI:2")
    whatami: Annotated[WhatAmI, Bits("WAI")]
    zid: Annotated[SizedId, Size("LEN")]
    resolution: Annotated[u8 | None, When("S")] = None
    batch_size: Annotated[u16 | None, When("S")] = None
    unit: Annotated[TimeUnit, Bits("T")]
    lease: z64
    sn_re: z32
    sn_be: z32
    qos: Annotated[NextSns | None, Ext(0x1, mandatory=True)] = None
    shm: Annotated[Rest | None, Ext(0x2, mandatory=True)] = None
    patch: Annotated[z64 | None, Ext(0x7)] = None
    exts: Extensions = ()


# -- data: the innermost part of PUSH, REQUEST and RESPONSE ------------------------------------------------------


class DataMessage(Message):
    """Base of the bodies of PUSH, REQUEST and RESPONSE."""

    TAG: ClassVar = "kind"


class Put(DataMessage, header="Z|E|T|0x01"):
    """PUT: a value published on a key."""

    timestamp: Annotated[Timestamp | None, When("T")] = None
    encoding: Annotated[Encoding, When("E")] = Encoding.BYTES
    source_info: Annotated[SourceInfo | None, Ext(0x1)] = None
    shm: Annotated[bool, Ext(0x2, mandatory=True)] = False
    attachment: Annotated[Rest | None, Ext(0x3)] = None
    exts: Extensions = ()
    payload: Annotated[bytes, FunctionCodec("payload", "shm")]


class Del(DataMessage, header="Z|_|T|0x02"):
    """DEL: deletion of a key."""

    timestamp: Annotated[Timestamp | None, When("T")] = None
    source_info: Annotated[SourceInfo | None, Ext(0x1)] = None
    attachment: Annotated[Rest | None, Ext(0x2)] = None
    exts: Extensions = ()


class Query(DataMessage, header="Z|P|C|0x03"):
    """QUERY: parameters, an optional value, and the consolidation of replies."""

    consolidation: Annotated[Consolidation, When("C")] = Consolidation.AUTO
    parameters: Annotated[LongText, When("P")] = ""
    source_info: Annotated[SourceInfo | None, Ext(0x1)] = None
    shm: Annotated[bool, Ext(0x4)] = False
    body: Annotated[QueryBody | None, Ext(0x3)] = None
    attachment: Annotated[Rest | None, Ext(0x5)] = None
    exts: Extensions = ()


class Reply(DataMessage, header="Z|_|C|0x04"):
    """REPLY: body of a successful response: PUT or DEL."""

    consolidation: Annotated[Consolidation, When("C")] = Consolidation.AUTO
    exts: Extensions = ()
    body: Put | Del


class Err(DataMessage, header="Z|E|_|0x05"):
    """ERR: body of an error response, with a payload chosen by the queryable."""

    encoding: Annotated[Encoding, When("E")] = Encoding.BYTES
    source_info: Annotated[SourceInfo | None, Ext(0x1)] = None
    shm: Annotated[bool, Ext(0x2, mandatory=True)] = False
    exts: Extensions = ()
    payload: Annotated[bytes, FunctionCodec("payload", "shm")]


# -- declarations: the body of DECLARE ---------------------------------------------------------------------------


class Declaration(Message):
    """Base of declarations: the bodies of DECLARE."""

    TAG: ClassVar = "decl"


class DeclareKeyexpr(Declaration, header="Z|_|N|0x00"):
    """D_KEYEXPR: maps an id of the sender to a key expression."""

    expr_id: z16
    wire_expr: BoundExpr
    exts: Extensions = ()


class UndeclareKeyexpr(Declaration, header="Z|_:2|0x01"):
    """U_KEYEXPR: removes an id of the sender."""

    expr_id: z16
    exts: Extensions = ()


class DeclareSubscriber(Declaration, header="Z|M|N|0x02"):
    """D_SUBSCRIBER: the sender subscribes to a key expression."""

    id: z32
    wire_expr: WireExpr
    exts: Extensions = ()


class UndeclareSubscriber(Declaration, header="Z|_:2|0x03"):
    """U_SUBSCRIBER: ends a subscription."""

    id: z32
    ext_wire_expr: Annotated[ExtensionExpr | None, Ext(0xF, mandatory=True)] = None
    exts: Extensions = ()


class DeclareQueryable(Declaration, header="Z|M|N|0x04"):
    """D_QUERYABLE: the sender replies to queries that match a key expression."""

    id: z32
    wire_expr: WireExpr
    info: Annotated[QueryableInfo, Ext(0x1)] = QueryableInfo.NONE
    exts: Extensions = ()


class UndeclareQueryable(Declaration, header="Z|_:2|0x05"):
    """U_QUERYABLE: ends a queryable."""

    id: z32
    ext_wire_expr: Annotated[ExtensionExpr | None, Ext(0xF, mandatory=True)] = None
    exts: Extensions = ()


class DeclareToken(Declaration, header="Z|M|N|0x06"):
    """D_TOKEN: a liveliness token on a key."""

    id: z32
    wire_expr: WireExpr
    exts: Extensions = ()


class UndeclareToken(Declaration, header="Z|_:2|0x07"):
    """U_TOKEN: ends a liveliness token."""

    id: z32
    ext_wire_expr: Annotated[ExtensionExpr | None, Ext(0xF, mandatory=True)] = None
    exts: Extensions = ()


class DeclareFinal(Declaration, header="Z|_:2|0x1A"):
    """D_FINAL: all current declarations that match an interest have been sent."""

    exts: Extensions = ()


AnyDeclaration: TypeAlias = (
    DeclareKeyexpr
    | UndeclareKeyexpr
    | DeclareSubscriber
    | UndeclareSubscriber
    | DeclareQueryable
    | UndeclareQueryable
    | DeclareToken
    | UndeclareToken
    | DeclareFinal
)

# -- network: from node to node, hop by hop ----------------------------------------------------------------------


class NetworkMessage(Message):
    """Base of network messages, forwarded hop by hop; they are self-delimiting, so several fit in one frame."""


class Interest(NetworkMessage, header="Z|MODE:2|0x19"):
    """INTEREST: requests current declarations, future ones, or both; Final ends it."""

    mode: Annotated[InterestMode, Bits("MODE")]
    id: z32
    options: ClassVar[Flags] = Flags("A|M|N|R|T|Q|S|K", when="MODE")
    aggregate: Annotated[bool, Bits("A")] = False
    tokens: Annotated[bool, Bits("T")] = False
    queryables: Annotated[bool, Bits("Q")] = False
    subscribers: Annotated[bool, Bits("S")] = False
    keyexprs: Annotated[bool, Bits("K")] = False
    wire_expr: Annotated[WireExpr | None, When("R")] = None
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    node_id: Annotated[z16, Ext(0x3, mandatory=True)] = 0
    exts: Extensions = ()


class ResponseFinal(NetworkMessage, header="Z|_:2|0x1A"):
    """RESPONSE_FINAL: all responses to a request have been sent."""

    request_id: z32
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    exts: Extensions = ()


class Response(NetworkMessage, header="Z|M|N|0x1B"):
    """RESPONSE: one reply or error to a request, returned hop by hop."""

    request_id: z32
    wire_expr: WireExpr
    qos: Annotated[QoS | None, Ext(0x1)] = None
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    responder: Annotated[EntityId | None, Ext(0x3)] = None
    ts_stack: Annotated[TimestampStack | None, Ext(0x7)] = None
    exts: Extensions = ()
    body: Reply | Err


class Request(NetworkMessage, header="Z|M|N|0x1C"):
    """REQUEST: one query, forwarded to the matching queryables."""

    request_id: z32
    wire_expr: WireExpr
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    node_id: Annotated[z16, Ext(0x3, mandatory=True)] = 0
    target: Annotated[QueryTarget, Ext(0x4, mandatory=True)] = QueryTarget.BEST_MATCHING
    budget: Annotated[z32, Ext(0x5)] = 0
    timeout_ms: Annotated[z64 | None, Ext(0x6)] = None
    ts_stack: Annotated[TimestampStack | None, Ext(0x7)] = None
    exts: Extensions = ()
    body: Query


class Push(NetworkMessage, header="Z|M|N|0x1D"):
    """PUSH: one publication, forwarded to the matching subscribers."""

    wire_expr: WireExpr
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    node_id: Annotated[z16, Ext(0x3, mandatory=True)] = 0
    ts_stack: Annotated[TimestampStack | None, Ext(0x7)] = None
    exts: Extensions = ()
    body: Put | Del


class Declare(NetworkMessage, header="Z|_|I|0x1E"):
    """DECLARE: one declaration; with an interest id if it is part of the reply to a current interest."""

    interest_id: Annotated[z32 | None, When("I")] = None
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    node_id: Annotated[z16, Ext(0x3, mandatory=True)] = 0
    exts: Extensions = ()
    body: AnyDeclaration


class NetworkOam(NetworkMessage, header="Z|ENC:2|0x1F", name="OAM"):
    """OAM: network management; id 1 carries link states."""

    id: z16
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    exts: Extensions = ()
    value: Annotated[z64 | None, When("ENC", 1)] = None
    zbuf: Annotated[Blob | None, When("ENC", 2)] = None

    LINK_STATE: ClassVar = 1


class LinkState(Message, header="_:3|G|H|L|W|P"):
    """Link state of one node of the network; its flags are a variable-length integer."""

    gateway: Annotated[bool, Bits("G")] = False
    psid: z64
    sn: z64
    zid: Annotated[ZenohId | None, When("P")] = None
    whatami: Annotated[u8 | None, When("W")] = None
    locators: Annotated[tuple[Locator, ...] | None, When("L")] = None
    links: tuple[z64, ...] = ()
    weights: Annotated[tuple[int, ...] | None, When("H"), FunctionCodec("weights", "links")] = None
