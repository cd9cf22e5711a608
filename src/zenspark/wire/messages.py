"""Every message of the protocol, declared.

Read a class as bytes, top to bottom. The header string is the first byte from bit 7 to bit 0; the extension block
stands where the first `Ext` field (or `exts`, the unknown ones) stands, and extensions are written in the order
declared. `wire/codec.py` is generated from this file: edit here, then `make codec`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from zenspark.errors import CloseReason
from zenspark.wire.declare import (
    Bits,
    Blob,
    Called,
    Composed,
    Ext,
    Flags,
    LongText,
    Message,
    Rest,
    RestText,
    ShortBlob,
    Size,
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

SizedId = Annotated[ZenohId, Composed(ZenohId, "sized")]
ExtensionExpr = Annotated[WireExpr, Composed(WireExpr, "extension")]

# -- scouting: one datagram each ---------------------------------------------------------------------------------


class ScoutingMessage(Message):
    """A datagram by which nodes find each other."""

    LENIENT: ClassVar = True


class Scout(ScoutingMessage, header="Z|_:2|0x01"):
    """Who is there? `what` is the bitmap of roles that shall answer."""

    version: u8
    roles: ClassVar[Flags] = Flags("LEN:4|I|WHAT:3")
    what: Annotated[Roles, Bits("WHAT")]
    zid: Annotated[SizedId | None, When("I"), Size("LEN")] = None
    exts: Extensions = ()


class Hello(ScoutingMessage, header="Z|_|L|0x02"):
    """Here I am. Without locators, the address the datagram came from is the locator."""

    version: u8
    role: ClassVar[Flags] = Flags("LEN:4|_:2|WAI:2")
    whatami: Annotated[WhatAmI, Bits("WAI")]
    zid: Annotated[SizedId, Size("LEN")]
    locators: Annotated[tuple[Locator, ...], When("L")] = ()
    exts: Extensions = ()


# -- transport: between two ends of a link -----------------------------------------------------------------------


class TransportMessage(Message):
    """What the two ends of a link say to each other; the data travel inside FRAME and FRAGMENT."""


class TransportOam(TransportMessage, header="Z|ENC:2|0x00", name="OAM"):
    """Management of the transport; nobody sends any yet."""

    id: z16
    priority: Annotated[Priority, Ext(0x1, mandatory=True)] = Priority.DATA
    exts: Extensions = ()
    value: Annotated[z64 | None, When("ENC", 1)] = None
    zbuf: Annotated[Blob | None, When("ENC", 2)] = None


class InitSyn(TransportMessage, header="Z|S|A=0|0x01", listed=True):
    """I would like a session: who I am and what I can do."""

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
    """You may have a session on these terms; bring the cookie back."""

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
    """Here is your cookie; I will be heard of within each lease, counting from this number."""

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
    """The session is open; I will be heard of within each lease, counting from this number."""

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
    """This link, or the whole session, ends here."""

    session: Annotated[bool, Bits("S")]
    reason: u8
    exts: Extensions = ()

    @property
    def why(self) -> CloseReason:
        """The reason as a name; unknown numbers are generic."""
        return CloseReason(self.reason) if self.reason in set(CloseReason) else CloseReason.GENERIC


class KeepAlive(TransportMessage, header="Z|_:2|0x04"):
    """I am still here."""

    exts: Extensions = ()


class Frame(TransportMessage, header="Z|_|R|0x05"):
    """Network messages of one priority and reliability; it ends where the next transport message begins."""

    reliable: Annotated[bool, Bits("R")]
    sn: z32
    priority: Annotated[Priority, Ext(0x1, mandatory=True)] = Priority.DATA
    exts: Extensions = ()
    msgs: Annotated[tuple[NetworkMessage, ...], Called("network_messages")] = ()


class Fragment(TransportMessage, header="Z|M|R|0x06"):
    """A slice of one network message too large for a batch; it fills the rest of its batch."""

    more: Annotated[bool, Bits("M")]
    reliable: Annotated[bool, Bits("R")]
    sn: z32
    priority: Annotated[Priority, Ext(0x1, mandatory=True)] = Priority.DATA
    first: Annotated[bool, Ext(0x2)] = False
    drop: Annotated[bool, Ext(0x3)] = False
    exts: Extensions = ()
    payload: Rest


class Join(TransportMessage, header="Z|S|T|0x07", listed=True):
    """I am on this multicast group, on these terms; sent again and again instead of a handshake."""

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
    """What a publication, a query or a reply is about."""

    TAG: ClassVar = "kind"


class Put(DataMessage, header="Z|E|T|0x01"):
    """A value written under a key."""

    timestamp: Annotated[Timestamp | None, When("T")] = None
    encoding: Annotated[Encoding, When("E")] = Encoding.BYTES
    source_info: Annotated[SourceInfo | None, Ext(0x1)] = None
    shm: Annotated[bool, Ext(0x2, mandatory=True)] = False
    attachment: Annotated[Rest | None, Ext(0x3)] = None
    exts: Extensions = ()
    payload: Annotated[bytes, Called("payload", "shm")]


class Del(DataMessage, header="Z|_|T|0x02"):
    """A key removed."""

    timestamp: Annotated[Timestamp | None, When("T")] = None
    source_info: Annotated[SourceInfo | None, Ext(0x1)] = None
    attachment: Annotated[Rest | None, Ext(0x2)] = None
    exts: Extensions = ()


class Query(DataMessage, header="Z|P|C|0x03"):
    """What is asked: parameters, an optional value, and how replies shall be merged."""

    consolidation: Annotated[Consolidation, When("C")] = Consolidation.AUTO
    parameters: Annotated[LongText, When("P")] = ""
    source_info: Annotated[SourceInfo | None, Ext(0x1)] = None
    shm: Annotated[bool, Ext(0x4)] = False
    body: Annotated[QueryBody | None, Ext(0x3)] = None
    attachment: Annotated[Rest | None, Ext(0x5)] = None
    exts: Extensions = ()


class Reply(DataMessage, header="Z|_|C|0x04"):
    """An answer: a value or a removal."""

    consolidation: Annotated[Consolidation, When("C")] = Consolidation.AUTO
    exts: Extensions = ()
    body: Put | Del


class Err(DataMessage, header="Z|E|_|0x05"):
    """A queryable could not answer, and says so in its own words."""

    encoding: Annotated[Encoding, When("E")] = Encoding.BYTES
    source_info: Annotated[SourceInfo | None, Ext(0x1)] = None
    shm: Annotated[bool, Ext(0x2, mandatory=True)] = False
    exts: Extensions = ()
    payload: Annotated[bytes, Called("payload", "shm")]


# -- declarations: the body of DECLARE ---------------------------------------------------------------------------


class Declaration(Message):
    """Something a node has or wants, or no longer."""

    TAG: ClassVar = "decl"


class DeclareKeyexpr(Declaration, header="Z|_|N|0x00"):
    """From now on this number of mine stands for this key expression."""

    expr_id: z16
    wire_expr: BoundExpr
    exts: Extensions = ()


class UndeclareKeyexpr(Declaration, header="Z|_:2|0x01"):
    """This number of mine stands for nothing any more."""

    expr_id: z16
    exts: Extensions = ()


class DeclareSubscriber(Declaration, header="Z|M|N|0x02"):
    """Publications matching this key expression are wanted here."""

    id: z32
    wire_expr: WireExpr
    exts: Extensions = ()


class UndeclareSubscriber(Declaration, header="Z|_:2|0x03"):
    """The peer no longer wants a subscription it had declared."""

    id: z32
    ext_wire_expr: Annotated[ExtensionExpr | None, Ext(0xF, mandatory=True)] = None
    exts: Extensions = ()


class DeclareQueryable(Declaration, header="Z|M|N|0x04"):
    """Queries matching this key expression can be answered here."""

    id: z32
    wire_expr: WireExpr
    info: Annotated[QueryableInfo, Ext(0x1)] = QueryableInfo.NONE
    exts: Extensions = ()


class UndeclareQueryable(Declaration, header="Z|_:2|0x05"):
    """The peer no longer answers queries it had offered to answer."""

    id: z32
    ext_wire_expr: Annotated[ExtensionExpr | None, Ext(0xF, mandatory=True)] = None
    exts: Extensions = ()


class DeclareToken(Declaration, header="Z|M|N|0x06"):
    """Something is alive under this key."""

    id: z32
    wire_expr: WireExpr
    exts: Extensions = ()


class UndeclareToken(Declaration, header="Z|_:2|0x07"):
    """What was alive under a key is gone."""

    id: z32
    ext_wire_expr: Annotated[ExtensionExpr | None, Ext(0xF, mandatory=True)] = None
    exts: Extensions = ()


class DeclareFinal(Declaration, header="Z|_:2|0x1A"):
    """The current declarations an interest asked for have all been sent."""

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
    """What nodes say to each other about keys; each ends where it says, so many fit in one frame."""


class Interest(NetworkMessage, header="Z|MODE:2|0x19"):
    """Tell me of declarations: those there are, those to come, or no more."""

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
    """All responses to a request have been sent."""

    request_id: z32
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    exts: Extensions = ()


class Response(NetworkMessage, header="Z|M|N|0x1B"):
    """One response to a request, on its way back."""

    request_id: z32
    wire_expr: WireExpr
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    responder: Annotated[EntityId | None, Ext(0x3)] = None
    ts_stack: Annotated[TimestampStack | None, Ext(0x7)] = None
    exts: Extensions = ()
    body: Reply | Err


class Request(NetworkMessage, header="Z|M|N|0x1C"):
    """One query on its way to the queryables of a key."""

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
    """One publication on its way to the subscribers of a key."""

    wire_expr: WireExpr
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    node_id: Annotated[z16, Ext(0x3, mandatory=True)] = 0
    ts_stack: Annotated[TimestampStack | None, Ext(0x7)] = None
    exts: Extensions = ()
    body: Put | Del


class Declare(NetworkMessage, header="Z|_|I|0x1E"):
    """One declaration; with an interest id if it answers the current part of that interest."""

    interest_id: Annotated[z32 | None, When("I")] = None
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    node_id: Annotated[z16, Ext(0x3, mandatory=True)] = 0
    exts: Extensions = ()
    body: AnyDeclaration


class NetworkOam(NetworkMessage, header="Z|ENC:2|0x1F", name="OAM"):
    """Management of the network; id 1 carries link states."""

    id: z16
    qos: Annotated[QoS, Ext(0x1)] = QoS.DEFAULT
    timestamp: Annotated[Timestamp | None, Ext(0x2)] = None
    exts: Extensions = ()
    value: Annotated[z64 | None, When("ENC", 1)] = None
    zbuf: Annotated[Blob | None, When("ENC", 2)] = None

    LINK_STATE: ClassVar = 1


class LinkState(Message, header="_:3|G|H|L|W|P"):
    """One node of the routers' graph as another describes it; its flags are an integer of variable length."""

    gateway: Annotated[bool, Bits("G")] = False
    psid: z64
    sn: z64
    zid: Annotated[ZenohId | None, When("P")] = None
    whatami: Annotated[u8 | None, When("W")] = None
    locators: Annotated[tuple[Locator, ...] | None, When("L")] = None
    links: tuple[z64, ...] = ()
    weights: Annotated[tuple[int, ...] | None, When("H"), Called("weights", "links")] = None
