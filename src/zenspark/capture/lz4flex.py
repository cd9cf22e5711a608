"""LZ4 block encoder that reproduces eclipse-zenoh's output byte for byte.

Any LZ4 block that decompresses to the right bytes is valid, and the transport uses liblz4. But a captured stream must
encode to the very bytes that were captured. eclipse-zenoh 1.10 compresses with lz4_flex 0.10, which works like every
fast LZ4 compressor: a hash table of the last position of each four bytes, and a match where they recur. Its choice
among the possible matches depends on the constants below; they reproduce all of 391 batches captured on compressed
sessions.
"""

from __future__ import annotations

from collections.abc import Iterator

MIN_MATCH = 4
"""Shortest match in bytes: a shorter one would not save anything."""
NO_MATCH_TAIL = 12
"""Bytes at the end of the input in which no match begins."""
LITERAL_TAIL = 6
"""Bytes at the end of the input that no match covers: LZ4 requires 5, lz4_flex leaves one more."""
SKIP_TRIGGER = 5
"""Power of two: after 2^5 positions without a match every second one is tried, after as many again every third, ..."""
HASH_MULTIPLIER = 2654435761
MIN_TABLE_SLOTS, MAX_TABLE_SLOTS = 128, 8192


def compress(data: bytes) -> bytes:
    """Encode a block."""
    out = bytearray()
    literal_start = 0
    for start, source, length in _matches(data):
        out += _sequence(data[literal_start:start], length - MIN_MATCH)
        out += (start - source).to_bytes(2, "little") + _length_bytes(length - MIN_MATCH)
        literal_start = start + length
    return bytes(out) + _sequence(data[literal_start:], 0)


def _matches(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Matches: start, position of the earlier occurrence, and length."""
    last = len(data) - NO_MATCH_TAIL
    table = [0] * _table_size(len(data))
    shift = 32 - (len(table).bit_length() - 1)
    literal_start, pos = 0, 1
    while (match := _search(data, table, shift, pos, last)) is not None:
        start, source = match
        while start > literal_start and source and data[start - 1] == data[source - 1]:
            start, source = start - 1, source - 1
        length = _match_length(data, start, source)
        yield start, source, length
        literal_start = pos = start + length
        table[_hash(data, pos - 2, shift)] = pos - 2


def _search(data: bytes, table: list[int], shift: int, pos: int, last: int) -> tuple[int, int] | None:
    """The next position whose four bytes occurred before, and the position of that occurrence."""
    attempts = 1 << SKIP_TRIGGER
    while pos <= last:
        slot = _hash(data, pos, shift)
        source, table[slot] = table[slot], pos
        if data[source : source + MIN_MATCH] == data[pos : pos + MIN_MATCH]:
            return pos, source
        pos += attempts >> SKIP_TRIGGER
        attempts += 1
    return None


def _match_length(data: bytes, start: int, source: int) -> int:
    """Length of a match at two positions, of which four bytes are known to be equal."""
    length = MIN_MATCH
    end = len(data) - LITERAL_TAIL
    while start + length < end and data[start + length] == data[source + length]:
        length += 1
    return length


def _table_size(size: int) -> int:
    """Slots of the hash table, half the next power of two: a small input does not pay for clearing a large table."""
    return min(max(1 << max(size - 1, 0).bit_length() >> 1, MIN_TABLE_SLOTS), MAX_TABLE_SLOTS)


def _hash(data: bytes, pos: int, shift: int) -> int:
    number = int.from_bytes(data[pos : pos + MIN_MATCH], "little")
    return (number * HASH_MULTIPLIER & 0xFFFF_FFFF) >> shift


def _sequence(literals: bytes, match_length: int) -> bytes:
    """Token with both lengths as far as they fit, the rest of the literal length, and the literals."""
    return bytes([min(len(literals), 15) << 4 | min(match_length, 15)]) + _length_bytes(len(literals)) + literals


def _length_bytes(length: int) -> bytes:
    """Bytes of a length beyond what the token holds."""
    return b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255]) if length >= 15 else b""
