from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.capture import conversation as module
from zenspark.capture.conversation import Conversation, Event, Ignored, Truncated, follow, negotiated_parameters
from zenspark.capture.direction import CapturedMessage, InvalidBytes, LostMessage, Side
from zenspark.transport.framing import LengthPrefix, compress
from zenspark.transport.handshake import Identity
from zenspark.wire.codec import encode
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import (
    Close,
    Declaration,
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    Fragment,
    Frame,
    InitAck,
    InitSyn,
    Interest,
    KeepAlive,
    NetworkMessage,
    OpenAck,
    OpenSyn,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
    UndeclareKeyexpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import BoundExpr, InterestMode, Mapping, TimeUnit, WhatAmI, WireExpr, ZenohId

CLIENT, ROUTER = ZenohId.parse("c1"), ZenohId.parse("a1")


def init_syn(*, low_latency: bool = False, compression: bool = False) -> InitSyn:
    return InitSyn(
        version=9,
        whatami=WhatAmI.CLIENT,
        zid=CLIENT,
        qos=not low_latency,
        patch=1,
        low_latency=low_latency,
        compression=compression,
    )


def init_ack(*, low_latency: bool = False, compression: bool = False) -> InitAck:
    return InitAck(
        version=9,
        whatami=WhatAmI.ROUTER,
        zid=ROUTER,
        cookie=b"c",
        qos=not low_latency,
        patch=1,
        low_latency=low_latency,
        compression=compression,
    )


SYN, ACK = init_syn(), init_ack()
OPEN_SYN = OpenSyn(unit=TimeUnit.S, lease=10, initial_sn=0, cookie=b"c")
OPEN_ACK = OpenAck(unit=TimeUnit.S, lease=10, initial_sn=0)
CLOSE = Close(session=False, reason=0)


def wrapped(*messages: Message) -> bytes:
    return b"".join(LengthPrefix.U16.wrap(encode(message)) for message in messages)


class CapturedSide:
    """Makes the bytes of one side, one frame for each call of `add_frame`."""

    def __init__(self, *handshake: Message) -> None:
        self.data = wrapped(*handshake)
        self.sn = 0

    def add_frame(self, *messages: NetworkMessage) -> "CapturedSide":
        return self.sends(Frame(reliable=True, sn=self.sn, msgs=messages))

    def sends(self, message: Message) -> "CapturedSide":
        self.data += wrapped(message)
        self.sn += 1
        return self


def connector() -> CapturedSide:
    return CapturedSide(SYN, OPEN_SYN)


def listener() -> CapturedSide:
    return CapturedSide(ACK, OPEN_ACK)


def declare(body: Declaration, interest_id: int | None = None) -> Declare:
    return Declare(body=body, interest_id=interest_id)  # type: ignore[arg-type]


def bind(number: int, key: str) -> Declare:
    return declare(DeclareKeyexpr(expr_id=number, wire_expr=BoundExpr(0, key)))


def sender_expr(scope: int, suffix: str = "") -> WireExpr:
    return WireExpr(scope, suffix, Mapping.SENDER)


def receiver_expr(scope: int, suffix: str = "") -> WireExpr:
    return WireExpr(scope, suffix, Mapping.RECEIVER)


def push(expr: WireExpr) -> Push:
    return Push(wire_expr=expr, body=Put(payload=b"x"))


def request(number: int, key: str) -> Request:
    return Request(request_id=number, wire_expr=sender_expr(0, key), body=Query())


def response(number: int, key: str) -> Response:
    return Response(request_id=number, wire_expr=sender_expr(0, key), body=Reply(body=Put(payload=b"x")))


def interest(number: int, key: str | None, mode: InterestMode = InterestMode.CURRENT_FUTURE) -> Interest:
    return Interest(id=number, mode=mode, wire_expr=None if key is None else sender_expr(0, key))


def name(message: Message) -> str:
    return getattr(message, "body", message).NAME if isinstance(message, Declare) else message.NAME


def format_messages(events: Iterator[Event] | Sequence[Event]) -> list[str]:
    """`c2s PUSH a/b` for each message behind the handshake."""
    return [
        f"{event.side} {name(event.message)} {event.key or ''}".strip()
        for event in events
        if isinstance(event, CapturedMessage) and not isinstance(event.message, InitSyn | InitAck | OpenSyn | OpenAck)
    ]


def keys(events: Iterator[Event] | Sequence[Event], kind: type[Message]) -> list[str | None]:
    return [event.key for event in events if isinstance(event, CapturedMessage) and isinstance(event.message, kind)]


# -- sides and framing ---


def test_handshake_messages_alternate_between_the_sides() -> None:
    events = list(follow(connector().data, listener().data))
    assert [event.message for event in events if isinstance(event, CapturedMessage)] == [SYN, ACK, OPEN_SYN, OPEN_ACK]


def test_identities_and_negotiated_parameters_are_known() -> None:
    talk = Conversation()
    talk.receive_data(Side.C2S, connector().data)
    talk.receive_data(Side.S2C, listener().data)
    list(talk.finish())
    assert talk.sides[Side.C2S].identity == Identity(CLIENT, WhatAmI.CLIENT)
    assert talk.sides[Side.S2C].identity == Identity(ROUTER, WhatAmI.ROUTER)
    assert talk.parameters is not None
    assert (talk.parameters.batch_size, talk.parameters.qos, talk.parameters.patch) == (65535, True, 1)
    assert not any(side.begins_late for side in talk.sides.values())


def test_parameters_are_the_minimum_of_both() -> None:
    who = {"version": 9, "whatami": WhatAmI.PEER, "zid": CLIENT}
    syn = InitSyn(**who, resolution=0x05, batch_size=2048, qos_link=1, compression=True)  # type: ignore[arg-type]
    ack = InitAck(**who, resolution=0x00, batch_size=4096, cookie=b"c", qos=True)  # type: ignore[arg-type]
    terms = negotiated_parameters(syn, ack)
    assert (terms.sn_mask, terms.batch_size, terms.qos, terms.compression) == (0x7F, 2048, True, False)
    assert negotiated_parameters(None, ack).batch_size == 4096


def test_follows_a_low_latency_session() -> None:
    initiator = CapturedSide(init_syn(low_latency=True), OPEN_SYN)
    acceptor = CapturedSide(init_ack(low_latency=True), OPEN_ACK)
    initiator.data += b"".join(LengthPrefix.U32.wrap(encode(message)) for message in (push(sender_expr(0, "a")), CLOSE))
    initiator.data += wrapped(CLOSE)  # what eclipse-zenoh sends once more
    acceptor.data += LengthPrefix.U32.wrap(encode(push(sender_expr(0, "b"))) + encode(KeepAlive()))
    events = list(follow(initiator.data, acceptor.data))
    assert format_messages(events) == ["c2s PUSH a", "s2c PUSH b", "s2c KEEP_ALIVE", "c2s CLOSE"]
    assert events[-1] == Ignored(Side.C2S, len(initiator.data) - 4, 4)


def test_follows_a_compressed_session() -> None:
    initiator = CapturedSide(init_syn(compression=True), OPEN_SYN)
    acceptor = CapturedSide(init_ack(compression=True), OPEN_ACK)
    long = Push(wire_expr=sender_expr(0, "a"), body=Put(payload=b"x" * 500))
    initiator.data += LengthPrefix.U16.wrap(compress(encode(Frame(reliable=True, sn=0, msgs=(long,)))))
    initiator.data += LengthPrefix.U16.wrap(compress(encode(CLOSE)))
    assert format_messages(follow(initiator.data, acceptor.data)) == ["c2s PUSH a", "c2s CLOSE"]


def test_a_refused_session_ends_with_the_refusal() -> None:
    assert format_messages(follow(wrapped(SYN), wrapped(CLOSE))) == ["s2c CLOSE"]


def test_follows_one_side_alone() -> None:
    initiator = CapturedSide(init_syn(low_latency=True), OPEN_SYN)
    initiator.data += LengthPrefix.U32.wrap(encode(push(sender_expr(0, "a"))))
    assert format_messages(follow(initiator.data, b"")) == ["c2s PUSH a"]
    assert format_messages(follow(b"", listener().add_frame(push(sender_expr(0, "b"))).data)) == ["s2c PUSH b"]


def test_follows_a_recording_that_begins_late() -> None:
    talk = Conversation()
    talk.receive_data(Side.C2S, CapturedSide().add_frame(push(sender_expr(7, "/x"))).data)
    talk.receive_data(Side.S2C, CapturedSide().add_frame(push(receiver_expr(3)), response(9, "q")).data)
    events = list(talk.finish())
    assert format_messages(events) == ["c2s PUSH #7+/x", "s2c PUSH #3", "s2c RESPONSE q"]
    assert [event.is_resolved for event in events if isinstance(event, CapturedMessage)] == [False, False, True]
    assert all(side.begins_late for side in talk.sides.values())


# -- keys ---


def test_key_id_is_resolved_by_sender_or_receiver_mapping() -> None:
    c2s = connector().add_frame(bind(1, "c/one"), push(sender_expr(1, "/x")), push(receiver_expr(1)))
    s2c = listener().add_frame(bind(1, "s/one"), push(sender_expr(1)), push(receiver_expr(1, "X")))
    events = list(follow(c2s.data, s2c.data))
    assert [event for event in format_messages(events) if "PUSH" in event] == [
        "c2s PUSH c/one/x",
        "s2c PUSH s/one",
        "s2c PUSH c/oneX",
        "c2s PUSH s/one",
    ]


def test_a_number_is_bound_once_until_it_is_freed() -> None:
    again = connector().add_frame(bind(1, "a"), bind(1, "b"), push(sender_expr(1)))
    assert keys(follow(again.data, listener().data), Push) == ["a"]
    freed = connector().add_frame(
        bind(1, "a"), declare(UndeclareKeyexpr(expr_id=1)), bind(1, "b"), push(sender_expr(1))
    )
    events = list(follow(freed.data, listener().data))
    assert keys(events, Push) == ["b"]
    assert format_messages(events)[1] == "c2s U_KEYEXPR a"


def test_a_binding_may_build_on_another() -> None:
    nested = declare(DeclareKeyexpr(expr_id=2, wire_expr=BoundExpr(1, "/q")))
    c2s = connector().add_frame(bind(1, "a"), nested, push(sender_expr(2)))
    assert keys(follow(c2s.data, listener().data), Push) == ["a/q"]
    s2c = listener().add_frame(bind(1, "theirs"))
    c2s = connector().add_frame(push(receiver_expr(1)), bind(1, "a"), nested, push(sender_expr(2)))
    assert keys(follow(c2s.data, s2c.data), Push) == ["theirs", "theirs/q"]


@pytest.mark.parametrize(
    ("declaration", "undeclaration"),
    [
        (DeclareSubscriber(id=4, wire_expr=sender_expr(0, "s")), UndeclareSubscriber(id=4)),
        (DeclareQueryable(id=4, wire_expr=sender_expr(0, "s")), UndeclareQueryable(id=4)),
        (DeclareToken(id=4, wire_expr=sender_expr(0, "s")), UndeclareToken(id=4, ext_wire_expr=sender_expr(0))),
    ],
)
def test_undeclaration_has_the_key_of_its_declaration(declaration: Declaration, undeclaration: Declaration) -> None:
    c2s = connector().add_frame(declare(declaration), declare(undeclaration))
    assert keys(follow(c2s.data, listener().data), Declare) == ["s", "s"]
    assert keys(follow(connector().add_frame(declare(undeclaration)).data, b""), Declare) == [None]


def test_undeclaration_between_routers_carries_its_key() -> None:
    c2s = connector().add_frame(bind(1, "a"), declare(UndeclareSubscriber(id=0, ext_wire_expr=sender_expr(1, "/**"))))
    assert keys(follow(c2s.data, listener().data), Declare) == ["a", "a/**"]


def test_final_of_an_interest_has_the_key_of_the_interest() -> None:
    c2s = (
        connector()
        .add_frame(interest(1, "k/**"))
        .add_frame(interest(1, None, InterestMode.FINAL))
        .add_frame(interest(2, None))
    )
    token = declare(DeclareToken(id=0, wire_expr=sender_expr(0, "k/t")), interest_id=1)
    s2c = listener().add_frame(token, declare(DeclareFinal(), 1)).add_frame(declare(DeclareFinal(), 2))
    assert format_messages(follow(c2s.data, s2c.data)) == [
        "c2s INTEREST k/**",
        "s2c D_TOKEN k/t",
        "s2c D_FINAL k/**",
        "c2s INTEREST k/**",
        "c2s INTEREST",
        "s2c D_FINAL",
    ]


def test_responses_are_paired_with_requests() -> None:
    c2s = connector().add_frame(request(1, "q/*")).add_frame(request(2, "p"))
    s2c = listener().add_frame(response(1, "q/a"), ResponseFinal(request_id=1)).add_frame(ResponseFinal(request_id=2))
    events = [event for event in follow(c2s.data, s2c.data) if isinstance(event, CapturedMessage)][4:]
    assert [(name(event.message), event.key, event.request_key) for event in events] == [
        ("REQUEST", "q/*", None),
        ("RESPONSE", "q/a", "q/*"),
        ("RESPONSE_FINAL", "q/*", "q/*"),
        ("REQUEST", "p", None),
        ("RESPONSE_FINAL", "p", "p"),
    ]


def test_an_error_of_a_router_has_no_key() -> None:
    empty = Response(request_id=1, wire_expr=sender_expr(0), body=Reply(body=Put(payload=b"x")))
    events = list(follow(connector().add_frame(request(1, "q")).data, listener().add_frame(empty).data))
    assert keys(events, Response) == [None]
    assert [event.request_key for event in events if isinstance(event, CapturedMessage)][-1] == "q"


def test_a_request_number_may_be_used_again() -> None:
    c2s = connector().add_frame(request(1, "one")).add_frame(request(1, "two"))
    final = ResponseFinal(request_id=1)
    s2c = listener().add_frame(final).add_frame(final)
    assert format_messages(follow(c2s.data, s2c.data)) == [
        "c2s REQUEST one",
        "s2c RESPONSE_FINAL one",
        "c2s REQUEST two",
        "s2c RESPONSE_FINAL two",
    ]


# -- order ---


def test_message_waits_for_a_key_id_of_the_other_side() -> None:
    c2s = connector().add_frame(push(receiver_expr(5)))
    s2c = listener().add_frame(push(sender_expr(0, "first"))).add_frame(bind(5, "five"))
    assert format_messages(follow(c2s.data, s2c.data)) == ["s2c PUSH first", "s2c D_KEYEXPR five", "c2s PUSH five"]


def test_unresolved_key_id_is_reported_if_both_sides_wait() -> None:
    c2s = connector().add_frame(push(receiver_expr(5))).add_frame(bind(6, "six"))
    s2c = listener().add_frame(push(receiver_expr(6)))
    assert format_messages(follow(c2s.data, s2c.data)) == ["c2s PUSH #5", "c2s D_KEYEXPR six", "s2c PUSH six"]


def test_sides_alternate_without_references() -> None:
    c2s = (
        connector()
        .add_frame(push(sender_expr(0, "c1")), push(sender_expr(0, "c2")))
        .add_frame(push(sender_expr(0, "c3")))
    )
    s2c = (
        listener()
        .add_frame(push(sender_expr(0, "s1")))
        .add_frame(push(sender_expr(0, "s2")))
        .add_frame(push(sender_expr(0, "s3")))
    )
    assert [event.split()[-1] for event in format_messages(follow(c2s.data, s2c.data))] == [
        "c1", "c2", "s1", "c3", "s2", "s3",
    ]  # fmt: skip


def test_responses_of_both_sides_follow_their_requests() -> None:
    c2s = (
        connector()
        .add_frame(request(1, "a"))
        .add_frame(ResponseFinal(request_id=1))
        .add_frame(ResponseFinal(request_id=2))
    )
    s2c = listener().add_frame(request(1, "b"), request(2, "c")).add_frame(ResponseFinal(request_id=1))
    assert format_messages(follow(c2s.data, s2c.data)) == [
        "c2s REQUEST a",
        "s2c REQUEST b",
        "s2c REQUEST c",
        "c2s RESPONSE_FINAL b",
        "s2c RESPONSE_FINAL a",
        "c2s RESPONSE_FINAL c",
    ]


def test_live_events_are_reported_at_once() -> None:
    talk = Conversation()
    talk.receive_data(Side.C2S, wrapped(SYN))
    assert [event.message for event in talk.events() if isinstance(event, CapturedMessage)] == [SYN]
    talk.receive_data(Side.S2C, wrapped(ACK))
    assert [event.message for event in talk.events() if isinstance(event, CapturedMessage)] == [ACK]
    talk.receive_data(Side.C2S, connector().add_frame(push(receiver_expr(5))).data[len(wrapped(SYN)) :])
    talk.receive_data(Side.S2C, wrapped(OPEN_ACK))
    assert format_messages(talk.events()) == []
    talk.receive_data(Side.S2C, CapturedSide().add_frame(bind(5, "five")).data)
    assert format_messages(talk.events()) == ["s2c D_KEYEXPR five", "c2s PUSH five"]
    assert list(talk.finish()) == []


def test_message_waits_for_a_key_id_up_to_max_reorder_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REORDER_BYTES", 100)
    talk = Conversation()
    talk.receive_data(Side.C2S, connector().add_frame(push(receiver_expr(5))).data)
    talk.receive_data(Side.S2C, listener().data)
    assert format_messages(talk.events()) == []
    talk.receive_data(Side.C2S, wrapped(KeepAlive()) * 40)
    assert format_messages(talk.events())[0] == "c2s PUSH #5"


# -- the end ---


def test_truncated_batch_is_reported() -> None:
    data = connector().add_frame(push(sender_expr(0, "a"))).add_frame(push(sender_expr(0, "b"))).data
    events = list(follow(data[:-3], listener().data))
    assert format_messages(events) == ["c2s PUSH a"]
    assert events[-1] == Truncated(Side.C2S, len(connector().add_frame(push(sender_expr(0, "a"))).data), 3)


def test_malformed_bytes_are_reported_and_the_other_side_goes_on() -> None:
    c2s = connector().add_frame(push(sender_expr(0, "a"))).data
    s2c = listener().add_frame(push(sender_expr(0, "b"))).add_frame(push(sender_expr(0, "c"))).data
    events = list(follow(c2s + b"\x01\x00\x18" + wrapped(CLOSE), s2c))
    assert format_messages(events) == ["c2s PUSH a", "s2c PUSH b", "s2c PUSH c"]
    broken = [event for event in events if isinstance(event, InvalidBytes)]
    at = len(c2s) + 2
    assert broken == [InvalidBytes(Side.C2S, at, at, f"expected a transport message at byte {at}, found id 0x18")]


def test_side_with_malformed_bytes_is_not_awaited() -> None:
    talk = Conversation()
    talk.receive_data(Side.C2S, connector().data + b"\x01\x00\x18")
    talk.receive_data(Side.S2C, listener().add_frame(push(receiver_expr(5))).data)
    assert format_messages(talk.events()) == ["s2c PUSH #5"]


def test_unfinished_message_is_reported() -> None:
    piece = Fragment(reliable=True, sn=0, more=True, first=True, payload=b"\x1d")
    events = list(follow(connector().sends(piece).data, listener().data))
    assert isinstance(events[-1], LostMessage)


def test_empty_conversation_has_no_events() -> None:
    assert list(follow(b"", b"")) == []


# -- any cutting ---

C2S = connector().add_frame(bind(1, "a"), request(1, "q")).add_frame(push(receiver_expr(2))).sends(CLOSE).data + b"rest"
S2C = (
    listener()
    .add_frame(bind(2, "b"), response(1, "q/1"))
    .add_frame(ResponseFinal(request_id=1), push(receiver_expr(1)))
    .data
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.slow
@given(st.lists(st.integers(0, 1000), max_size=8), st.lists(st.integers(0, 1000), max_size=8))
@examples(60)
def test_any_cutting_gives_the_same_events(c2s: list[int], s2c: list[int]) -> None:
    talk = Conversation()
    for piece in cut(C2S, c2s):
        talk.receive_data(Side.C2S, piece)
    for piece in cut(S2C, s2c):
        talk.receive_data(Side.S2C, piece)
    assert list(talk.finish()) == list(follow(C2S, S2C))


@pytest.mark.slow
@given(st.lists(st.integers(0, 1000), max_size=8), st.lists(st.integers(0, 1000), max_size=8), st.randoms())
@examples(60)
def test_any_arrival_gives_each_side_its_own_order(c2s: list[int], s2c: list[int], random: Random) -> None:
    talk = Conversation()
    pieces = {Side.C2S: cut(C2S, c2s), Side.S2C: cut(S2C, s2c)}
    events: list[Event] = []
    order = [side for side in Side for _ in pieces[side]]
    random.shuffle(order)
    for side in order:
        talk.receive_data(side, pieces[side].pop(0))
        events += talk.events()
    events += talk.finish()
    expected = list(follow(C2S, S2C))
    for side in Side:
        assert [event for event in events if event.side is side] == [event for event in expected if event.side is side]
