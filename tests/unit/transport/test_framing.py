from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.errors import DecodeError, EncodeError, LimitExceeded
from zenspark.transport.framing import COMPRESSED, RAW, Deframer, LengthPrefix, compress, decompress

BATCHES = [b"\x04", b"", b"abc" * 100, b"x"]
STREAM = b"".join(map(LengthPrefix.U16.wrap, BATCHES))
CAPTURED = bytes.fromhex("01ff0425b3ab80317d00036b2f61017868656c6c6f200600596068656c6c6f20")  # protocol section 3.6
MEANT = bytes.fromhex("25b3ab80317d00036b2f610178") + b"hello " * 20


def read_batches(deframer: Deframer) -> list[bytes]:
    batches = []
    while (batch := deframer.next_batch()) is not None:
        batches.append(bytes(batch))
    return batches


def test_a_length_goes_before_each_batch() -> None:
    assert LengthPrefix.U16.wrap(b"ab") == b"\x02\x00ab"
    assert LengthPrefix.U32.wrap(memoryview(b"ab")) == b"\x02\x00\x00\x00ab"


def test_batch_longer_than_its_length_field_is_an_encode_error() -> None:
    with pytest.raises(EncodeError, match="65536 bytes do not fit a u16 length"):
        LengthPrefix.U16.wrap(bytes(65536))
    assert len(LengthPrefix.U32.wrap(bytes(65536))) == 65540


def test_a_batch_size_counts_the_short_length_only() -> None:
    assert LengthPrefix.U16.limit(2048) == 2046
    assert LengthPrefix.U32.limit(2048) == 2048


def test_deframer_returns_whole_and_empty_batches() -> None:
    deframer = Deframer()
    deframer.receive_data(STREAM)
    assert read_batches(deframer) == BATCHES
    assert (deframer.position, deframer.available, deframer.missing) == (len(STREAM), 0, 0)


@pytest.mark.slow
@given(st.lists(st.integers(0, len(STREAM))))
def test_any_cutting_gives_the_same_batches(cuts: list[int]) -> None:
    deframer = Deframer()
    found = []
    places = [0, *sorted(cuts), len(STREAM)]
    for start, end in pairwise(places):
        deframer.receive_data(STREAM[start:end])
        found += read_batches(deframer)
    assert found == BATCHES


def test_deframer_does_not_copy_a_contiguous_batch() -> None:
    deframer = Deframer()
    deframer.receive_data(STREAM)
    batch = deframer.next_batch()
    assert isinstance(batch, memoryview)
    assert batch.obj is STREAM


def test_deframer_does_not_copy_a_contiguous_batch_after_consumed_data() -> None:
    deframer = Deframer()
    for piece in (LengthPrefix.U16.wrap(b"first"), LengthPrefix.U16.wrap(b"second")):
        deframer.receive_data(piece)
        batch = deframer.next_batch()
        assert isinstance(batch, memoryview)
        assert batch.obj is piece


def test_peek_does_not_consume() -> None:
    deframer = Deframer()
    for piece in (b"a", b"bc", b"d"):
        deframer.receive_data(piece)
    assert [bytes(deframer.peek(count)) for count in (0, 1, 2, 3, 4, 9)] == [b"", b"a", b"ab", b"abc", b"abcd", b"abcd"]
    assert deframer.position == 0


@pytest.mark.parametrize(
    ("data", "missing"), [(b"", 0), (b"\x03", 1), (b"\x03\x00", 3), (b"\x03\x00a", 2), (b"\x03\x00abc", 0)]
)
def test_missing_bytes_of_the_next_batch(data: bytes, missing: int) -> None:
    deframer = Deframer()
    deframer.receive_data(data)
    assert deframer.missing == missing


def test_deframer_switches_to_u32_lengths_between_two_batches() -> None:
    deframer = Deframer()
    deframer.receive_data(LengthPrefix.U16.wrap(b"open") + LengthPrefix.U32.wrap(b"text"))
    assert deframer.next_batch() == b"open"
    deframer.switch(LengthPrefix.U32, 100)
    assert deframer.next_batch() == b"text"


def test_deframer_rejects_an_oversized_length_before_its_bytes_arrive() -> None:
    deframer = Deframer(LengthPrefix.U32, limit=1000)
    deframer.receive_data((1000).to_bytes(4, "little"))
    assert deframer.next_batch() is None
    deframer = Deframer(LengthPrefix.U32, limit=1000)
    deframer.receive_data((1001).to_bytes(4, "little"))
    with pytest.raises(LimitExceeded) as caught:
        deframer.next_batch()
    assert (caught.value.size, caught.value.limit) == (1001, 1000)
    assert str(caught.value) == "length of a batch: 1001 is more than the 1000 allowed"


def test_batch_that_shrinks_is_compressed() -> None:
    packed = compress(b"hello " * 50)
    assert packed[0] == COMPRESSED
    assert len(packed) < 40
    assert decompress(packed) == b"hello " * 50


def test_batch_that_does_not_shrink_is_left_raw() -> None:
    assert compress(memoryview(b"\x03\x00")) == bytes([RAW]) + b"\x03\x00"


def test_batch_compressed_by_eclipse_zenoh_is_decompressed() -> None:
    assert decompress(memoryview(CAPTURED)) == MEANT
    assert decompress(b"\x00\x03\x00") == b"\x03\x00"
    assert decompress(b"") == b""


def test_decompressing_more_than_the_limit_is_a_decode_error() -> None:
    assert decompress(CAPTURED, len(MEANT)) == MEANT
    problem = f"a valid LZ4 block that decompresses to at most {len(MEANT) - 1} bytes at byte 1"
    with pytest.raises(DecodeError, match=problem):
        decompress(CAPTURED, len(MEANT) - 1)


@pytest.mark.parametrize("batch", [CAPTURED[:-1], CAPTURED + b"x", b"\x01"])
def test_corrupt_lz4_block_is_a_decode_error(batch: bytes) -> None:
    with pytest.raises(DecodeError, match="a valid LZ4 block"):
        decompress(batch)


def test_unknown_compression_header_is_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="a compression header of 0 or 1 at byte 0, found 2"):
        decompress(b"\x02abc")
