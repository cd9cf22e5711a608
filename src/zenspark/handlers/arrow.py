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

from zenspark.arrow.decode import INDEX, NTP64, SN, Common, Memory, Piece, Shelf, batch_of, piece_of
from zenspark.errors import UsageError
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout, Resume
from zenspark.handlers.handler import Attached, Handler
from zenspark.transport.receiver import Pushes
from zenspark.types.enums import Reliability, SampleKind
from zenspark.types.sample import Sample
from zenspark.wire.columns import Kind
from zenspark.wire.values import EntityId, QoS

PIECES = 64
"""How many pieces may wait, each of them what one read brought, before the session is asked to pause."""
NAP = 0.001
"""Seconds to sleep after waiting for a piece, so that there are several: being woken costs more than taking one."""
BYTES = 1 << 22
"""How much is put together at most: large payloads must not wait for `max_rows`, nor be copied in and out of cache."""
LARGE = 1 << 15
"""Bytes of a piece from which on it is worth not to copy them once more."""


class ArrowBatches:
    """Names a channel of record batches of the sample schema."""

    __slots__ = ("max_delay", "max_rows")

    def __init__(self, max_rows: int = 65536, max_delay: float = 0.1) -> None:
        if max_rows < 1 or max_delay < 0:
            raise UsageError(f"expected at least one row and no negative delay, found {max_rows} and {max_delay}")
        self.max_rows = max_rows
        self.max_delay = max_delay

    def attach(self, resume: Resume) -> Attached:
        """Makes it ready to receive."""
        channel = BatchChannel(self, resume)
        return Attached(channel, channel)


class BatchChannel(Handler[Any]):
    """A channel of record batches: users receive from it, the session delivers rows or samples into it."""

    __slots__ = ("_memory", "_rests", "_shelf", "limits")

    def __init__(self, limits: ArrowBatches, resume: Resume) -> None:
        super().__init__(PIECES, resume)
        self.limits = limits
        self._rests: deque[Piece] = deque()
        """Of pieces that had more rows than were asked for."""
        self._memory = Memory()
        self._shelf = Shelf()

    # --- for users

    def recv(self, timeout: float | None = None) -> pa.RecordBatch:
        """The next rows, waited for; as many as have come within the delay."""
        pieces = [self._rest() or super().recv(timeout)]
        rows, size = pieces[0].num_rows, pieces[0].size
        deadline = time.monotonic() + self.limits.max_delay
        while rows < self.limits.max_rows and size < BYTES:
            piece = self._more(deadline)
            if piece is None:
                break
            if min(size, piece.size) >= LARGE and piece.board and not pieces[-1].is_followed_by(piece):
                self._rests.append(piece)  # with these it would have to be copied
                break
            pieces.append(piece)
            rows += piece.num_rows
            size += piece.size
        return self.joined(pieces)

    def _more(self, deadline: float) -> Piece | None:
        """The next piece if it comes in time."""
        try:
            piece: Piece | None = super().try_recv()
            if piece is None:
                left = deadline - time.monotonic()
                piece = super().recv(max(left, 0.0))
                time.sleep(max(min(left, NAP), 0.0))
        except (ReceiveTimeout, ChannelClosed):
            return None
        return piece

    def try_recv(self) -> pa.RecordBatch | None:
        """The rows that are there, None if there are none yet."""
        piece = self.try_piece()
        return None if piece is None else self.joined([piece])

    def try_piece(self) -> Piece | None:
        """What comes next, as large as it came; None if there is nothing yet."""
        return self._rest() or super().try_recv()

    def _rest(self) -> Piece | None:
        try:
            return self._rests.popleft()
        except IndexError:
            return None

    def joined(self, pieces: list[Piece]) -> pa.RecordBatch:
        """Pieces as one record batch, up to the limit; what the last one has beyond it comes next."""
        more = sum(piece.num_rows for piece in pieces) - self.limits.max_rows
        if more <= 0:
            return batch_of(pieces)
        last, rest = pieces[-1].split(pieces[-1].num_rows - more)
        self._rests.append(rest)
        return batch_of([*pieces[:-1], last])

    # --- for the session

    def push_columns(self, pushes: Pushes, keys: list[str | None], via: str) -> bool:
        """Delivers the rows that have a key; whether there is room for more."""
        piece = piece_of(pushes, keys, via, time.time_ns() // 1000, self._memory, self._shelf)
        return super().push(piece) if piece.num_rows else True

    def push(self, item: Any) -> bool:  # noqa: ANN401 - a sample of this very session
        return self.push_many([item])

    def push_many(self, items: Iterable[Any]) -> bool:
        """Delivers samples: those this session published itself, and others that came alone."""
        samples = list(items)
        return super().push(piece_from_samples(samples, time.time_ns() // 1000)) if samples else True


def piece_from_samples(samples: Sequence[Sample], now_us: int) -> Piece:
    """Samples one by one as a piece of a batch."""
    commons = [_common(sample) for sample in samples]
    places = {common: place for place, common in enumerate(dict.fromkeys(commons))}
    attachments = [None if sample.attachment is None else sample.attachment.to_bytes() for sample in samples]
    stamps = [None if sample.timestamp is None else sample.timestamp.to_wire().ntp64 for sample in samples]
    sns = [None if sample.source_info is None else sample.source_info.source_sn for sample in samples]
    payloads = [sample.payload.to_bytes() if sample.kind is SampleKind.PUT else None for sample in samples]
    return Piece(
        tuple(places),
        pa.array([places[common] for common in commons], INDEX),
        pa.array(payloads, pa.binary()),
        pa.array(attachments, pa.binary()),
        pa.array(stamps, NTP64),
        pa.array(sns, SN),
        now_us,
        sum(len(payload or b"") for payload in payloads),
    )


def _common(sample: Sample) -> Common:
    stamp, source = sample.timestamp, sample.source_info
    return Common.of(
        str(sample.key_expr),
        Kind.PUT if sample.kind is SampleKind.PUT else Kind.DEL,
        sample.encoding.to_wire(),
        QoS(sample.priority.to_wire(), sample.congestion_control.to_wire(), sample.express),
        sample.reliability is Reliability.RELIABLE,
        None if stamp is None else stamp.to_wire().id,
        None if source is None else EntityId(source.to_wire().zid, source.to_wire().eid),
        None,
    )
