"""The page Message Reference: flags, fields and extensions of the network messages, drawn by hand.

What PUSH, REQUEST and RESPONSE carry is drawn in the files of their own pages.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.conformance.drawn import NO_KEY, STAMP, STAMP_BYTES, accepted, drawn, exact, refused, vle
from zenspark.errors import UnknownExtension
from zenspark.wire.codec import encode
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Declare, DeclareFinal, DeclareSubscriber, Interest
from zenspark.wire.values import Congestion, Extension, InterestMode, Mapping, Priority, QoS, WireExpr

# -- extensions common to network messages -----------------------------------------------------------------------

QOS_PLACES = {
    "PUSH": ("1d 00", "02"),
    "REQUEST": ("1c 00 00", "03"),
    "RESPONSE": ("1b 00 00", "05 00"),
    "RESPONSE_FINAL": ("1a 00", ""),
    "DECLARE": ("1e", "1a"),
    "INTEREST": ("19 00", ""),
    "OAM": ("1f 00", ""),
}
every_network_message = pytest.mark.parametrize("name", QOS_PLACES)


def with_extension(name: str, extension: str) -> str:
    head, tail = QOS_PLACES[name]
    first, *others = head.split()
    return f"{int(first, 16) | 0x80:02x} {' '.join(others)} {extension} {tail}"


@every_network_message
@pytest.mark.parametrize("priority", Priority)
def test_qos_priority(name: str, priority: Priority) -> None:
    """MR-112, MR-114 to MR-117, MR-127 to MR-134, PU-17, QU-20, RE-26, RE-43: extension 1, an integer, not
    mandatory: bits 2:0 are the priority.
    """
    expected = QoS(priority, Congestion.BLOCK)
    assert exact(with_extension(name, f"21 {0x08 | priority:02x}")).qos == expected


def test_priority_names() -> None:
    """MR-127 to MR-134: eight classes, from Control to Background, with Data in the default place."""
    names = "CONTROL REAL_TIME INTERACTIVE_HIGH INTERACTIVE_LOW DATA_HIGH DATA DATA_LOW BACKGROUND"
    assert [priority.name for priority in map(Priority, range(8))] == names.split()
    assert QoS().priority is Priority(5)


CONGESTION = {0x00: Congestion.DROP, 0x08: Congestion.BLOCK, 0x20: Congestion.BLOCK_FIRST}


@every_network_message
@pytest.mark.parametrize(("bits", "express"), [*product(CONGESTION, [0, 0x10])])
def test_qos_congestion_and_express(name: str, bits: int, express: int) -> None:
    """MR-116, MR-120, MR-121, MR-123, MR-135, MR-138, MR-141: bit 3 means Block, bit 5 without it BlockFirst,
    neither Drop; bit 4 means express.
    """
    value = Priority.DATA_LOW | bits | express
    expected = QoS(Priority.DATA_LOW, CONGESTION[bits], bool(express))
    assert exact(with_extension(name, f"21 {value:02x}")).qos == expected


@every_network_message
@pytest.mark.parametrize("bit", [0x40, 0x80])
def test_qos_reserved_bits(name: str, bit: int) -> None:
    """MR-125, MR-126: bits 6 and 7 are written as zero and mean nothing."""
    message = accepted(with_extension(name, f"21 {vle(0x0E | bit)}"))
    assert message.qos == QoS(Priority.DATA_LOW, Congestion.BLOCK)
    assert encode(message) == drawn(with_extension(name, "21 0e"))


@every_network_message
def test_qos_is_known_by_number_kind_and_m(name: str) -> None:
    """MR-112, MR-115, PU-17, QU-20, RE-26, RE-43: with M set it is unknown and mandatory; as bytes it is
    another extension.
    """
    error = refused(with_extension(name, "31 08"))
    assert isinstance(error, UnknownExtension)
    assert error.extension == 1
    other = accepted(with_extension(name, "41 01 08"))
    assert (other.qos or QoS(), other.exts) == (QoS(), (Extension(0x41, b"\x08"),))


@every_network_message
def test_absent_qos_is_data_and_drop(name: str) -> None:
    """MR-118, MR-136, MR-139: without the extension every message is of priority Data and may be dropped,
    requests and declarations too. A RESPONSE differs from one with it: without, it is treated like its REQUEST.
    """
    head, tail = QOS_PLACES[name]
    message = exact(f"{head} {tail}")
    is_response = name == "RESPONSE"
    assert message.qos == (None if is_response else QoS(Priority.DATA, Congestion.DROP, express=False))
    explicit = with_extension(name, "21 05")
    assert accepted(explicit).qos == QoS(Priority.DATA, Congestion.DROP, express=False)
    assert encode(accepted(explicit)) == drawn(explicit if is_response else f"{head} {tail}")


@pytest.mark.parametrize(
    ("text", "qos"),
    [
        ("fc 01 00 07 712f7372762f61 a1 0d 26 90 4e 23 03", QoS.REQUEST),
        ("9e 21 08 20 01 00 08 726f6f6d2f312f73", QoS.DECLARE),
        ("f9 08 53 05 21 08", QoS.DECLARE),
    ],
)
def test_block_is_always_written(text: str, qos: QoS) -> None:
    """MR-139: captured messages that block have it in the extension, and so do ours."""
    assert qos.congestion is Congestion.BLOCK
    assert exact(text).qos == qos


def test_block_first_without_patch() -> None:
    """MR-124: captured on a session where no patch was agreed; the bit changes nothing about decoding."""
    frame = exact("25 b3ab8031 fd 00 03 612f62 21 25 01 01 78")
    assert frame.msgs[0].qos == QoS(Priority.DATA, Congestion.BLOCK_FIRST)


def test_control_priority_of_declarations() -> None:
    """MR-119: a captured declaration has priority Control, and so has the frame it came in."""
    frame = exact("a5 b3ab8031 31 00 9e 21 08 20 01 00 06 7a7a2f792f78")
    assert (frame.priority, frame.msgs[0].qos) == (Priority.CONTROL, QoS.DECLARE)


@every_network_message
def test_timestamp_extension(name: str) -> None:
    """MR-113, MR-114, MR-143, MR-144, PU-18, QU-21, RE-27, RE-44: extension 2, bytes, not mandatory: a clock
    reading and the id of the clock.
    """
    message = exact(with_extension(name, f"42 0b {STAMP_BYTES}"))
    assert message.timestamp == STAMP
    assert isinstance(refused(with_extension(name, f"52 0b {STAMP_BYTES}")), UnknownExtension)
    refused(with_extension(name, f"42 0c {STAMP_BYTES} 00"), "the end of the extension")


@every_network_message
def test_node_id_extension(name: str) -> None:
    """MR-114, MR-150, MR-185, MR-203, PU-19, QU-22, RO-7: extension 3, an integer, mandatory, in the four
    messages that have it, and in no other.
    """
    text = with_extension(name, "33 80 01")
    if name in ("PUSH", "REQUEST", "DECLARE", "INTEREST"):
        assert exact(text).node_id == 128
        optional = accepted(with_extension(name, "23 80 01"))
        assert (optional.node_id, optional.exts) == (0, (Extension(0x23, 128),))
    else:
        assert isinstance(refused(text), UnknownExtension)


# -- DECLARE -----------------------------------------------------------------------------------------------------


def test_declare_interest_id_only_with_i() -> None:
    """MR-180, MR-183: with I an interest id of at most 32 bits stands behind the header, else none."""
    assert exact("1e 1a") == Declare(body=DeclareFinal())
    assert exact("3e 07 1a") == Declare(interest_id=7, body=DeclareFinal())
    assert exact("3e 00 1a") == Declare(interest_id=0, body=DeclareFinal())
    assert exact("3e ff ff ff ff 0f 1a") == Declare(interest_id=0xFFFFFFFF, body=DeclareFinal())
    refused("3e 80 80 80 80 10 1a", "at most 32 bits")


def test_declare_extensions_stand_before_the_declaration() -> None:
    """MR-182, MR-185: with Z the extensions stand between the interest id and the declaration."""
    assert exact(f"be 07 a1 08 c2 0b {STAMP_BYTES} 33 02 1a") == Declare(
        interest_id=7, qos=QoS.DECLARE, timestamp=STAMP, node_id=2, body=DeclareFinal()
    )


def test_declare_carries_one_declaration() -> None:
    """MR-179, MR-186: exactly one declaration, chosen by its own header; a second one is too much."""
    expr = WireExpr(1, "/**", Mapping.SENDER)
    assert exact("1e 62 02 01 03 2f 2a 2a") == Declare(body=DeclareSubscriber(id=2, wire_expr=expr))
    refused("1e 1a 1a", "the end of the message")
    refused("1e", "a byte")
    assert refused("1e 08").found == "id 0x08"


# -- INTEREST ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", InterestMode)
def test_interest_mode(mode: InterestMode) -> None:
    """MR-188, MR-189, MR-192: bits 6:5 are the mode; a Final has no options byte, the others have one."""
    options = "" if mode is InterestMode.FINAL else "0f"
    every = mode is not InterestMode.FINAL
    assert exact(f"{0x19 | mode << 5:02x} 05 {options}") == Interest(
        mode=mode, id=5, keyexprs=every, subscribers=every, queryables=every, tokens=every
    )
    refused(f"{0x19 | mode << 5:02x} 05 {options} 00", "the end of the message")


def test_interest_mode_numbers() -> None:
    """MR-188, MR-189: Final is 0; Current, Future and both are 1, 2 and 3."""
    assert [mode.name for mode in map(InterestMode, range(4))] == ["FINAL", "CURRENT", "FUTURE", "CURRENT_FUTURE"]


def test_interest_id_has_32_bits() -> None:
    """MR-191: the identifier is a variable-length integer of at most 32 bits."""
    assert exact("19 ff ff ff ff 0f") == Interest(mode=InterestMode.FINAL, id=0xFFFFFFFF)
    refused("19 80 80 80 80 10", "at most 32 bits")


OPTIONS: dict[int, str] = {0x01: "keyexprs", 0x02: "subscribers", 0x04: "queryables", 0x08: "tokens", 0x80: "aggregate"}


@pytest.mark.parametrize("bit", OPTIONS)
def test_interest_options(bit: int) -> None:
    """MR-193, MR-197 to MR-200: each of K, S, Q, T and A is one bit of the options byte."""
    decoded = exact(f"39 05 {bit:02x}")
    assert decoded == replace(Interest(mode=InterestMode.CURRENT, id=5), **{OPTIONS[bit]: True})


def test_interest_key_only_with_r() -> None:
    """MR-194 to MR-196, MR-201, MR-202: with R a scope follows, with N a suffix, and M specifies whose numbers the
    scope uses.
    """
    current = InterestMode.CURRENT
    assert exact("39 05 00") == Interest(mode=current, id=5)
    assert exact("39 05 10 07") == Interest(mode=current, id=5, wire_expr=WireExpr(7, "", Mapping.RECEIVER))
    assert exact("39 05 50 07") == Interest(mode=current, id=5, wire_expr=WireExpr(7, "", Mapping.SENDER))
    suffixed = WireExpr(7, "/a", Mapping.RECEIVER)
    assert exact("39 05 30 07 02 2f 61") == Interest(mode=current, id=5, wire_expr=suffixed)
    assert accepted("39 05 60") == Interest(mode=current, id=5)  # N and M without R: there is no key to name
    refused("39 05 10", "an integer")
    refused("39 05 10 80 80 04", "at most 16 bits")
    refused(f"39 05 30 07 80 80 04 {'61' * 0x10000}", "at most 16 bits")


@pytest.mark.parametrize("head", ["99 05", "b9 05 01", "b9 05 11 07", "b9 05 31 07 01 61"])
def test_interest_extensions_come_last(head: str) -> None:
    """MR-190, MR-203: with Z the extensions stand at the end, behind the key if there is one."""
    interest = exact(f"{head} a1 08 c2 0b {STAMP_BYTES} 33 02")
    assert (interest.qos, interest.timestamp, interest.node_id) == (QoS.DECLARE, STAMP, 2)


# -- key expressions of PUSH, REQUEST and RESPONSE ---------------------------------------------------------------

KEYED = {"PUSH": (0x1D, "", "02"), "REQUEST": (0x1C, "00", "03"), "RESPONSE": (0x1B, "00", "05 00")}
every_keyed_message = pytest.mark.parametrize("name", KEYED)


@every_keyed_message
@pytest.mark.parametrize("flags", [0x00, 0x20, 0x40, 0x60])
def test_key_flags(name: str, flags: int) -> None:
    """MR-145, MR-146, MR-149, MR-152, MR-153, MR-157, MR-160, MR-161, MR-166, PU-6, PU-7, PU-11, PU-14, PU-15,
    QU-6, QU-7, QU-12, QU-17, QU-18, RE-13, RE-14, RE-20, RE-23, RE-24: N, bit 5, announces a suffix; M, bit 6,
    means that the scope is the sender's number.
    """
    header, before, tail = KEYED[name]
    suffix = "02 2f 61" if flags & 0x20 else ""
    expr = exact(f"{header | flags:02x} {before} 07 {suffix} {tail}").wire_expr
    mapping = Mapping.SENDER if flags & 0x40 else Mapping.RECEIVER
    assert expr == WireExpr(7, "/a" if flags & 0x20 else "", mapping)


@every_keyed_message
def test_key_scope(name: str) -> None:
    """MR-148, MR-156, MR-165, PU-9, PU-10, QU-11, RE-18: the scope is a variable-length integer of at most 16
    bits; 0 means that the suffix is the whole key.
    """
    header, before, tail = KEYED[name]
    assert exact(f"{header:02x} {before} 00 {tail}").wire_expr == NO_KEY
    assert exact(f"{header:02x} {before} ff ff 03 {tail}").wire_expr.scope == 0xFFFF
    refused(f"{header:02x} {before} 80 80 04 {tail}", "at most 16 bits")
    assert exact(f"{header | 0x60:02x} {before} 00 03 61 2f 62 {tail}").wire_expr == WireExpr(0, "a/b", Mapping.SENDER)


@every_keyed_message
def test_key_suffix_length(name: str) -> None:
    """MR-149, MR-157, MR-166, PU-11, QU-12, RE-20: the suffix is text behind a length of at most 16 bits."""
    header, before, tail = KEYED[name]
    longest = exact(f"{header | 0x20:02x} {before} 00 ff ff 03 {'61' * 0xFFFF} {tail}").wire_expr
    assert longest.suffix == "a" * 0xFFFF
    refused(f"{header | 0x20:02x} {before} 00 80 80 04 {'61' * 0x10000} {tail}", "at most 16 bits")
    refused(f"{header | 0x20:02x} {before} 00 01 ff {tail}", "UTF-8")


@every_keyed_message
def test_z_announces_extensions(name: str) -> None:
    """MR-147, MR-154, MR-162, PU-8, PU-12, PU-16, QU-8, QU-13, QU-19, RE-15, RE-21, RE-25: bit 7 means that
    extensions stand behind the key, and nothing else does.
    """
    header, before, tail = KEYED[name]
    message = exact(f"{header | 0xA0:02x} {before} 00 01 61 2e 05 {tail}")
    assert message.exts == (Extension(0x2E, 5),)
    assert message.wire_expr.suffix == "a"
