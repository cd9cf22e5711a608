"""LZ4 blocks byte for byte as eclipse-zenoh writes them.

Any LZ4 block that unpacks to the right bytes is a right one, and the transport leaves the work to liblz4. But a
captured stream shall encode to the very bytes that were captured. eclipse-zenoh 1.10 compresses with lz4_flex 0.10,
which walks over the input like every fast LZ4 compressor: remember where each four bytes were seen last, and where they
come up again, write a reference. What it chooses among the many possible references is told by the numbers below; they
reproduce all of 391 batches captured on compressed sessions.
"""

from __future__ import annotations

from collections.abc import Iterator

MIN_MATCH = 4
"""A shorter reference would not save anything."""
NO_MATCH_TAIL = 12
"""No reference begins in the last 12 bytes of the input,"""
LITERAL_TAIL = 6
"""and none reaches into the last 6: LZ4 asks for 5, lz4_flex leaves one more."""
PATIENCE = 5
"""After 2^5 places without a match every second place is tried, after as many again every third, and so on."""
MULTIPLIER = 2654435761
MIN_TABLE, MAX_TABLE = 128, 8192


def compress(data: bytes) -> bytes:
    """The block for these bytes."""
    out = bytearray()
    begun = 0
    for start, source, length in _matches(data):
        out += _sequence(data[begun:start], length - MIN_MATCH)
        out += (start - source).to_bytes(2, "little") + _more(length - MIN_MATCH)
        begun = start + length
    return bytes(out) + _sequence(data[begun:], 0)


def _matches(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Where bytes come up again, where they were before, and how many they are."""
    last = len(data) - NO_MATCH_TAIL
    seen = [0] * _table_size(len(data))
    shift = 32 - (len(seen).bit_length() - 1)
    begun, place = 0, 1
    while (found := _search(data, seen, shift, place, last)) is not None:
        start, source = found
        while start > begun and source and data[start - 1] == data[source - 1]:
            start, source = start - 1, source - 1
        length = _same(data, start, source)
        yield start, source, length
        begun = place = start + length
        seen[_hash(data, place - 2, shift)] = place - 2


def _search(data: bytes, seen: list[int], shift: int, place: int, last: int) -> tuple[int, int] | None:
    """The next place whose four bytes were seen before, and where that was."""
    tried = 1 << PATIENCE
    while place <= last:
        slot = _hash(data, place, shift)
        source, seen[slot] = seen[slot], place
        if data[source : source + MIN_MATCH] == data[place : place + MIN_MATCH]:
            return place, source
        place += tried >> PATIENCE
        tried += 1
    return None


def _same(data: bytes, start: int, source: int) -> int:
    """How many bytes are the same at both places, of which four are known to be."""
    length = MIN_MATCH
    end = len(data) - LITERAL_TAIL
    while start + length < end and data[start + length] == data[source + length]:
        length += 1
    return length


def _table_size(size: int) -> int:
    """Half the next power of two: a small input does not wait for a large table to be cleared."""
    return min(max(1 << max(size - 1, 0).bit_length() >> 1, MIN_TABLE), MAX_TABLE)


def _hash(data: bytes, place: int, shift: int) -> int:
    number = int.from_bytes(data[place : place + MIN_MATCH], "little")
    return (number * MULTIPLIER & 0xFFFF_FFFF) >> shift


def _sequence(literals: bytes, match: int) -> bytes:
    """A token with both lengths as far as they fit, the rest of the first one, and the literals."""
    return bytes([min(len(literals), 15) << 4 | min(match, 15)]) + _more(len(literals)) + literals


def _more(length: int) -> bytes:
    """What of a length the token could not hold."""
    return b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255]) if length >= 15 else b""
