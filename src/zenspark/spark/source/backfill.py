"""Backfill: queries the samples since the newest timestamp of a journal, and records them like live ones.

The recorder subscribes before the query is sent, so nothing is missed between the two. A sample published meanwhile may
be recorded twice, live and as a reply, with the same timestamp.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc

from zenspark.api.session import Session
from zenspark.arrow.decode import concat_chunks
from zenspark.handlers.arrow import chunk_from_samples
from zenspark.journal import Journal
from zenspark.types.enums import ConsolidationMode, Locality, QueryTarget
from zenspark.types.network_info import ReplyError
from zenspark.types.payload_text import log_text
from zenspark.types.sample import Reply, Sample

logger = logging.getLogger("zenspark.spark")

MAX_BACKFILL_BATCH_ROWS = 4096
"""Maximum samples that are put at once."""
LOOK_BACK_ROWS = 100_000
"""Number of last rows that are searched for the newest timestamp."""


def backfill(session: Session, key_exprs: Iterable[str], since: str) -> int:
    """Query the storages of the network and deliver the replies to local subscribers. Returns the number of rows."""
    rows = 0
    for key_expr in key_exprs:
        selector = f"{key_expr}?_time={since}"
        replies = session.get(selector, target=QueryTarget.ALL, consolidation=ConsolidationMode.NONE)
        for samples in _samples(selector, replies):
            batch = concat_chunks([chunk_from_samples(samples, time.time_ns() // 1000)])
            session.put_batch(batch, allowed_destination=Locality.SESSION_LOCAL)
            rows += len(samples)
    return rows


def missing_time_range(journal: Journal, option: str) -> str:
    """Return the time range to query: after the newest timestamp, or from the option if the journal has none."""
    newest = newest_timestamp(journal)
    if newest is None:
        return "[..]" if option == "true" else f"[{option}..]"
    # + 1: timestamps are rounded to microseconds, so the newest sample itself could be returned again
    start = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=newest + 1)
    return f"[{start.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}..]"


def newest_timestamp(journal: Journal) -> int | None:
    """Return the newest timestamp among the last rows, in microseconds since 1970."""
    latest = journal.latest()
    start = max(journal.earliest(), latest - LOOK_BACK_ROWS)
    times = [pc.max(batch.column("timestamp").cast("int64")).as_py() for batch in journal.read(start, latest)]
    return max((timestamp for timestamp in times if timestamp is not None), default=None)


def _samples(selector: str, replies: Iterable[Reply]) -> Iterator[list[Sample]]:
    samples: list[Sample] = []
    for reply in replies:
        if isinstance(reply.result, ReplyError):
            replier = "an unnamed replier" if reply.replier_id is None else reply.replier_id.zid
            problem = log_text(reply.result.payload.to_bytes())
            logger.warning("backfill of %s failed: error reply from %s: %s", selector, replier, problem)
            continue
        samples.append(reply.result)
        if len(samples) == MAX_BACKFILL_BATCH_ROWS:
            yield samples
            samples = []
    if samples:
        yield samples
