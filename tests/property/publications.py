"""Publications as rows of columns: which of them are decoded so, and how a test decodes its own."""

from __future__ import annotations

from collections.abc import Sequence

from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, StopReason
from zenspark.wire.messages import Frame, Push, Put


def fits_row(push: Push) -> bool:
    """Whether a publication in its usual spelling is decoded as a row: no field or extension without a column."""
    is_shared = isinstance(push.body, Put) and push.body.shm
    return push.timestamp is None and push.ts_stack is None and not push.exts and not push.body.exts and not is_shared


def decode_rows(pushes: Sequence[Push]) -> PushColumns:
    """Return publications as they are decoded from one frame."""
    columns = PushColumns(64)
    frame = encode(Frame(reliable=True, sn=0, msgs=tuple(pushes)))
    assert BatchDecoder(frame, Framing.BATCH).decode(columns) is StopReason.END
    assert len(columns) == len(pushes)
    return columns
