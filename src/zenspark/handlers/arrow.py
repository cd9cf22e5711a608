"""ArrowBatches: a subscriber that receives record batches instead of samples.

What comes from the network goes from the receive buffer into Arrow without a Python object per sample; `recv` puts
together what has come until there are `max_rows` rows, or many bytes, or the first of them is `max_delay` seconds old.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from zenspark.arrow.decode import (
    INDEX,
    NTP64,
    SN,
    ArenaPool,
    RowChunk,
    SharedValues,
    TemplateCache,
    chunk_from_rows,
    concat_chunks,
)
from zenspark.errors import UsageError
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout, Resume
from zenspark.handlers.handler import BoundHandler, Handler
from zenspark.transport.receiver import PushRun
from zenspark.types.enums import Reliability, SampleKind
from zenspark.types.sample import Sample
from zenspark.wire.columns import Kind
from zenspark.wire.values import EntityId, QoS

MAX_QUEUED_CHUNKS = 64
"""How many chunks may wait, each of them what one read brought, before the session is asked to pause."""
COALESCE_SECONDS = 0.001
"""Seconds to sleep after waiting for a chunk, so that there are several: being woken costs more than taking one."""
MAX_BATCH_BYTES = 1 << 22
"""How much is put together at most: large payloads must not wait for `max_rows`, nor be copied in and out of cache."""
ZERO_COPY_MIN_BYTES = 1 << 15
"""Bytes of a chunk from which on it is worth not to copy them once more."""


class ArrowBatches:
    """Names a channel of record batches of the sample schema."""

    __slots__ = ("max_delay", "max_rows")

    def __init__(self, max_rows: int = 65536, max_delay: float = 0.1) -> None:
        if max_rows < 1 or max_delay < 0:
            raise UsageError(f"expected at least one row and no negative delay, found {max_rows} and {max_delay}")
        self.max_rows = max_rows
        self.max_delay = max_delay

    def bind(self, resume: Resume) -> BoundHandler:
        """Makes it ready to receive."""
        channel = BatchChannel(self, resume)
        return BoundHandler(channel, channel)


class BatchChannel(Handler[Any]):
    """A channel of record batches: users receive from it, the session delivers rows or samples into it."""

    __slots__ = ("_memory", "_pool", "_rests", "limits")

    def __init__(self, limits: ArrowBatches, resume: Resume) -> None:
        super().__init__(MAX_QUEUED_CHUNKS, resume)
        self.limits = limits
        self._rests: deque[RowChunk] = deque()
        """Of chunks that had more rows than were asked for."""
        self._memory = TemplateCache()
        self._pool = ArenaPool()

    # --- for users

    def recv(self, timeout: float | None = None) -> pa.RecordBatch:
        """The next rows, waited for; as many as have come within the delay."""
        chunks = [self._rest() or super().recv(timeout)]
        rows, size = chunks[0].num_rows, chunks[0].size
        deadline = time.monotonic() + self.limits.max_delay
        while rows < self.limits.max_rows and size < MAX_BATCH_BYTES:
            chunk = self._more(deadline)
            if chunk is None:
                break
            if (
                min(size, chunk.size) >= ZERO_COPY_MIN_BYTES
                and chunk.arena
                and not chunks[-1].is_contiguous_with(chunk)
            ):
                self._rests.append(chunk)  # with these it would have to be copied
                break
            chunks.append(chunk)
            rows += chunk.num_rows
            size += chunk.size
        return self.concat(chunks)

    def _more(self, deadline: float) -> RowChunk | None:
        """The next chunk if it comes in time."""
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
        """The rows that are there, None if there are none yet."""
        chunk = self.try_chunk()
        return None if chunk is None else self.concat([chunk])

    def try_chunk(self) -> RowChunk | None:
        """What comes next, as large as it came; None if there is nothing yet."""
        return self._rest() or super().try_recv()

    def _rest(self) -> RowChunk | None:
        try:
            return self._rests.popleft()
        except IndexError:
            return None

    def concat(self, chunks: list[RowChunk]) -> pa.RecordBatch:
        """Pieces as one record batch, up to the limit; what the last one has beyond it comes next."""
        more = sum(chunk.num_rows for chunk in chunks) - self.limits.max_rows
        if more <= 0:
            return concat_chunks(chunks)
        last, rest = chunks[-1].split(chunks[-1].num_rows - more)
        self._rests.append(rest)
        return concat_chunks([*chunks[:-1], last])

    # --- for the session

    def push_columns(self, pushes: PushRun, keys: list[str | None], via: str) -> bool:
        """Delivers the rows that have a key; whether there is room for more."""
        chunk = chunk_from_rows(pushes, keys, via, time.time_ns() // 1000, self._memory, self._pool)
        return super().push(chunk) if chunk.num_rows else True

    def push(self, item: Any) -> bool:  # noqa: ANN401 - a sample of this very session
        return self.push_many([item])

    def push_many(self, items: Iterable[Any]) -> bool:
        """Delivers samples: those this session published itself, and others that came alone."""
        samples = list(items)
        return super().push(chunk_from_samples(samples, time.time_ns() // 1000)) if samples else True


def chunk_from_samples(samples: Sequence[Sample], now_us: int) -> RowChunk:
    """Samples one by one as a chunk of a batch."""
    shared = [_shared_values(sample) for sample in samples]
    places = {values: place for place, values in enumerate(dict.fromkeys(shared))}
    attachments = [None if sample.attachment is None else sample.attachment.to_bytes() for sample in samples]
    stamps = [None if sample.timestamp is None else sample.timestamp.to_wire().ntp64 for sample in samples]
    sns = [None if sample.source_info is None else sample.source_info.source_sn for sample in samples]
    payloads = [sample.payload.to_bytes() if sample.kind is SampleKind.PUT else None for sample in samples]
    return RowChunk(
        tuple(places),
        pa.array([places[values] for values in shared], INDEX),
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
        Kind.PUT if sample.kind is SampleKind.PUT else Kind.DEL,
        sample.encoding.to_wire(),
        QoS(sample.priority.to_wire(), sample.congestion_control.to_wire(), sample.express),
        sample.reliability is Reliability.RELIABLE,
        None if stamp is None else stamp.to_wire().id,
        None if source is None else EntityId(source.to_wire().zid, source.to_wire().eid),
        None,
    )
