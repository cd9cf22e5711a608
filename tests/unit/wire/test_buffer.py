from collections.abc import Callable

import pytest

from zenspark.errors import DecodeError, EncodeError
from zenspark.wire.buffer import Reader, Writer

SPELLINGS = [  # protocol section 1.1
    (0, "00"),
    (127, "7f"),
    (128, "8001"),
    (16_383, "ff7f"),
    (16_384, "808001"),
    ((1 << 56) - 1, "ffffffffffffff7f"),
    (1 << 56, "808080808080808001"),
    (1 << 63, "808080808080808080"),
    ((1 << 64) - 1, "ffffffffffffffffff"),
]


def reader_of(text: str) -> Reader:
    return Reader(bytes.fromhex(text))


def written(write: Callable[[Writer], None]) -> str:
    out = Writer()
    write(out)
    return bytes(out.data).hex()


# -- reading ---


@pytest.mark.parametrize(("value", "spelling"), SPELLINGS)
def test_reads_variable_length_integers(value: int, spelling: str) -> None:
    reader = reader_of(spelling + "ff")
    assert reader.z(64) == value
    assert reader.left() == 1


def test_accepts_longer_spellings() -> None:
    assert reader_of("e48000").z(8) == 100
    assert reader_of("e48080808080808000").z(8) == 100


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_integer_over_its_bit_limit_is_a_decode_error(bits: int) -> None:
    out = Writer()
    out.z((1 << bits) - 1, 64, "")
    assert Reader(bytes(out.data)).z(bits) == (1 << bits) - 1
    out = Writer()
    out.z(1 << bits, 64, "")
    reader = Reader(bytes(out.data))
    with pytest.raises(DecodeError, match=f"expected an integer of at most {bits} bits at byte 0, found {1 << bits}"):
        reader.z(bits)
    assert reader.pos == 0


@pytest.mark.parametrize("spelling", [text[:cut] for _, text in SPELLINGS for cut in range(0, len(text), 2)])
def test_an_integer_that_stops_is_rejected(spelling: str) -> None:
    with pytest.raises(DecodeError, match="expected an integer at byte 0"):
        reader_of(spelling).z(64)


def test_reads_fixed_width_integers() -> None:
    reader = reader_of("fe0102")
    assert (reader.peek(), reader.u8(), reader.u16(), reader.peek()) == (0xFE, 0xFE, 0x0201, -1)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (Reader.u8, "expected a byte at byte 3, found the end"),
        (Reader.u16, "expected 2 bytes at byte 3, found the end"),
        (lambda reader: reader.take(1), "expected 1 bytes at byte 3, found the end"),
        (lambda reader: reader.skip(1 << 63), "expected 9223372036854775808 bytes at byte 3, found the end"),
    ],
)
def test_error_names_what_is_missing(read: Callable[[Reader], object], expected: str) -> None:
    reader = reader_of("000102")
    assert reader.skip(3) == 0
    with pytest.raises(DecodeError) as caught:
        read(reader)
    assert str(caught.value) == expected
    assert reader.pos == 3


def test_error_names_how_many_bytes_are_left() -> None:
    with pytest.raises(DecodeError, match="expected 2 bytes at byte 0, found 1 before the end"):
        reader_of("00").u16()
    with pytest.raises(DecodeError, match="expected 5 bytes at byte 1, found 2 before the end"):
        reader_of("050102").blob(32)


def test_reads_blobs_and_texts() -> None:
    reader = reader_of("02aabb" + "04f09f9880" + "00" + "00" + "e282ac")
    assert reader.blob(8) == b"\xaa\xbb"
    assert reader.text(8) == "\U0001f600"
    assert (reader.blob(8), reader.text(8)) == (b"", "")
    assert reader.rest_text() == "€"
    assert reader.rest() == b""


@pytest.mark.parametrize("broken", ["ff", "61ff", "c0af", "eda080", "f09f98"])
def test_text_must_be_utf8(broken: str) -> None:
    at = 1 if broken == "61ff" else 0
    with pytest.raises(DecodeError) as caught:
        reader_of(f"{len(broken) // 2:02x}{broken}").text(8)
    assert (caught.value.expected, caught.value.position) == ("UTF-8 text", 1 + at)
    with pytest.raises(DecodeError) as caught:
        reader_of(broken).rest_text()
    assert caught.value.position == at


def test_reader_stays_inside_the_entered_length() -> None:
    reader = reader_of("0201020304")
    outer = reader.enter()
    assert reader.left() == 2
    assert reader.rest() == b"\x01\x02"
    reader.leave(outer)
    assert reader.rest() == b"\x03\x04"


def test_leave_before_the_end_of_an_extension_is_a_decode_error() -> None:
    reader = reader_of("020102")
    outer = reader.enter()
    reader.u8()
    with pytest.raises(DecodeError, match="expected the end of the extension at byte 2, found 1 bytes more"):
        reader.leave(outer)


def test_enter_beyond_the_end_is_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="expected 3 bytes at byte 1, found 2 before the end"):
        reader_of("030102").enter()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_reads_any_kind_of_bytes(kind: Callable[[bytes], bytes]) -> None:
    reader = Reader(kind(b"\x00\x02ab\x00"), 1, 4)
    assert reader.blob(8) == b"ab"
    assert reader.peek() == -1


@pytest.mark.parametrize(("pos", "end"), [(-1, 3), (2, 1), (4, 4), (0, 4)])
def test_reader_positions_outside_of_the_bytes_raise_index_error(pos: int, end: int) -> None:
    with pytest.raises(IndexError):
        Reader(b"abc", pos, end)


# -- writing ---


@pytest.mark.parametrize(("value", "spelling"), SPELLINGS)
def test_writes_the_shortest_form(value: int, spelling: str) -> None:
    assert written(lambda out: out.z(value, 64, "")) == spelling


def test_writer_writes_each_kind_of_field() -> None:
    def write(out: Writer) -> None:
        out.u8(0xFE, "")
        out.u16(0x0201, "")
        out.blob(b"\xaa\xbb", 8, "")
        out.text("é", 8, "")
        out.raw(memoryview(b"\xcc"), "")
        out.rest_text("€", "")

    assert written(write) == "fe" + "0102" + "02aabb" + "02c3a9" + "cc" + "e282ac"


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (lambda out: out.u8(256, "version"), "version: 256 does not fit 8 bits"),
        (lambda out: out.u16(-1, "batch_size"), "batch_size: -1 does not fit 16 bits"),
        (lambda out: out.z(1 << 64, 64, "lease"), "lease: 18446744073709551616 does not fit 64 bits"),
        (lambda out: out.z(1 << 16, 16, "scope"), "scope: 65536 does not fit 16 bits"),
        (lambda out: out.z(None, 16, "scope"), "scope: expected an integer, got NoneType"),
        (lambda out: out.blob("a", 8, "zid"), "zid: expected bytes, got str"),
        (lambda out: out.raw(7, "shm"), "shm: expected bytes, got int"),
        (lambda out: out.blob(bytes(256), 8, "zid"), "zid: 256 bytes do not fit a 8-bit length"),
        (lambda out: out.text(b"a", 8, "suffix"), "suffix: expected text, got bytes"),
        (lambda out: out.rest_text("ab\ud800", "suffix"), "suffix: character 2 cannot be written as UTF-8"),
    ],
)
def test_writer_rejects_values_that_do_not_fit(write: Callable[[Writer], None], problem: str) -> None:
    out = Writer()
    with pytest.raises(EncodeError) as caught:
        write(out)
    assert str(caught.value) == problem
    assert not out.data


@pytest.mark.parametrize(("size", "length"), [(0, "00"), (127, "7f"), (128, "8001"), (16_384, "808001")])
def test_writer_fills_in_the_length_on_leave(size: int, length: str) -> None:
    def write(out: Writer) -> None:
        start = out.enter()
        out.raw(bytes(size), "")
        out.leave(start)
        out.u8(0xFF, "")

    assert written(write) == length + "00" * size + "ff"


def test_chains_extensions() -> None:
    def write(out: Writer) -> None:
        out.u8(0x04, "")
        first = out.extension(0, 0x01)
        out.extension(first, 0x02)

    assert written(write) == "848102"
