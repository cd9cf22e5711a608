"""What a journal missed: asked for by a query since its newest timestamp, and recorded like anything live.

The recorder listens already when the query is asked, so nothing falls between the two. What is published meanwhile may
come twice, once by itself and once in a reply, with the same timestamp.
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
from zenspark.types.sample import Reply, Sample

logger = logging.getLogger("zenspark.spark")

MAX_BATCH_ROWS = 4096
LOOK_BACK_ROWS = 100_000
"""How many of the last rows are looked at for the newest timestamp."""


def backfill(session: Session, key_exprs: Iterable[str], since: str) -> int:
    """Hands what the storages of the network have since then to this session's own subscribers; how many rows."""
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
    """The range of time to ask for: behind the newest timestamp, or from when the option says if there is none."""
    newest = newest_timestamp(journal)
    if newest is None:
        return "[..]" if option == "true" else f"[{option}..]"
    # rounded to microseconds, so what has that very stamp might come again without the one more
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=newest + 1)
    return f"[{moment.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}..]"


def newest_timestamp(journal: Journal) -> int | None:
    """The newest timestamp among the last rows, in microseconds since 1970."""
    latest = journal.latest()
    start = max(journal.earliest(), latest - LOOK_BACK_ROWS)
    found = [pc.max(batch.column("timestamp").cast("int64")).as_py() for batch in journal.read(start, latest)]
    return max((stamp for stamp in found if stamp is not None), default=None)


def _samples(selector: str, replies: Iterable[Reply]) -> Iterator[list[Sample]]:
    samples: list[Sample] = []
    for reply in replies:
        if reply.ok is None:
            logger.warning("backfill %s: %s", selector, reply.err)
            continue
        samples.append(reply.ok)
        if len(samples) == MAX_BATCH_ROWS:
            yield samples
            samples = []
    if samples:
        yield samples
