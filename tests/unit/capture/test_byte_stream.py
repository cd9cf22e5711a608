import pytest

from zenspark.capture import byte_stream
from zenspark.capture.byte_stream import StreamFormat
from zenspark.errors import DecodeError, UsageError
from zenspark.transport.framing import LengthPrefix, compress, decompress
from zenspark.wire.codec import encode
from zenspark.wire.messages import Close, Del, Frame, KeepAlive, OpenSyn, Push, Put
from zenspark.wire.values import TimeUnit, WireExpr

PUSH = Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=b"hello"))
FRAME = Frame(reliable=True, sn=7, msgs=(PUSH,))
OPEN_SYN = OpenSyn(unit=TimeUnit.S, lease=10, initial_sn=0, cookie=b"c")
KEEP_ALIVE = encode(KeepAlive())
LONG = Frame(reliable=True, sn=7, msgs=(Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=b"hello " * 40)),))


def u16(*batches: bytes) -> bytes:
    return b"".join(map(LengthPrefix.U16.wrap, batches))


def u32(*batches: bytes) -> bytes:
    return b"".join(map(LengthPrefix.U32.wrap, batches))


# -- which session is it ---


def test_stream_format_is_detected() -> None:
    assert byte_stream.read(u16(encode(FRAME), KEEP_ALIVE))[0] == StreamFormat()
    assert byte_stream.read(u32(encode(PUSH), KEEP_ALIVE))[0] == StreamFormat(LengthPrefix.U32)
    assert byte_stream.read(u16(compress(encode(LONG)), compress(KEEP_ALIVE)))[0] == StreamFormat(compression=True)


def test_given_stream_format_overrides_detection() -> None:
    ambiguous = u16(b"\x00\x04")  # OAM 4, or a raw batch with a KEEP_ALIVE
    assert byte_stream.stream_to_json_fields(ambiguous)["messages"][0]["msg"] == "OAM"
    assert byte_stream.stream_to_json_fields(ambiguous, compression=True)["messages"] == [{"msg": "KEEP_ALIVE"}]
    with pytest.raises(DecodeError):
        byte_stream.stream_to_json_fields(ambiguous, LengthPrefix.U32)
    with pytest.raises(UsageError, match="has no compression"):
        byte_stream.stream_to_json_fields(ambiguous, LengthPrefix.U32, compression=True)


@pytest.mark.parametrize(
    ("data", "position", "text"),
    [
        (b"", 0, "expected a batch at byte 0, found no bytes"),
        (b"\x05", 1, "expected 1 more byte at byte 1, found the end"),
        (u16(KEEP_ALIVE, encode(FRAME))[:-2], 18, "expected 2 more bytes at byte 18, found the end"),
        (u16(KEEP_ALIVE, b"\x03"), 6, "CLOSE: expected a byte at byte 6, found the end"),
        (u32(KEEP_ALIVE, encode(PUSH), b"\x08"), 26, "expected a network message at byte 26, found id 0x08"),
    ],
)
def test_decode_error_is_that_of_the_best_matching_format(data: bytes, position: int, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        byte_stream.read(data)
    assert (caught.value.position, str(caught.value)) == (position, text)


def test_oversized_batch_length_is_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="a batch of at most 67108864 bytes at byte 0, found a length of 268435456"):
        byte_stream.read(b"\x00\x00\x00\x10", LengthPrefix.U32)


def test_errors_in_compressed_batches_have_their_stream_position() -> None:
    packed = compress(encode(LONG) + b"\x1f" * 9)
    with pytest.raises(DecodeError) as caught:
        byte_stream.read(u16(compress(KEEP_ALIVE), packed), compression=True)
    assert caught.value.position == 6
    assert "of the unpacked batch)" in str(caught.value)
    with pytest.raises(DecodeError) as caught:
        byte_stream.read(u16(compress(KEEP_ALIVE), b"\x00\x03"), compression=True)
    assert caught.value.position == 8
    with pytest.raises(DecodeError, match="a compression header of 0 or 1 at byte 6, found 9"):
        byte_stream.read(u16(compress(KEEP_ALIVE), b"\x09"), compression=True)


def test_stream_range_in_an_unpacked_batch_is_the_whole_batch() -> None:
    plain, packed, raw = (
        byte_stream.decompress_batch(b"\x04", StreamFormat(), 10),
        byte_stream.decompress_batch(compress(encode(LONG)), StreamFormat(compression=True), 10),
        byte_stream.decompress_batch(compress(b"\x04"), StreamFormat(compression=True), 10),
    )
    assert plain.stream_range(0, 1) == (10, 11)
    assert packed.stream_range(5, 9) == (10, 10 + len(packed.sent))
    assert raw.stream_range(0, 1) == (11, 12)


# -- fields; the captured ones are in tests/vectors ---


def test_several_batches_are_listed() -> None:
    fields = byte_stream.stream_to_json_fields(u16(b"", KEEP_ALIVE))
    assert fields == {
        "framing": "u16",
        "batches": [{"batch_len": 0, "messages": []}, {"batch_len": 1, "messages": [{"msg": "KEEP_ALIVE"}]}],
    }
    assert byte_stream.stream_from_json_fields(fields) == u16(b"", KEEP_ALIVE)


def test_a_handshake_is_one_list() -> None:
    data = u16(encode(OPEN_SYN), encode(OPEN_SYN))
    fields = byte_stream.stream_to_json_fields(data)
    assert [message["msg"] for message in fields["messages"]] == ["OPEN_SYN", "OPEN_SYN"]
    assert "batch_len" not in fields
    assert byte_stream.stream_from_json_fields(fields) == data
    assert byte_stream.stream_to_json_fields(u16(encode(OPEN_SYN)))["batch_len"] == len(encode(OPEN_SYN))


def test_json_fields_have_the_single_push_of_a_compressed_batch() -> None:
    fields = byte_stream.stream_to_json_fields(u16(compress(encode(FRAME))))
    assert fields["push"] == {"key": "a/b", "payload": b"hello".hex()}
    assert "messages" not in fields
    fields = byte_stream.stream_to_json_fields(u16(compress(encode(LONG))))
    assert fields["push"]["payload"] == (b"hello " * 40).hex()
    assert fields["decompressed"] == encode(LONG).hex()


def test_json_fields_have_messages_if_there_is_no_single_push() -> None:
    deletion = Frame(reliable=True, sn=7, msgs=(Push(wire_expr=WireExpr(0, "a/b"), body=Del()),))
    by_number = Frame(reliable=True, sn=7, msgs=(Push(wire_expr=WireExpr(3), body=Put(payload=b"x")),))
    for frame in (deletion, by_number):
        data = u16(compress(encode(frame)))
        fields = byte_stream.stream_to_json_fields(data, compression=True)
        assert "push" not in fields
        assert byte_stream.stream_from_json_fields(fields) == data


def test_an_empty_batch_has_no_compression_header() -> None:
    fields = byte_stream.stream_to_json_fields(u16(b"", b"\x00\x04"), compression=True)
    assert [batch.get("compression_header") for batch in fields["batches"]] == [None, 0]
    assert byte_stream.stream_from_json_fields(fields) == u16(b"", b"\x00\x04")


def test_low_latency_batches_hold_both_layers() -> None:
    data = u32(encode(PUSH) + KEEP_ALIVE, encode(Close(session=False, reason=0)))
    fields = byte_stream.stream_to_json_fields(data)
    assert [[one["msg"] for one in batch["messages"]] for batch in fields["batches"]] == [
        ["PUSH", "KEEP_ALIVE"],
        ["CLOSE"],
    ]
    assert byte_stream.stream_from_json_fields(fields) == data


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (7, "fields: Expected `object`, got `int`"),
        ({"framing": "u17"}, r"fields: Invalid enum value 'u17' - at `\$.framing`"),
        ({"framing": "u16", "batch_length": 3}, "fields: Object contains unknown field `batch_length`"),
        ({"messages": []}, "fields.framing is missing: u16 or u32"),
        ({"framing": "u16"}, "fields.messages is missing"),
        (
            {"framing": "u16", "compression_header": 0, "push": {"key": "a", "payload": "01"}},
            "fields.messages is missing: push has no sequence number of its frame",
        ),
        ({"framing": "u16", "compression_header": 2, "messages": []}, "fields: Invalid enum value 2"),
        (
            {"framing": "u16", "compression_header": 1, "decompressed": "0"},
            "fields.decompressed: expected hexadecimal text",
        ),
        (
            {"framing": "u16", "batch_len": 9, "messages": [{"msg": "KEEP_ALIVE"}]},
            "fields.batch_len is 9, but the batch has 1 bytes",
        ),
        (
            {"framing": "u16", "batches": [{"messages": []}, {"messages": [{"msg": "PUSH"}]}]},
            r"fields.batches\[1\].messages\[0\].msg: expected one of",
        ),
    ],
)
def test_usage_error_names_the_invalid_field(fields: object, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        byte_stream.stream_from_json_fields(fields)


def test_decompressed_field_is_compressed_to_the_captured_bytes() -> None:
    data = bytes.fromhex("200001ff0425b3ab80317d00036b2f61017868656c6c6f200600596068656c6c6f20")  # protocol section 3.6
    fields = {"framing": "u16", "compression_header": 1, "decompressed": bytes(decompress(data[2:])).hex()}
    assert byte_stream.stream_from_json_fields(fields) == data
