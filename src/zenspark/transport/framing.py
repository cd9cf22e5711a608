"""Batches on a byte stream: cut out, wrapped, compressed.

A stream link carries batches, each behind its length (protocol.md, section 3). Three things vary:

- the length has 2 bytes, or 4 in a low-latency session once it is open;
- in a session with compression, once it is open, the first byte of a batch tells whether the rest is an LZ4 block;
- a length may be 0: such a batch holds no messages, and is how eclipse-zenoh abandons a fragmented message.

`Deframer` is the receiving half. Bytes arrive in any pieces and it gives out whole batches, one at a time, so that
its owner can `switch` to the other length between two of them. It refuses a length as soon as it sees it: nobody
can make us wait for, or reserve, more than was agreed.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

import lz4.block

from zenspark.errors import DecodeError, EncodeError, LimitExceeded

Bytes = bytes | bytearray | memoryview

MAX_BATCH_SIZE = 0xFFFF
"""What INIT can say at most; also the limit where no INIT was seen."""

RAW, COMPRESSED = 0, 1
"""The first byte of a batch in a session with compression."""


class LengthPrefix(StrEnum):
    """How long the length before each batch is."""

    U16 = "u16"
    U32 = "u32"

    @property
    def width(self) -> int:
        return 2 if self is LengthPrefix.U16 else 4

    def limit(self, batch_size: int) -> int:
        """The largest length that may be announced: a batch size counts the 2-byte length, but not the 4-byte one."""
        return batch_size - 2 if self is LengthPrefix.U16 else batch_size

    def wrap(self, batch: Bytes) -> bytes:
        """The batch behind its length."""
        if len(batch) >> 8 * self.width:
            raise EncodeError(f"{len(batch)} bytes are more than a {self} length can say", "batch")
        return len(batch).to_bytes(self.width, "little") + batch


class Deframer:
    """Cuts what arrives on a stream into batches.

    Bytes handed in are not copied unless a batch arrives in pieces, so they must not change until their batches
    are out of use.
    """

    def __init__(self, framing: LengthPrefix = LengthPrefix.U16, limit: int = MAX_BATCH_SIZE) -> None:
        self.framing = framing
        self.limit = limit
        self.position = 0
        """How many bytes of the stream have been given out, lengths included."""
        self.available = 0
        """How many bytes wait here."""
        self._pieces: deque[memoryview] = deque()

    def switch(self, framing: LengthPrefix, limit: int) -> None:
        """Read the next batch this way."""
        self.framing = framing
        self.limit = limit

    def receive_data(self, data: Bytes) -> None:
        """Take the next bytes of the stream."""
        if data:
            self._pieces.append(memoryview(data))
            self.available += len(data)

    def peek(self, count: int) -> Bytes:
        """The next bytes without taking them: so many, or as many as there are."""
        if self._pieces and len(self._pieces[0]) >= count:
            return self._pieces[0][:count]
        found = bytearray()
        for piece in self._pieces:
            found += piece[: count - len(found)]
            if len(found) == count:
                break
        return found

    @property
    def missing(self) -> int:
        """How many bytes the next batch lacks, as far as its length is known; 0 if none has begun or it is here."""
        if not self.available:
            return 0
        if self.available < self.framing.width:
            return self.framing.width - self.available
        return max(0, self.framing.width + self._length() - self.available)

    def next_batch(self) -> Bytes | None:
        """The next batch without its length, None while it is not all here."""
        width = self.framing.width
        if self.available < width:
            return None
        length = self._length()
        if length > self.limit:
            raise LimitExceeded(length, self.limit, "length of a batch")
        if self.available < width + length:
            return None
        return self._take(width + length)[width:]

    def _length(self) -> int:
        return int.from_bytes(self.peek(self.framing.width), "little")

    def _take(self, count: int) -> Bytes:
        taken = self.peek(count)
        self.position += count
        self.available -= count
        while count:
            piece = self._pieces.popleft()
            if len(piece) > count:
                self._pieces.appendleft(piece[count:])
            count -= min(count, len(piece))
        return taken


def compress(batch: Bytes) -> bytes:
    """The batch as a session with compression sends it: compressed only if that makes it smaller."""
    block = lz4.block.compress(batch, store_size=False)
    if len(block) < len(batch):
        return bytes([COMPRESSED]) + block  # type: ignore[no-any-return]
    return bytes([RAW]) + batch


def decompress(batch: Bytes, limit: int = MAX_BATCH_SIZE) -> Bytes:
    """The batch a session with compression meant; an empty one has not even the byte that tells.

    `limit` is the agreed batch size: what unpacks to more is refused, or a few bytes could make us reserve a lot.
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
        raise DecodeError(f"an LZ4 block of at most {limit} bytes when unpacked", 1) from None
