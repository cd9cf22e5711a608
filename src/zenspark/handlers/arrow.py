"""ArrowBatches: a handler that delivers Arrow record batches instead of samples.

Rows are copied from the receive buffer into Arrow memory without a Python object per sample; `recv` concatenates
chunks until there are `max_rows` rows or `MAX_BATCH_BYTES` of payload, `max_delay` seconds have passed since it took
the first, or the next chunk would have to be copied.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, SupportsFloat, SupportsIndex

import pyarrow as pa

from zenspark.arrow.arena import ArenaPool
from zenspark.arrow.decode import (
    INDEX,
    NTP64,
    SN,
    RowChunk,
    SharedValues,
    TemplateCache,
    chunk_from_rows,
    concat_chunks,
)
from zenspark.errors import ChannelClosed, ReceiveTimeout, UsageError
from zenspark.handlers.channel import Resume
from zenspark.handlers.handler import BoundHandler, Handler
from zenspark.types.enums import Reliability, SampleKind
from zenspark.types.sample import Sample
from zenspark.wire.columns import PushRun, RowKind
from zenspark.wire.values import EntityId, QoS

MAX_QUEUED_CHUNKS = 64
"""Chunks that may be queued, each with the rows of one read, before `push` returns False."""
COALESCE_SECONDS = 0.001
"""Seconds to sleep after waiting for a chunk, so that several arrive: a wakeup costs more than receiving one."""
MAX_BATCH_BYTES = 1 << 22
"""Payload bytes of a batch: large payloads must not wait for `max_rows`, nor be copied in and out of cache."""
ZERO_COPY_MIN_BYTES = 1 << 15
"""Payload bytes of a chunk from which on it is not concatenated with others, as that would copy it."""


class ArrowBatches:
    """A channel of `pyarrow.RecordBatch` with the sample schema, in place of one of samples; not in eclipse-zenoh.

    `recv` returns a batch when it has `max_rows` rows or 4 MiB of payload, `max_delay` after it took the first rows, or
    earlier if both the batch and the next rows have 32 KiB of payload and cannot be joined without a copy. In
    `zenspark.aio` only rows and delay end a batch. `try_recv` returns rows of one read.

    pyarrow has no types: `pip install pyarrow-stubs` gives those of record batches to mypy and pyright.

    Args:
        max_rows: Most rows of a batch, at least 1.
        max_delay: Seconds that `recv` waits for further rows after the first; `try_recv` does not wait.

    Raises:
        UsageError: A value is out of range.
        TypeError: `max_rows` is no whole number, or `max_delay` no number.

    Example:
        >>> with session.declare_subscriber("demo/**", zenspark.ArrowBatches(max_rows=1000)) as subscriber:
        ...     batch = subscriber.recv()
    """

    __slots__ = ("max_delay", "max_rows")

    def __init__(self, max_rows: int = 65536, max_delay: float = 0.1) -> None:
        if isinstance(max_rows, bool) or not isinstance(max_rows, SupportsIndex):
            raise TypeError(f"expected a whole number as max_rows, found {type(max_rows).__name__!r}")
        if not isinstance(max_delay, SupportsFloat):
            raise TypeError(f"expected a number of seconds as max_delay, found {type(max_delay).__name__!r}")
        self.max_rows = index(max_rows)
        self.max_delay = float(max_delay)
        if self.max_rows < 1 or not self.max_delay >= 0:
            raise UsageError(f"expected at least one row and no negative delay, found {max_rows} and {max_delay}")

    def bind(self, resume: Resume) -> BoundHandler:
        """Make the channel, for a session that delivers into it.

        Args:
            resume: Called when there is space again.

        Returns:
            The channel, for the session and for the user.

        Example:
            >>> bound = zenspark.ArrowBatches(max_rows=1000).bind(lambda sink: None)
            >>> bound.sink is bound.handler
            True
        """
        channel = BatchChannel(self, resume)
        return BoundHandler(channel, channel)


class BatchChannel(Handler[Any]):
    """A channel of record batches: users receive from it, the session delivers rows or samples into it."""

    __slots__ = ("_leftovers", "_pool", "_templates", "limits")

    def __init__(self, limits: ArrowBatches, resume: Resume) -> None:
        super().__init__(MAX_QUEUED_CHUNKS, resume)
        self.limits = limits
        self._leftovers: deque[RowChunk] = deque()
        """Rows of chunks that did not fit into the last batch."""
        self._templates = TemplateCache()
        self._pool = ArenaPool()

    # --- for users

    def __next__(self) -> pa.RecordBatch:
        try:
            return self.recv()
        except ChannelClosed:
            raise StopIteration from None

    def recv(self, timeout: float | None = None) -> pa.RecordBatch:
        """Wait for rows, and return them with those that arrive within `max_delay` after they were taken."""
        chunks = [self._pop_leftover() or super().recv(timeout)]
        rows, size = chunks[0].num_rows, chunks[0].size
        deadline = time.monotonic() + self.limits.max_delay
        while rows < self.limits.max_rows and size < MAX_BATCH_BYTES:
            chunk = self._next_chunk(deadline)
            if chunk is None:
                break
            if (
                min(size, chunk.size) >= ZERO_COPY_MIN_BYTES
                and chunk.arena
                and not chunks[-1].is_contiguous_with(chunk)
            ):
                self._leftovers.append(chunk)  # with these it would have to be copied
                break
            chunks.append(chunk)
            rows += chunk.num_rows
            size += chunk.size
        return self.concat(chunks)

    def _next_chunk(self, deadline: float) -> RowChunk | None:
        """Return the next chunk; None if none arrives before the deadline, in seconds of the monotonic clock."""
        try:
            chunk: RowChunk | None = super().try_recv()
            if chunk is None:
                left = deadline - time.monotonic()
                chunk = super().recv(max(left, 0.0))
                time.sleep(max(min(left, COALESCE_SECONDS), 0.0))
        except (ReceiveTimeout, ChannelClosed):
            return None
        return chunk

    def try_recv(self) -> pa.RecordBatch | None:
        """Return rows that were received, None if there are none yet."""
        chunk = self.try_chunk()
        return None if chunk is None else self.concat([chunk])

    def try_chunk(self) -> RowChunk | None:
        """Return the next chunk as it was received; None if there is none yet."""
        return self._pop_leftover() or super().try_recv()

    def _pop_leftover(self) -> RowChunk | None:
        try:
            return self._leftovers.popleft()
        except IndexError:
            return None

    def concat(self, chunks: list[RowChunk]) -> pa.RecordBatch:
        """Concatenate chunks into one record batch of at most `max_rows` rows; the others are returned next."""
        more = sum(chunk.num_rows for chunk in chunks) - self.limits.max_rows
        if more <= 0:
            return concat_chunks(chunks)
        last, rest = chunks[-1].split(chunks[-1].num_rows - more)
        self._leftovers.append(rest)
        return concat_chunks([*chunks[:-1], last])

    # --- for the session

    def push_columns(self, pushes: PushRun, keys: list[str | None], via: str) -> bool:
        """Deliver the rows that have a key; returns whether there is capacity for more."""
        chunk = chunk_from_rows(pushes, keys, via, time.time_ns() // 1000, self._templates, self._pool)
        return super().push(chunk) if chunk.num_rows else True

    def push(self, item: Any) -> bool:  # noqa: ANN401 - a sample of this session itself
        return self.push_many([item])

    def push_many(self, items: Iterable[Any]) -> bool:
        """Deliver samples: those that this session published itself, and others received one by one."""
        samples = list(items)
        return super().push(chunk_from_samples(samples, time.time_ns() // 1000)) if samples else True


def chunk_from_samples(samples: Sequence[Sample], now_us: int) -> RowChunk:
    """Make a chunk of samples."""
    shared = [_shared_values(sample) for sample in samples]
    indices = {values: index for index, values in enumerate(dict.fromkeys(shared))}
    attachments = [None if sample.attachment is None else sample.attachment.to_bytes() for sample in samples]
    stamps = [None if sample.timestamp is None else sample.timestamp.to_wire().ntp64 for sample in samples]
    sns = [None if sample.source_info is None else sample.source_info.source_sn for sample in samples]
    payloads = [sample.payload.to_bytes() if sample.kind is SampleKind.PUT else None for sample in samples]
    return RowChunk(
        tuple(indices),
        pa.array([indices[values] for values in shared], INDEX),
        pa.array(payloads, pa.binary()),
        pa.array(attachments, pa.binary()),
        pa.array(stamps, NTP64),
        pa.array(sns, SN),
        now_us,
        sum(len(payload or b"") for payload in payloads),
    )


def _shared_values(sample: Sample) -> SharedValues:
    stamp, source = sample.timestamp, sample.source_info
    return SharedValues.of(
        str(sample.key_expr),
        RowKind.PUT if sample.kind is SampleKind.PUT else RowKind.DEL,
        sample.encoding.to_wire(),
        QoS(sample.priority.to_wire(), sample.congestion_control.to_wire(), sample.express),
        sample.reliability is Reliability.RELIABLE,
        None if stamp is None else stamp.to_wire().id,
        None if source is None else EntityId(source.to_wire().zid, source.to_wire().eid),
        None,
    )
