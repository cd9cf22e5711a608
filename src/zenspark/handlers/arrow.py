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

from zenspark.arrow.decode import INDEX, NTP64, SN, SharedValues, TemplateCache, RowChunk, ArenaPool, concat_chunks, chunk_from_rows
from zenspark.errors import UsageError
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout, Resume
from zenspark.handlers.handler import BoundHandler, Handler
from zenspark.transport.receiver import PushRun
from zenspark.types.enums import Reliability, SampleKind
from zenspark.types.sample import Sample
from zenspark.wire.columns import Kind
from zenspark.wire.values import EntityId, QoS

MAX_QUEUED_CHUNKS = 64
"""How many pieces may wait, each of them what one read brought, before the session is asked to pause."""
COALESCE_SECONDS = 0.001
"""Seconds to sleep after waiting for a piece, so that there are several: being woken costs more than taking one."""
MAX_BATCH_BYTES = 1 << 22
"""How much is put together at most: large payloads must not wait for `max_rows`, nor be copied in and out of cache."""
ZERO_COPY_MIN_BYTES = 1 << 15
"""Bytes of a piece from which on it is worth not to copy them once more."""


class ArrowBatches:
    """Names a channel of record batches of the sample schema."""

    __slots__ = ("max_delay", "max_rows")

    def __init__(self, max_rows: int = 65536, max_delay: float = 0.1) -> None:
        if max_rows < 1 or max_delay < 0:
            raise UsageError(f"expected at least one row and no negative delay, found {max_rows} and {max_delay}")
        self.max_rows = max_rows
        self.max_delay = max_delay

    def attach(self, resume: Resume) -> BoundHandler:
        """Makes it ready to receive."""
        channel = BatchChannel(self, resume)
        return BoundHandler(channel, channel)


class BatchChannel(Handler[Any]):
    """A channel of record batches: users receive from it, the session delivers rows or samples into it."""

    __slots__ = ("_memory", "_rests", "_shelf", "limits")

    def __init__(self, limits: ArrowBatches, resume: Resume) -> None:
        super().__init__(MAX_QUEUED_CHUNKS, resume)
        self.limits = limits
        self._rests: deque[RowChunk] = deque()
        """Of pieces that had more rows than were asked for."""
        self._memory = TemplateCache()
        self._shelf = ArenaPool()

    # --- for users

    def recv(self, timeout: float | None = None) -> pa.RecordBatch:
        """The next rows, waited for; as many as have come within the delay."""
        pieces = [self._rest() or super().recv(timeout)]
        rows, size = pieces[0].num_rows, pieces[0].size
        deadline = time.monotonic() + self.limits.max_delay
        while rows < self.limits.max_rows and size < MAX_BATCH_BYTES:
            piece = self._more(deadline)
            if piece is None:
                break
            if min(size, piece.size) >= ZERO_COPY_MIN_BYTES and piece.board and not pieces[-1].is_followed_by(piece):
                self._rests.append(piece)  # with these it would have to be copied
                break
            pieces.append(piece)
            rows += piece.num_rows
            size += piece.size
        return self.joined(pieces)

    def _more(self, deadline: float) -> RowChunk | None:
        """The next piece if it comes in time."""
        try:
            piece: RowChunk | None = super().try_recv()
            if piece is None:
                left = deadline - time.monotonic()
                piece = super().recv(max(left, 0.0))
                time.sleep(max(min(left, COALESCE_SECONDS), 0.0))
        except (ReceiveTimeout, ChannelClosed):
            return None
        return piece

    def try_recv(self) -> pa.RecordBatch | None:
        """The rows that are there, None if there are none yet."""
        piece = self.try_piece()
        return None if piece is None else self.joined([piece])

    def try_piece(self) -> RowChunk | None:
        """What comes next, as large as it came; None if there is nothing yet."""
        return self._rest() or super().try_recv()

    def _rest(self) -> RowChunk | None:
        try:
            return self._rests.popleft()
        except IndexError:
            return None

    def joined(self, pieces: list[RowChunk]) -> pa.RecordBatch:
        """Pieces as one record batch, up to the limit; what the last one has beyond it comes next."""
        more = sum(piece.num_rows for piece in pieces) - self.limits.max_rows
        if more <= 0:
            return concat_chunks(pieces)
        last, rest = pieces[-1].split(pieces[-1].num_rows - more)
        self._rests.append(rest)
        return concat_chunks([*pieces[:-1], last])

    # --- for the session

    def push_columns(self, pushes: PushRun, keys: list[str | None], via: str) -> bool:
        """Delivers the rows that have a key; whether there is room for more."""
        piece = chunk_from_rows(pushes, keys, via, time.time_ns() // 1000, self._memory, self._shelf)
        return super().push(piece) if piece.num_rows else True

    def push(self, item: Any) -> bool:  # noqa: ANN401 - a sample of this very session
        return self.push_many([item])

    def push_many(self, items: Iterable[Any]) -> bool:
        """Delivers samples: those this session published itself, and others that came alone."""
        samples = list(items)
        return super().push(chunk_from_samples(samples, time.time_ns() // 1000)) if samples else True


def chunk_from_samples(samples: Sequence[Sample], now_us: int) -> RowChunk:
    """Samples one by one as a piece of a batch."""
    commons = [_shared_values(sample) for sample in samples]
    places = {common: place for place, common in enumerate(dict.fromkeys(commons))}
    attachments = [None if sample.attachment is None else sample.attachment.to_bytes() for sample in samples]
    stamps = [None if sample.timestamp is None else sample.timestamp.to_wire().ntp64 for sample in samples]
    sns = [None if sample.source_info is None else sample.source_info.source_sn for sample in samples]
    payloads = [sample.payload.to_bytes() if sample.kind is SampleKind.PUT else None for sample in samples]
    return RowChunk(
        tuple(places),
        pa.array([places[common] for common in commons], INDEX),
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
