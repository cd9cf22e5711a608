"""Framing of batches on a byte stream: length prefix and LZ4 compression.

A stream link carries batches, each behind its length (protocol section 3). Three things vary:

- the length has 2 bytes, or 4 in a low-latency session once it is open;
- in a session with compression, once it is open, the first byte of a batch is 1 if the rest is an LZ4 block;
- a length may be 0: such a batch has no messages; eclipse-zenoh sends one when it abandons a fragmented message.

`Deframer` is the receiving half for captured traffic (`capture`); a live session finds the batches in its own buffer
(`connection.py`). Bytes arrive in chunks of any size and it returns complete batches, one at a time, so that its owner
can `switch` to the other length between two of them. It rejects a length as soon as it is read: a peer
cannot make this node wait for, or reserve, more than was negotiated.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

import lz4.block

from zenspark.errors import DecodeError, EncodeError, LimitExceeded

Bytes = bytes | bytearray | memoryview

MAX_NEGOTIABLE_BATCH_BYTES = 0xFFFF
"""Largest batch size INIT can carry; also the limit where no INIT was seen."""

RAW, COMPRESSED = 0, 1
"""First byte of a batch in a session with compression."""


class LengthPrefix(StrEnum):
    """Width of the length prefix of a batch."""

    U16 = "u16"
    U32 = "u32"

    @property
    def width(self) -> int:
        """Bytes of the prefix."""
        return 2 if self is LengthPrefix.U16 else 4

    def limit(self, batch_size: int) -> int:
        """Largest value of the prefix: a batch size includes the 2-byte length, but not the 4-byte one."""
        return batch_size - 2 if self is LengthPrefix.U16 else batch_size

    def wrap(self, batch: Bytes) -> bytes:
        """Prepend the length to a batch."""
        if len(batch) >> 8 * self.width:
            raise EncodeError(f"{len(batch)} bytes do not fit a {self} length", "batch")
        return len(batch).to_bytes(self.width, "little") + batch


class Deframer:
    """Splits a byte stream into batches.

    Received bytes are copied only if a batch arrives in several chunks, so they must not change until their batches are
    out of use.
    """

    def __init__(self, framing: LengthPrefix = LengthPrefix.U16, limit: int = MAX_NEGOTIABLE_BATCH_BYTES) -> None:
        self.framing = framing
        self.limit = limit
        self.position = 0
        """Bytes of the stream returned so far, length prefixes included."""
        self.available = 0
        """Bytes buffered."""
        self._chunks: deque[memoryview] = deque()

    def switch(self, framing: LengthPrefix, limit: int) -> None:
        """Use another length prefix and limit from the next batch on."""
        self.framing = framing
        self.limit = limit

    def receive_data(self, data: Bytes) -> None:
        """Append received bytes."""
        if data:
            self._chunks.append(memoryview(data))
            self.available += len(data)

    def peek(self, count: int) -> Bytes:
        """The next `count` bytes, or as many as are buffered, without consuming them."""
        if self._chunks and len(self._chunks[0]) >= count:
            return self._chunks[0][:count]
        collected = bytearray()
        for chunk in self._chunks:
            collected += chunk[: count - len(collected)]
            if len(collected) == count:
                break
        return collected

    @property
    def missing(self) -> int:
        """Bytes the next batch still lacks, as far as its length is known; 0 if none has begun or it is complete."""
        if not self.available:
            return 0
        if self.available < self.framing.width:
            return self.framing.width - self.available
        return max(0, self.framing.width + self._length() - self.available)

    def next_batch(self) -> Bytes | None:
        """Remove and return the next batch, without its length; None while incomplete."""
        width = self.framing.width
        if self.available < width:
            return None
        length = self._length()
        if length > self.limit:
            raise LimitExceeded(length, self.limit, "length of a batch")
        if self.available < width + length:
            return None
        return self._consume(width + length)[width:]

    def _length(self) -> int:
        return int.from_bytes(self.peek(self.framing.width), "little")

    def _consume(self, count: int) -> Bytes:
        data = self.peek(count)
        self.position += count
        self.available -= count
        while count:
            chunk = self._chunks.popleft()
            if len(chunk) > count:
                self._chunks.appendleft(chunk[count:])
            count -= min(count, len(chunk))
        return data


def compress(batch: Bytes) -> bytes:
    """Encode a batch for a session with compression: compressed only if that makes it smaller."""
    block = lz4.block.compress(batch, store_size=False)
    if len(block) < len(batch):
        return bytes([COMPRESSED]) + block  # type: ignore[no-any-return]
    return bytes([RAW]) + batch


def decompress(batch: Bytes, limit: int = MAX_NEGOTIABLE_BATCH_BYTES) -> Bytes:
    """Decode a batch of a session with compression; an empty one has no header byte.

    `limit` is the negotiated batch size: a block that decompresses to more is rejected, or a few bytes could make this
    node reserve a lot.
    """
    if not batch:
        return batch
    header, block = batch[0], batch[1:]
    if header == RAW:
        return block
    if header != COMPRESSED:
        raise DecodeError("a compression header of 0 or 1", 0, str(header))
    try:
        return lz4.block.decompress(block, uncompressed_size=limit)  # type: ignore[no-any-return]
    except lz4.block.LZ4BlockError:
        raise DecodeError(f"a valid LZ4 block that decompresses to at most {limit} bytes", 1) from None
