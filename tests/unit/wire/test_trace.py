import pytest
from hypothesis import given

from tests.strategies import examples, link_states, network, scouting, transport
from zenspark.wire.codec import encode, encode_link_states
from zenspark.wire.message_schema import Flags, Message
from zenspark.wire.messages import KeepAlive, LinkState, NetworkOam, Push, Put, TransportOam
from zenspark.wire.trace import Trace, draw_box, flags_cells, trace
from zenspark.wire.values import Extension, Mapping, WireExpr

PUSH = bytes.fromhex("3d000a64656d6f2f68656c6c6f010568656c6c6f")
INTEREST = bytes.fromhex("f90253022108")
INIT_SYN = bytes.fromhex("c10932c3c2c1c00ac8ff812701")


def one(layer: str, data: bytes) -> Trace:
    (found,), error = trace(layer, data)
    assert error is None
    return found


def drawn(found: Trace, data: bytes) -> list[str]:
    return [row.box for row in draw_box(found, data)]


def noted(found: Trace) -> dict[str, tuple[int, int]]:
    return {span.field.name: (span.start, span.end) for span in found.spans}


def test_trace_has_the_byte_range_of_each_field() -> None:
    push = one("network", PUSH)
    assert (push.cls, push.start, push.end) == (Push, 0, 20)
    assert noted(push) == {"wire_expr": (1, 13), "body": (13, 20)}
    (put,) = push.children
    assert (put.cls, put.start, put.end) == (Put, 13, 20)
    assert noted(put) == {"payload": (14, 20)}
    assert push.message == Push(wire_expr=WireExpr(0, "demo/hello", Mapping.RECEIVER), body=Put(payload=b"hello"))


def check_whole(found: Trace, data: bytes) -> None:
    """Every byte belongs to the header, a field, or a message inside."""
    covered = {found.start} | {place for span in found.spans for place in range(span.start, span.end)}
    assert covered == set(range(found.start, found.end))
    assert {place for row in draw_box(found, data) if row.is_field for place in range(row.start, row.end)} == covered
    assert {len(row.box.strip()) for row in draw_box(found, data)} <= {15, 17}
    for child in found.children:
        assert found.start < child.start <= child.end <= found.end
        check_whole(child, data)


@pytest.mark.slow
@given(scouting())
@examples(40)
def test_trace_covers_every_byte_of_scouting_messages(message: Message) -> None:
    data = encode(message)
    found = one("scouting", data)
    assert found.message == message
    check_whole(found, data)


@pytest.mark.slow
@given(transport())
@examples(60)
def test_trace_covers_every_byte_of_transport_messages(message: Message) -> None:
    data = encode(message)
    found = one("transport", data)
    assert found.message == message
    check_whole(found, data)


@pytest.mark.slow
@given(network())
@examples(60)
def test_trace_covers_every_byte_of_network_messages(message: Message) -> None:
    data = encode(message)
    found = one("bare", data)
    assert found.message == message
    check_whole(found, data)


@pytest.mark.slow
def test_reads_one_message_after_the_other() -> None:
    found, error = trace("network", PUSH + PUSH)
    assert error is None
    assert [(one.start, one.end) for one in found] == [(0, 20), (20, 40)]


def test_reads_a_part_of_the_bytes() -> None:
    (found,), _ = trace("network", b"\x14\x00" + PUSH + b"\xff", 2, 22)
    assert (found.start, found.end) == (2, 22)


def test_a_low_latency_batch_mixes_layers() -> None:
    found, error = trace("bare", encode(KeepAlive()) + PUSH)
    assert error is None
    assert [one.cls for one in found] == [KeepAlive, Push]


def test_trace_keeps_messages_and_fields_before_an_error() -> None:
    found, error = trace("network", PUSH + PUSH[:16])
    assert str(error) == "PUT: expected 5 bytes at byte 35, found 1 before the end"
    whole, broken = found
    assert whole.message is not None
    assert (broken.message, broken.end) == (None, 35)
    assert broken.children[0].message is None
    assert noted(broken) == {"wire_expr": (21, 33)}


def test_trace_of_no_bytes_is_an_error() -> None:
    assert str(trace("network", b"")[1]) == "expected a byte at byte 0, found the end"


@pytest.mark.slow
@given(link_states())
@examples(20)
def test_trace_of_an_oam_message_includes_its_link_states(entries: tuple[LinkState, ...]) -> None:
    data = encode(NetworkOam(id=1, zbuf=encode_link_states(entries)))
    found = one("network", data)
    assert [child.message for child in found.children] == list(entries)
    check_whole(found, data)


def test_a_body_that_holds_no_link_states_stays_opaque() -> None:
    for body in (b"\x05", b"\x00\x00"):
        assert one("network", encode(NetworkOam(id=1, zbuf=body))).children == []
    assert one("network", encode(NetworkOam(id=2, zbuf=b"\x00"))).children == []
    assert one("network", encode(NetworkOam(id=1))).children == []


# -- the box ---


def test_draws_a_message_as_the_specification_does() -> None:
    assert drawn(one("network", INTEREST), INTEREST) == [
        " 7 6 5 4 3 2 1 0",
        "+-+-+-+-+-+-+-+-+",
        "|Z|MOD|   0x19  |",
        "+-+---+---------+",
        "%       id      %",
        "+---------------+",
        "|A|M|N|R|T|Q|S|K|",
        "+-+-+-+-+-+-+-+-+",
        "~   wire_expr   ~",
        "+---------------+",
        "~     [qos]     ~",
        "+---------------+",
    ]


def test_draws_fixed_variable_and_other_fields_differently() -> None:
    rows = drawn(one("transport", INIT_SYN), INIT_SYN)
    assert rows[2:5] == ["|Z|S|A|   0x01  |", "+-+-+-+---------+", "|    version    |"]
    assert "|  LEN  |X|X|WAI|" in rows
    assert "~      zid      ~" in rows
    assert "|     [qos]     |" in rows
    assert "~    [patch]    ~" in rows


def test_box_lists_the_set_flags_with_their_values() -> None:
    rows = [row for row in draw_box(one("network", INTEREST), INTEREST) if row.flags]
    assert [row.flags for row in rows] == [
        ("Z", "MODE CurrentFuture"),
        ("M", "R", "S subscribers", "K keyexprs"),
    ]
    rows = [row for row in draw_box(one("transport", INIT_SYN), INIT_SYN) if row.flags]
    assert [row.flags for row in rows] == [("Z", "S"), ("LEN 3", "WAI client")]


def test_draws_carried_values_and_unknown_extensions() -> None:
    data = encode(TransportOam(id=7, exts=(Extension(0x45, b"abc"),)))
    assert "~   [ext 0x5]   ~" in drawn(one("transport", data), data)


def test_every_byte_of_flags_has_eight_bits() -> None:
    for text in ("Z|M|N|0x1D", "LEN:4|_:2|WAI:2", "Z=0|_:2|G|H|L|W|P", "Z|_|S|0x03"):
        cells = list(flags_cells(Flags(text)))
        assert sum(width + 1 for _, width in cells) == 16
