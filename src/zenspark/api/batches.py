"""ArrowBatches: a subscriber that receives record batches instead of samples.

What comes from the network goes from the receive buffer into Arrow without a Python object per sample; `recv` puts
together what has come until there are `max_rows` rows or the first of them is `max_delay` seconds old.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from zenspark.api.channel import ChannelClosed, ReceiveTimeout, Resume
from zenspark.api.handlers import Attached, Handler
from zenspark.api.sample import Sample
from zenspark.arrow import SCHEMA
from zenspark.arrow.incoming import batch_of
from zenspark.errors import UsageError
from zenspark.transport.hearing import Pushes

PIECES = 64
"""How many pieces may wait, each of them what one read brought, before the session is asked to pause."""


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


class BatchChannel(Handler[pa.RecordBatch]):
    """A channel of record batches: users receive from it, the session delivers rows or samples into it."""

    __slots__ = ("_rest", "limits")

    def __init__(self, limits: ArrowBatches, resume: Resume) -> None:
        super().__init__(PIECES, resume)
        self.limits = limits
        self._rest: pa.RecordBatch | None = None

    # --- for users

    def recv(self, timeout: float | None = None) -> pa.RecordBatch:
        """The next rows, waited for; as many as have come within the delay."""
        pieces = [self._rest if self._rest is not None else super().recv(timeout)]
        self._rest = None
        deadline = time.monotonic() + self.limits.max_delay
        while sum(piece.num_rows for piece in pieces) < self.limits.max_rows:
            try:
                pieces.append(super().recv(max(deadline - time.monotonic(), 0.0)))
            except (ReceiveTimeout, ChannelClosed):
                break
        return self.joined(pieces)

    def try_recv(self) -> pa.RecordBatch | None:
        """The rows that are there, None if there are none yet."""
        piece = self.try_piece()
        return None if piece is None else self.joined([piece])

    def try_piece(self) -> pa.RecordBatch | None:
        """What comes next, as large as it came; None if there is nothing yet."""
        if self._rest is None:
            return super().try_recv()
        rest, self._rest = self._rest, None
        return rest

    def joined(self, pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
        """Pieces as one, up to the limit; what is beyond comes next."""
        whole = pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
        if whole.num_rows > self.limits.max_rows:
            self._rest = whole[self.limits.max_rows :]
        return whole[: self.limits.max_rows]

    # --- for the session

    def push_columns(self, pushes: Pushes, keys: list[str | None], via: str) -> bool:
        """Delivers the rows that have a key; whether there is room for more."""
        now_us = time.time_ns() // 1000
        batch = batch_of(pushes.columns, pushes.start, pushes.stop, keys, via, now_us)
        return super().push(batch) if batch.num_rows else True

    def push(self, item: Any) -> bool:  # noqa: ANN401 - a sample of this very session
        return self.push_many([item])

    def push_many(self, items: Iterable[Any]) -> bool:
        """Delivers samples: those this session published itself, and others that came alone."""
        samples = list(items)
        return super().push(batch_from_samples(samples)) if samples else True


def batch_from_samples(samples: list[Sample]) -> pa.RecordBatch:
    """Samples one by one as a record batch."""
    now_us = time.time_ns() // 1000
    rows = [{**_row(sample), "received_at": now_us} for sample in samples]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _row(sample: Sample) -> dict[str, Any]:
    stamp, source = sample.timestamp, sample.source_info
    is_put = sample.kind.name == "PUT"
    ntp64 = None if stamp is None else stamp.to_wire().ntp64
    return {
        "key": str(sample.key_expr),
        "kind": sample.kind.name,
        "payload": sample.payload.to_bytes() if is_put else None,
        "encoding": str(sample.encoding),
        "timestamp": None if stamp is None else stamp.to_wire().unix_ns // 1000,
        "timestamp_ntp64": None if ntp64 is None else ntp64 - (1 << 64 if ntp64 >> 63 else 0),
        "timestamp_id": None if stamp is None else str(stamp.to_wire().id),
        "attachment": None if sample.attachment is None else sample.attachment.to_bytes(),
        "source_zid": None if source is None else str(source.to_wire().zid),
        "source_eid": None if source is None else source.to_wire().eid,
        "source_sn": None if source is None else source.to_wire().sn,
        "priority": sample.priority.name,
        "congestion": sample.congestion_control.name,
        "express": sample.express,
        "reliable": sample.reliability.name == "RELIABLE",
        "via": None,
    }
