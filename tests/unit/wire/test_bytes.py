"""Variable-length integers have seven bits a byte and at most nine bytes; other modules test the other primitives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenspark.errors import DecodeError
from zenspark.wire._bytes import encode_vle
from zenspark.wire.buffer import Reader

POWERS = [1 << bits for bits in range(64)]
VALUES = sorted({0, *POWERS, *(power - 1 for power in POWERS), (1 << 64) - 1})


def spelled(value: int) -> bytes:
    """The definition of the format, bit by bit."""
    out: list[int] = []
    while value > 0x7F and len(out) < 8:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def decode(data: bytes) -> tuple[int, int]:
    """The value of the integer at the start of some bytes, and its size."""
    reader = Reader(data)
    return reader.z(64), reader.pos


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_written_in_its_shortest_form_and_read_back(value: int) -> None:
    written = encode_vle(value)
    assert written == spelled(value)
    assert decode(written) == (value, len(written))
    assert decode(written + b"\xff" * 9) == (value, len(written))


@given(st.integers(0, (1 << 64) - 1))
def test_any_value_is_read_back(value: int) -> None:
    assert encode_vle(value) == spelled(value)
    assert decode(encode_vle(value)) == (value, len(spelled(value)))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 8])
def test_truncated_integer_is_rejected(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize(("data", "value"), [(b"\x80\x00", 0), (b"\xff\x80\x00", 127), (b"\x80" * 8 + b"\x00", 0)])
def test_longer_spellings_are_read(data: bytes, value: int) -> None:
    assert decode(data) == (value, len(data))
