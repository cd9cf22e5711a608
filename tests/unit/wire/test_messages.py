"""The bytes that the protocol reference shows, and the messages they encode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zenspark.errors import CloseReason, DecodeError, EncodeError, UnknownExtension
from zenspark.wire.buffer import Writer
from zenspark.wire.codec import (
    decode_bare_batch,
    decode_batch,
    decode_link_states,
    decode_network,
    decode_scouting,
    decode_transport,
    encode,
    encode_link_states,
    write,
    write_scouting_message,
    write_transport_message,
)
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import (
    AnyDeclaration,
    Close,
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Del,
    Err,
    Fragment,
    Frame,
    Hello,
    InitAck,
    InitSyn,
    Interest,
    Join,
    KeepAlive,
    LinkState,
    NetworkOam,
    OpenAck,
    OpenSyn,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
    Scout,
    TransportOam,
    UndeclareKeyexpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import (
    BoundExpr,
    Congestion,
    Consolidation,
    Encoding,
    EntityId,
    Extension,
    InterestMode,
    Locator,
    Mapping,
    Priority,
    QoS,
    QueryableInfo,
    QueryBody,
    QueryTarget,
    Roles,
    Timestamp,
    TimeUnit,
    WhatAmI,
    WireExpr,
    ZenohId,
)

A, C = ZenohId(0xA0A1A2A3), ZenohId(0xC0C1C2C3)
SN = 102_766_003
STAMP = Timestamp(7_386_664_595_088_445_305, ZenohId(0x33))
NOWHERE = WireExpr(0, "", Mapping.RECEIVER)


def put(expr: WireExpr, payload: bytes, qos: QoS = QoS.DEFAULT, timestamp: Timestamp | None = None) -> Push:
    return Push(wire_expr=expr, qos=qos, body=Put(payload=payload, timestamp=timestamp))


def declared(declaration: AnyDeclaration, interest_id: int | None = None) -> Declare:
    return Declare(qos=QoS.DECLARE, interest_id=interest_id, body=declaration)


def interest(mode: InterestMode, number: int, **options: Any) -> Interest:  # noqa: ANN401 - letters and a key
    return Interest(mode=mode, id=number, qos=QoS.DECLARE, **options)


SCOUTING = {
    "01 09 03": Scout(version=9, what=Roles(3)),
    "01 09 07": Scout(version=9, what=Roles(7)),
    "01 09 3f c3c2c1c0": Scout(version=9, what=Roles(7), zid=C),
    "22 09 30 a3a2a1a0 01 13 7463702f3132372e302e302e313a3630353635": Hello(
        version=9, whatami=WhatAmI.ROUTER, zid=A, locators=(Locator("tcp/127.0.0.1:60565"),)
    ),
    "02 09 01 07": Hello(version=9, whatami=WhatAmI.PEER, zid=ZenohId(7)),
}
TRANSPORT = {
    "00 01": TransportOam(id=1),
    "a0 01 31 07 8001": TransportOam(id=1, priority=Priority.BACKGROUND, value=128),
    "40 01 01 aa": TransportOam(id=1, zbuf=b"\xaa"),
    "c1 09 12 c1c0 0a cfff 81 27 01": InitSyn(
        version=9,
        whatami=WhatAmI.CLIENT,
        zid=ZenohId(0xC0C1),
        resolution=0x0A,
        batch_size=65_487,
        qos=True,
        patch=1,
    ),
    "81 09 00 07 a1 8ed020 c2 05 f5a7aec00c 43 01 02": InitSyn(
        version=9,
        whatami=WhatAmI.ROUTER,
        zid=ZenohId(7),
        qos_link=534_542,
        shm=bytes.fromhex("f5a7aec00c"),
        auth=b"\x02",
    ),
    "a1 09 30 a3a2a1a0 02 beef 81 a7 01 48 02 6575": InitAck(
        version=9, whatami=WhatAmI.ROUTER, zid=A, cookie=b"\xbe\xef", qos=True, patch=1, region_name="eu"
    ),
    "42 0a b3ab8031 02 beef": OpenSyn(unit=TimeUnit.S, lease=10, initial_sn=SN, cookie=b"\xbe\xef"),
    "02 dc0b 00 00": OpenSyn(unit=TimeUnit.MS, lease=1500, initial_sn=0, cookie=b""),
    "62 0a b3ab8031": OpenAck(unit=TimeUnit.S, lease=10, initial_sn=SN),
    "e2 0a 00 84 27 01": OpenAck(unit=TimeUnit.S, lease=10, initial_sn=0, multilink=True, remote_bound=1),
    "03 00": Close(session=False, reason=0),
    "23 07": Close(session=True, reason=7),
    "04": KeepAlive(),
    "25 b3ab8031 7d 00 06 64656d6f2f61 01 05 68656c6c6f": Frame(
        reliable=True, sn=SN, msgs=(put(WireExpr(0, "demo/a"), b"hello"),)
    ),
    "a5 b3ab8031 31 00": Frame(reliable=True, sn=SN, priority=Priority.CONTROL),
    "e6 b3ab8031 02 aa": Fragment(more=True, reliable=True, sn=SN, first=True, payload=b"\xaa"),
    "66 b4ab8031 aabb": Fragment(more=True, reliable=True, sn=SN + 1, payload=b"\xaa\xbb"),
    "e6 b3ab8031 b1 06 02": Fragment(
        more=True, reliable=True, sn=SN, priority=Priority.DATA_LOW, first=True, payload=b""
    ),
    "86 00 03": Fragment(more=False, reliable=False, sn=0, drop=True, payload=b""),
    "a7 09 11 a1a0 0a f1858b2a feabc173 27 01": Join(
        version=9,
        whatami=WhatAmI.PEER,
        zid=ZenohId(0xA0A1),
        unit=TimeUnit.S,
        lease=10,
        sn_re=88_261_361,
        sn_be=242_243_070,
        patch=1,
    ),
}
NETWORK = {
    "7d 00 06 64656d6f2f61 01 05 68656c6c6f": put(WireExpr(0, "demo/a"), b"hello"),
    "5d 02 01 05 68656c6c6f": put(WireExpr(2), b"hello"),
    "fd 00 03 612f62 21 25 01 01 78": put(WireExpr(0, "a/b"), b"x", QoS(congestion=Congestion.BLOCK_FIRST)),
    "5d 02 21 f99ece89828aadc166 01 33 00": put(WireExpr(2), b"", timestamp=STAMP),
    "5d 02 41 08 01 78": Push(wire_expr=WireExpr(2), body=Put(encoding=Encoding(4), payload=b"x")),
    "5d 02 82 42 00": Push(wire_expr=WireExpr(2), body=Del(attachment=b"")),
    "1d 00 02": Push(wire_expr=NOWHERE, body=Del()),
    "fc 02 00 03 712f2a a1 0d b3 01 b4 01 26 904e 23 03": Request(
        request_id=2,
        wire_expr=WireExpr(0, "q/*"),
        qos=QoS.REQUEST,
        target=QueryTarget.ALL,
        timeout_ms=10_000,
        node_id=1,
        body=Query(consolidation=Consolidation.LATEST),
    ),
    "5c 01 02 83 43 08 09 01 78 62 6f 64 79 21": Request(
        request_id=1, wire_expr=WireExpr(2), body=Query(body=QueryBody(Encoding(4, "x"), b"body!"))
    ),
    "5c 01 02 43 03 613d62": Request(request_id=1, wire_expr=WireExpr(2), body=Query(parameters="a=b")),
    "5b 01 02 04 01 01 31": Response(request_id=1, wire_expr=WireExpr(2), body=Reply(body=Put(payload=b"1"))),
    "db 0d 00 a1 0d 43 03 00 c1 00 05 07 54696d656f7574": Response(
        request_id=13,
        wire_expr=WireExpr(),
        qos=QoS.REQUEST,
        responder=EntityId(ZenohId(0xC1), 0),
        body=Err(payload=b"Timeout"),
    ),
    "1a 01": ResponseFinal(request_id=1),
    "9a 01 21 0d": ResponseFinal(request_id=1, qos=QoS.REQUEST),
    "9e 21 08 20 01 00 04 64656d6f": declared(DeclareKeyexpr(expr_id=1, wire_expr=BoundExpr(0, "demo"))),
    "9e 21 08 01 01": declared(UndeclareKeyexpr(expr_id=1)),
    "9e 21 08 62 01 01 03 2f2a2a": declared(DeclareSubscriber(id=1, wire_expr=WireExpr(1, "/**"))),
    "9e 21 08 62 03 00 02 2a2a": declared(DeclareSubscriber(id=3, wire_expr=WireExpr(0, "**"))),
    "9e 21 08 e4 04 03 03 2f2a2a 21 01": declared(
        DeclareQueryable(id=4, wire_expr=WireExpr(3, "/**"), info=QueryableInfo(complete=True))
    ),
    "9e 21 08 44 05 04": declared(DeclareQueryable(id=5, wire_expr=WireExpr(4))),
    "9e 21 08 46 06 05": declared(DeclareToken(id=6, wire_expr=WireExpr(5))),
    "9e 21 08 03 02": declared(UndeclareSubscriber(id=2)),
    "9e 21 08 83 00 5f 05 03 01 2f2a2a": declared(UndeclareSubscriber(id=0, ext_wire_expr=WireExpr(1, "/**"))),
    "9e 21 08 85 04 5f 02 00 00": declared(UndeclareQueryable(id=4, ext_wire_expr=NOWHERE)),
    "9e 21 08 87 06 5f 02 00 00": declared(UndeclareToken(id=6, ext_wire_expr=NOWHERE)),
    "be 08 21 08 06 00 05": declared(DeclareToken(id=0, wire_expr=WireExpr(5, "", Mapping.RECEIVER)), 8),
    "be 07 21 08 1a": declared(DeclareFinal(), 7),
    "f9 01 53 01 21 08": interest(
        InterestMode.CURRENT_FUTURE, 1, keyexprs=True, subscribers=True, wire_expr=WireExpr(1)
    ),
    "f9 01 75 01 02 2f2a 21 08": interest(
        InterestMode.CURRENT_FUTURE, 1, keyexprs=True, queryables=True, wire_expr=WireExpr(1, "/*")
    ),
    "d9 07 79 06 03 2f2a2a 21 08": interest(
        InterestMode.FUTURE, 7, keyexprs=True, tokens=True, wire_expr=WireExpr(6, "/**")
    ),
    "b9 08 88 21 08": interest(InterestMode.CURRENT, 8, aggregate=True, tokens=True),
    "99 01 21 08": interest(InterestMode.FINAL, 1),
    "df 01 21 08 01 00": NetworkOam(id=1, qos=QoS.DECLARE, zbuf=b"\x00"),
}
LINK_STATES = {
    "00": (),
    "02 07 00 02 04 c3c2c1c0 01 00 01 01 03 01 00 04 a3a2a1a0 01 00": (
        LinkState(psid=0, sn=2, zid=C, whatami=1, locators=(), links=(1,)),
        LinkState(psid=1, sn=0, zid=A, whatami=1),
    ),
    "01 07 02 02 01 b2 02 01 13 7463702f3132372e302e302e313a3434343037 00": (
        LinkState(psid=2, sn=2, zid=ZenohId(0xB2), whatami=2, locators=(Locator("tcp/127.0.0.1:44407"),)),
    ),
    "01 18 00 01 02 01 02 64 00": (LinkState(gateway=True, psid=0, sn=1, links=(1, 2), weights=(100, 0)),),
}

ALL = [
    *((decode_scouting, *example) for example in SCOUTING.items()),
    *((decode_transport, *example) for example in TRANSPORT.items()),
    *((decode_network, *example) for example in NETWORK.items()),
]


@pytest.mark.parametrize(("decode", "wire", "message"), ALL, ids=[wire for _, wire, _ in ALL])
def test_bytes_decode_to_their_messages(decode: Callable[[bytes], Message], wire: str, message: Message) -> None:
    assert decode(bytes.fromhex(wire)) == message
    assert encode(message).hex(" ") == bytes.fromhex(wire).hex(" ")


def test_flags_of_a_link_state_may_have_a_longer_encoding() -> None:
    assert decode_link_states(bytes.fromhex("01 81 00 00 01 02 c3c2 00")) == (
        LinkState(psid=0, sn=1, zid=ZenohId(0xC2C3)),
    )


@pytest.mark.parametrize(("wire", "entries"), LINK_STATES.items(), ids=LINK_STATES)
def test_link_states_round_trip_through_bytes(wire: str, entries: tuple[LinkState, ...]) -> None:
    assert decode_link_states(bytes.fromhex(wire)) == entries
    assert encode_link_states(entries).hex(" ") == bytes.fromhex(wire).hex(" ")


def test_a_frame_ends_where_the_next_transport_message_begins() -> None:
    # captured: vector stream_two_frames_in_one_batch
    batch = bytes.fromhex("05b8ab80315d02010568656c6c6f25bfab80317d000a64656d6f2f6b2f72656c0105000102feff")
    best_effort = Frame(reliable=False, sn=SN + 5, msgs=(put(WireExpr(2), b"hello"),))
    reliable = Frame(reliable=True, sn=SN + 12, msgs=(put(WireExpr(0, "demo/k/rel"), b"\x00\x01\x02\xfe\xff"),))
    assert decode_batch(batch) == (best_effort, reliable)
    assert decode_batch(b"") == ()


def test_a_low_latency_batch_has_no_frames() -> None:
    batch = bytes.fromhex("5d0201026869" + "04" + "0300")
    assert decode_bare_batch(batch) == (put(WireExpr(2), b"hi"), KeepAlive(), Close(session=False, reason=0))


def test_messages_are_appended_to_what_is_there() -> None:
    out = Writer()
    write(out, KeepAlive())
    write_transport_message(out, Close(session=False, reason=0))
    write_scouting_message(out, Scout(version=9, what=Roles(3)))
    assert out.data == b"\x04" + b"\x03\x00" + b"\x01\x09\x03"


REFUSED = [  # section 20 and the rules of sections 1 to 10
    (decode_transport, "", "expected a byte at byte 0, found the end"),
    (decode_transport, "08", "expected a transport message at byte 0, found id 0x08"),
    (decode_network, "18", "expected a network message at byte 0, found id 0x18"),
    (decode_scouting, "03", "expected a scouting message at byte 0, found id 0x03"),
    (decode_transport, "01090307", "INIT_SYN: expected one of 0 router, 1 peer, 2 client at byte 2, found 3"),
    (decode_transport, "60 01", "OAM: expected a known body encoding at byte 0, found 3"),
    (decode_transport, "04 04", "KEEP_ALIVE: expected the end of the message at byte 1, found 1 bytes more"),
    (decode_network, "5d 808004 02", "PUSH: expected an integer of at most 16 bits at byte 1, found 65536"),
    (
        decode_network,
        "9d 00 31 05 02",
        "PUSH: expected an extension known here at byte 2, found mandatory extension 0x1",
    ),
    (
        decode_network,
        "1d 00 82 35 00",
        "DEL: expected an extension known here at byte 3, found mandatory extension 0x5",
    ),
    (decode_network, "1d 00 03", "PUSH: expected PUT or DEL at byte 2, found id 0x03"),
    (decode_network, "1e 08", "DECLARE: expected a declaration at byte 1, found id 0x08"),
    (
        decode_network,
        "9d 00 6f 02",
        "PUSH: expected an extension encoding of 0 to 2 at byte 2, found 3 in extension 0xf",
    ),
    (
        decode_network,
        "9c 01 00 34 09 03",
        "REQUEST: expected one of 0 BestMatching, 1 All, 2 AllComplete at byte 4, found 9",
    ),
    (
        decode_network,
        "9d 00 42 04 01 01 07 00 02",
        "PUSH: expected the end of the extension at byte 7, found 1 bytes more",
    ),
    (decode_link_states, "00 00", "expected the end of the link states at byte 1, found 1 bytes more"),
]


@pytest.mark.parametrize(("decode", "wire", "problem"), REFUSED, ids=[wire for _, wire, _ in REFUSED])
def test_malformed_messages_are_rejected_with_reason(
    decode: Callable[[bytes], object], wire: str, problem: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(bytes.fromhex(wire))
    assert str(caught.value) == problem


TOLERATED = [
    ("5d 02 41 00 01 78", put(WireExpr(2), b"x")),  # a default encoding that was written nevertheless
    ("5d 02 42", Push(wire_expr=WireExpr(2), body=Del())),  # a reserved bit
    ("7d 02 00 02", Push(wire_expr=WireExpr(2), body=Del())),  # a suffix that is empty
    ("5c e48000 02 23 09", Request(request_id=100, wire_expr=WireExpr(2), body=Query())),  # consolidation 9
    ("dd 02 21 05 02", Push(wire_expr=WireExpr(2), body=Del())),  # the default quality
    ("39 08 68", Interest(mode=InterestMode.CURRENT, id=8, tokens=True)),  # N and M without R
]


@pytest.mark.parametrize(("wire", "message"), TOLERATED, ids=[wire for wire, _ in TOLERATED])
def test_tolerated_non_canonical_encodings(wire: str, message: Message) -> None:
    assert decode_network(bytes.fromhex(wire)) == message
    assert encode(message) != bytes.fromhex(wire)


def test_scouting_passes_over_unknown_mandatory_extensions() -> None:
    scout = decode_scouting(bytes.fromhex("81 09 07 1f"))
    assert scout == Scout(version=9, what=Roles(7), exts=(Extension(0x1F),))
    with pytest.raises(UnknownExtension):
        decode_transport(bytes.fromhex("84 1f"))


UNWRITABLE: list[tuple[Message, str]] = [
    (
        InitSyn(version=9, whatami=WhatAmI.PEER, zid=A, resolution=0x0A),
        "INIT_SYN.batch_size: resolution and batch_size go together",
    ),
    (
        InitAck(version=9, whatami=WhatAmI.PEER, zid=A, batch_size=1, cookie=b""),
        "INIT_ACK.resolution: resolution and batch_size go together",
    ),
    (
        Join(version=9, whatami=WhatAmI.PEER, zid=A, batch_size=1, unit=TimeUnit.S, lease=1, sn_re=0, sn_be=0),
        "JOIN.resolution: resolution and batch_size go together",
    ),
    (NetworkOam(id=1, value=1, zbuf=b""), "OAM.zbuf: value and zbuf exclude each other"),
    (
        Interest(mode=InterestMode.FINAL, id=1, tokens=True),
        "INTEREST.options: is only encoded for a mode other than Final",
    ),
    (Hello(version=9, whatami=WhatAmI.PEER, zid=ZenohId(0)), "HELLO.zid: 0 is not a node id of 1 to 128 bits"),
    (Scout(version=9, what=Roles(8)), "SCOUT.what: 8 is not a set of roles"),
    (put(WireExpr(1 << 16), b""), "PUSH.wire_expr.scope: 65536 does not fit 16 bits"),
    (put(WireExpr(), b"", timestamp=Timestamp(-1, A)), "PUT.ntp64: -1 does not fit 64 bits"),
    (LinkState(psid=0, sn=0, links=(1,), weights=()), "LINK_STATE.weights: 0 weights for 1 links"),
    (OpenSyn(unit=TimeUnit.S, lease=1, initial_sn=0, cookie=bytes(65_536)), "OPEN_SYN.cookie: 65536 bytes do not fit"),
]


@pytest.mark.parametrize(("message", "problem"), UNWRITABLE, ids=[problem for _, problem in UNWRITABLE])
def test_unencodable_messages_are_rejected_with_reason(message: Message, problem: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode(message)
    assert str(caught.value).startswith(problem)


def test_only_messages_are_encoded() -> None:
    with pytest.raises(EncodeError, match="body: expected a message, got WireExpr"):
        encode(WireExpr())  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match=r"FRAME.body: expected a network message, got KeepAlive"):
        encode(Frame(reliable=True, sn=0, msgs=(KeepAlive(),)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("number", "reason"),
    [*((reason.value, reason) for reason in CloseReason), (8, CloseReason.GENERIC), (255, CloseReason.GENERIC)],
)
def test_unknown_close_reasons_are_generic(number: int, reason: CloseReason) -> None:
    assert Close(session=False, reason=number).close_reason is reason
