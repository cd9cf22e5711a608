"""The page Push: PUSH, PUT and DEL, their extensions, and a whole publication, drawn by hand."""

from __future__ import annotations

import pytest

from tests.conformance.drawn import IN_PUSH, IN_REPLY, STAMP, STAMP_BYTES, accepted, drawn, exact, push, refused
from zenspark.errors import UnknownExtension
from zenspark.transport.framing import Deframer, LengthPrefix
from zenspark.wire.codec import decode_bare_batch, decode_batch, encode
from zenspark.wire.messages import Del, Frame, Push, Put
from zenspark.wire.values import (
    Congestion,
    Encoding,
    Extension,
    Mapping,
    Priority,
    QoS,
    SourceInfo,
    TimestampRecord,
    TimestampStack,
    WireExpr,
    ZenohId,
)

SOURCE_BYTES = "07 30 c3 c2 c1 c0 06 09"
"""SourceInfo with its length: zid_len 3, four bytes of id, eid 6, sn 9."""
SOURCE = SourceInfo(ZenohId(0xC0C1C2C3), 6, 9)

# -- PUSH --------------------------------------------------------------------------------------------------------


def test_push_as_drawn() -> None:
    """MR-150, PU-12: scope, suffix, extensions, and then the body."""
    text = f"""
        fd                       # Z M N
        ac 02                    # key_scope 300
        02 2f 61                 # key_suffix
        a1 19                    # QoS: RealTime, Block, express
        c2 0b {STAMP_BYTES}
        33 02                    # NodeId
        02                       # DEL
    """
    assert exact(text) == Push(
        wire_expr=WireExpr(300, "/a", Mapping.SENDER),
        qos=QoS(Priority.REAL_TIME, Congestion.BLOCK, express=True),
        timestamp=STAMP,
        node_id=2,
        body=Del(),
    )


def test_push_body_is_put_or_del() -> None:
    """MR-151, PU-2, PU-13: the body's own header specifies which of the two it is, and one of them must be there."""
    assert exact(IN_PUSH + "01 00") == push(Put(payload=b""))
    assert exact(IN_PUSH + "02") == push(Del())
    refused(IN_PUSH, "a byte")


def test_push_without_node_id() -> None:
    """PU-20, RO-12: a captured PUSH on a link between a client and a router has none; one relayed by a router has."""
    plain = exact("7d 00 08 64656d6f2f6b2f61 01 05 68656c6c6f")
    relayed = exact("bd 01 02 2f31 33 01 21 a0d6c39785a281fd6a 01 a1 05 68656c6c6f")
    assert (plain.node_id, relayed.node_id) == (0, 1)


STACK = TimestampStack(
    conf_flags=7,
    stack=(
        TimestampRecord(1, drawn("90c1f0848ba081fd6a 04 c3c2c1c0")),
        TimestampRecord(2, drawn("90a5fb848ba081fd6a 04 c3c2c1c0")),
    ),
)


@pytest.mark.parametrize(
    ("head", "tail"),
    [("fd 00 0c 64656d6f2f6b2f737461636b", "01 05 68656c6c6f"), ("9c 01 00", "03"), ("9b 01 00", "05 00")],
)
def test_timestamp_stack(head: str, tail: str) -> None:
    """PU-21, QU-27, RE-29: extension 7, which no page has, as captured in a PUSH; REQUEST and RESPONSE have it too."""
    records = "01 0e 90c1f0848ba081fd6a 04 c3c2c1c0 02 0e 90a5fb848ba081fd6a 04 c3c2c1c0"
    assert exact(f"{head} 47 22 07 02 {records} {tail}").ts_stack == STACK


# -- PUT ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", range(0, 0x100, 0x20))
def test_put_flags(flags: int) -> None:
    """MR-210 to MR-212, PU-23 to PU-25, PU-29, PU-32 to PU-34, PU-73: T, bit 5, announces a timestamp, E, bit
    6, an encoding, Z, bit 7, extensions, in this order.
    """
    stamp = STAMP_BYTES if flags & 0x20 else ""
    encoding = "08" if flags & 0x40 else ""
    extensions = "2e 05" if flags & 0x80 else ""
    assert exact(f"{IN_PUSH} {flags | 1:02x} {stamp} {encoding} {extensions} 01 78") == push(
        Put(
            timestamp=STAMP if flags & 0x20 else None,
            encoding=Encoding(4) if flags & 0x40 else Encoding.BYTES,
            exts=(Extension(0x2E, 5),) if flags & 0x80 else (),
            payload=b"x",
        )
    )


def test_put_payload_may_be_empty() -> None:
    """PU-31: the length of a payload may be 0, and is there all the same."""
    assert exact(IN_PUSH + "01 00") == push(Put(payload=b""))
    refused(IN_PUSH + "01", "an integer")


def test_put_payload_is_behind_its_length() -> None:
    """MR-217, PU-30: a payload is a length and so many bytes, whatever they are."""
    payload = bytes(range(256)) + b"\x00" * 44
    assert exact(f"{IN_PUSH} 01 ac 02 {payload.hex()}") == push(Put(payload=payload))
    refused(f"{IN_PUSH} 01 03 aa bb", "3 bytes")
    refused(f"{IN_PUSH} 01 01 aa bb", "the end of the message")


@pytest.mark.parametrize("head", [IN_PUSH + "01", IN_REPLY + "01", "1b 00 00 05"])
def test_payload_length_has_32_bits(head: str) -> None:
    """MR-217, PU-30, RE-62: 2^32-1 is a length, for which bytes are missing here; 2^32 is none."""
    refused(f"{head} ff ff ff ff 0f", "4294967295 bytes")
    refused(f"{head} 80 80 80 80 10", "at most 32 bits")


@pytest.mark.parametrize("head", ["21", "22"])
def test_timestamp_has_no_length_around_it(head: str) -> None:
    """MR-213, MR-221, PU-26, PU-27, PU-44: a timestamp is a clock reading and an id behind its length; the page
    draws a length around both.

    The bytes are those of a captured publication; with the length of the page before them they are refused.
    """
    payload = "05 68656c6c6f" if head == "21" else ""
    message = exact(f"7d 00 09 64656d6f2f6b2f7473 {head} {STAMP_BYTES} {payload}")
    assert message.body.timestamp == STAMP
    refused(f"7d 00 09 64656d6f2f6b2f7473 {head} 0b {STAMP_BYTES} {payload}", "an integer of at most 8 bits")


ENCODINGS = {
    "08": Encoding(4),
    "0a": Encoding(5),
    "09 05 75 74 66 2d 38": Encoding(4, "utf-8"),
    "01 01 78": Encoding(0, "x"),
    "09 00": Encoding(4, ""),
    "ff ff 07 09 6d792f656e633b7631": Encoding(0xFFFF, "my/enc;v1"),
}


@pytest.mark.parametrize("text", ENCODINGS)
@pytest.mark.parametrize("head", [IN_PUSH + "41", "1b 00 00 45"])
def test_encoding_field(head: str, text: str) -> None:
    """MR-214, PU-28, RE-56, RE-60: the lowest bit of the integer announces a schema, the others are the number
    of the encoding.
    """
    assert exact(f"{head} {text} 01 78").body.encoding == ENCODINGS[text]


@pytest.mark.parametrize("head", [IN_PUSH + "41", "1b 00 00 45"])
def test_encoding_number_has_31_bits(head: str) -> None:
    """MR-215: the field has 32 bits, the lowest of which announces a schema."""
    assert exact(f"{head} fe ff 07 01 78").body.encoding == Encoding(0xFFFF)
    assert exact(f"{head} 80 80 08 01 78").body.encoding == Encoding(1 << 16)
    assert exact(f"{head} fe ff ff ff 0f 01 78").body.encoding == Encoding(0x7FFF_FFFF)
    refused(f"{head} 80 80 80 80 10 01 78", "at most 32 bits")


@pytest.mark.parametrize("head", [IN_PUSH + "{:02x}", "1b 00 00 {:02x}"])
def test_absent_encoding_is_bytes(head: str) -> None:
    """MR-214, PU-28, RE-60: without E the encoding is number 0; it is not written, even if it came written."""
    header = 0x01 if head.startswith("1d") else 0x05
    plain = exact(f"{head.format(header)} 01 78")
    assert plain.body.encoding == Encoding(0)
    assert accepted(f"{head.format(header | 0x40)} 00 01 78") == plain


# -- DEL ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [0x00, 0x20, 0x80, 0xA0])
def test_del_flags(flags: int) -> None:
    """MR-218, MR-220, MR-222, MR-223, PU-40, PU-41, PU-43, PU-45 to PU-47, PU-75: T, bit 5, announces a timestamp, Z,
    bit 7, extensions; there is no payload.
    """
    stamp = STAMP_BYTES if flags & 0x20 else ""
    extensions = "2e 05" if flags & 0x80 else ""
    deletion = Del(timestamp=STAMP if flags & 0x20 else None, exts=(Extension(0x2E, 5),) if flags & 0x80 else ())
    assert exact(f"{IN_PUSH} {flags | 2:02x} {stamp} {extensions}") == push(deletion)
    refused(f"{IN_PUSH} {flags | 2:02x} {stamp} {extensions} 00", "the end of the message")


# -- extensions of PUT and DEL -----------------------------------------------------------------------------------

CHAINS = {"PUT": ("81", "01 78"), "DEL": ("82", "")}


@pytest.mark.parametrize("name", CHAINS)
def test_source_info(name: str) -> None:
    """MR-222, PU-35, PU-48, PU-53, PU-55, PU-56: extension 1, bytes, not mandatory: id length in bits 7:4, the
    id, entity and sequence number.
    """
    head, tail = CHAINS[name]
    assert exact(f"{IN_PUSH} {head} 41 {SOURCE_BYTES} {tail}").body.source_info == SOURCE
    assert accepted(f"{IN_PUSH} {head} 41 07 3f c3 c2 c1 c0 06 09 {tail}").body.source_info == SOURCE
    assert isinstance(refused(f"{IN_PUSH} {head} 51 {SOURCE_BYTES} {tail}"), UnknownExtension)


@pytest.mark.parametrize("size", range(1, 17))
def test_source_zid_has_one_byte_more_than_its_length_field(size: int) -> None:
    """PU-53, PU-54: the id of a source has one byte more than bits 7:4 specify."""
    raw = bytes(range(1, size + 1))
    info = exact(f"{IN_PUSH} 81 41 {size + 3:02x} {(size - 1) << 4:02x} {raw.hex()} 06 09 00").body.source_info
    assert info.zid == ZenohId(int.from_bytes(raw, "little"))


def test_source_numbers_have_32_bits() -> None:
    """PU-55, PU-56: the entity and the sequence number are variable-length integers of at most 32 bits each."""
    largest = "ff ff ff ff 0f"
    info = exact(f"{IN_PUSH} 81 41 0c 00 07 {largest} {largest} 00").body.source_info
    assert info == SourceInfo(ZenohId(7), 0xFFFFFFFF, 0xFFFFFFFF)
    refused(f"{IN_PUSH} 81 41 08 00 07 80 80 80 80 10 09 00", "at most 32 bits")
    refused(f"{IN_PUSH} 81 41 08 00 07 06 80 80 80 80 10 00", "at most 32 bits")


def test_attachment_of_put_is_extension_3() -> None:
    """PU-38, PU-51: bytes, not mandatory, under number 3; under number 2 it would be another extension."""
    assert exact(IN_PUSH + "81 43 02 ab cd 00") == push(Put(attachment=b"\xab\xcd", payload=b""))
    assert accepted(IN_PUSH + "81 42 02 ab cd 00").body.attachment is None
    assert isinstance(refused(IN_PUSH + "81 53 02 ab cd 00"), UnknownExtension)


def test_attachment_of_del_is_extension_2() -> None:
    """MR-222, PU-49, PU-51: bytes, not mandatory, under number 2; under number 3 it would be another extension."""
    assert exact(IN_PUSH + "82 42 02 ab cd") == push(Del(attachment=b"\xab\xcd"))
    assert accepted(IN_PUSH + "82 43 02 ab cd").body.attachment is None
    assert isinstance(refused(IN_PUSH + "82 52 02 ab cd"), UnknownExtension)


@pytest.mark.parametrize("content", [b"", b"\x00", b"\xff\xfe", b"a=1;b=2", bytes(range(256))])
@pytest.mark.parametrize("head", [IN_PUSH + "82 42", "9c 00 00 21 0d 83 45"])
def test_attachments_are_opaque(head: str, content: bytes) -> None:
    """MR-237, MR-238, PU-58, PU-59, QU-72: whatever bytes it holds, an attachment is taken and written as it
    is; empty is not absent.
    """
    length = "80 02" if len(content) == 256 else f"{len(content):02x}"
    assert exact(f"{head} {length} {content.hex()}").body.attachment == content


def test_shm_marker_of_put() -> None:
    """PU-36, PU-60, PU-61: extension 2 without content, mandatory; with M clear it is another extension."""
    marked = exact(IN_PUSH + "81 12 01 00 01 78")
    assert marked.body.shm is True
    plain = accepted(IN_PUSH + "81 02 01 78")
    assert (plain.body.shm, plain.body.payload, plain.body.exts) == (False, b"x", (Extension(0x02),))


def test_unknown_mandatory_extension_is_rejected() -> None:
    """PU-50, PU-64: a message with a mandatory extension that is not understood is not processed."""
    error = refused(IN_PUSH + "82 12")
    assert isinstance(error, UnknownExtension)
    assert (error.message, error.extension, error.position) == ("DEL", 2, 3)


def test_chain_of_put_extensions() -> None:
    """MR-216, PU-29, PU-68, RE-71: bit 7 of an extension means that another follows; they are written in the
    order of the table.
    """
    both = push(Put(source_info=SOURCE, attachment=b"\xab\xcd", payload=b"x"))
    assert exact(f"{IN_PUSH} 81 c1 {SOURCE_BYTES} 43 02 ab cd 01 78") == both
    assert accepted(f"{IN_PUSH} 81 c3 02 ab cd 41 {SOURCE_BYTES} 01 78") == both
    with_shm = exact(f"{IN_PUSH} 81 c1 {SOURCE_BYTES} 92 43 02 ab cd 01 00 01 78").body
    assert (with_shm.source_info, with_shm.shm, with_shm.attachment) == (SOURCE, True, b"\xab\xcd")


# -- a whole publication -----------------------------------------------------------------------------------------

WHOLE = f"""
    a5 85 01                        # FRAME Z R, seq_num 133
    31 01                           # QoS: priority RealTime
    fd ac 02 02 2f 61               # PUSH Z M N, key_scope, key_suffix
    a1 19 c2 0b {STAMP_BYTES} 33 02 # QoS, Timestamp, NodeId
    e1                              # PUT Z E T
    {STAMP_BYTES}                   # timestamp
    09 05 75 74 66 2d 38            # encoding
    c1 {SOURCE_BYTES} 43 02 ab cd   # SourceInfo, Attachment
    05 68 65 6c 6c 6f               # payload
"""


def test_publication_as_laid_out() -> None:
    """PU-3, PU-65 to PU-68: length, FRAME, PUSH and PUT, each with everything it can have, in the order of the
    layout.
    """
    batch = drawn(WHOLE)
    stream = bytes([len(batch), 0]) + batch
    deframer = Deframer()
    deframer.receive_data(stream)
    assert deframer.next_batch() == batch
    [frame] = decode_batch(batch)
    assert frame == Frame(
        reliable=True,
        sn=133,
        priority=Priority.REAL_TIME,
        msgs=(
            Push(
                wire_expr=WireExpr(300, "/a", Mapping.SENDER),
                qos=QoS(Priority.REAL_TIME, Congestion.BLOCK, express=True),
                timestamp=STAMP,
                node_id=2,
                body=Put(
                    timestamp=STAMP,
                    encoding=Encoding(4, "utf-8"),
                    source_info=SOURCE,
                    attachment=b"\xab\xcd",
                    payload=b"hello",
                ),
            ),
        ),
    )
    assert LengthPrefix.U16.wrap(encode(frame)) == stream


def test_publication_at_its_least() -> None:
    """PU-3, PU-69: whatever is in brackets may be missing."""
    assert exact("05 00 1d 00 01 00") == Frame(reliable=False, sn=0, msgs=(push(Put(payload=b"")),))


def test_publication_on_a_low_latency_session() -> None:
    """PU-4: captured without FRAME, behind a length of four bytes."""
    stream = drawn("0d000000 7d 00 03 6f2f6b 01 05 000102feff")
    deframer = Deframer(LengthPrefix.U32)
    deframer.receive_data(stream)
    batch = deframer.next_batch()
    assert batch is not None
    [message] = decode_bare_batch(batch)
    assert message == Push(wire_expr=WireExpr(0, "o/k"), body=Put(payload=b"\x00\x01\x02\xfe\xff"))
    assert LengthPrefix.U32.wrap(encode(message)) == stream


def test_qos_contains_no_timestamp() -> None:
    """MR-116, PU-72: bits above the lowest byte of QoS are not a time; the stamp of a sample is the field of
    PUT or DEL.
    """
    assert accepted("9d 00 21 85 80 80 80 01 01 00") == push(Put(payload=b""))
    stamped = accepted(f"9d 00 42 0b {STAMP_BYTES} 01 00")
    assert (stamped.timestamp, stamped.body.timestamp) == (STAMP, None)
