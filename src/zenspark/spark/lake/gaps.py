"""`gaps`: numbers of a source (`source_zid`, `source_eid`) that are missing, and those that came again.

numbering.py says what that means. The state of the table is what is remembered of every source: a row of kind SOURCE
with the lowest and highest number (SETTLED if nothing below is judged any more), and its missing ranges that may
still be filled. It is written anew by each fold, and forgets a source that was silent for `SILENCE`: if it comes
back, it starts anew.

A source is one publisher, across all keys and recorders: who records only some of the keys it publishes under sees
the others as missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zenspark.arrow import UTC
from zenspark.spark.lake.derived import MERGED, NEW, STATE
from zenspark.spark.lake.numbering import WRAP, Range, Source, judge
from zenspark.spark.lake.reading import spark_schema
from zenspark.spark.lake.shapes import GAPS

BUCKETS = 16
"""Sources are spread over so many tasks at most; what one task has at a time is in memory, numbers only."""
SILENCE = timedelta(days=1)
MISSING, REPEATED = "MISSING", "REPEATED"
SOURCE, SETTLED = "SOURCE", "SETTLED"

_Name = tuple[str, int]


class Gaps:
    """Makes `gaps` out of samples."""

    shape = GAPS
    needs = "source_sn"

    def step(self, rows: DataFrame, state: DataFrame) -> DataFrame:
        numbered = rows.where("source_sn is not null").select(
            "source_zid", "source_eid", "source_sn", "received_at", "recorder", "offset"
        )
        bucket = F.pmod(F.hash("source_zid", "source_eid"), F.lit(BUCKETS)).alias("bucket")
        return numbered.groupBy(bucket).cogroup(state.groupBy(bucket)).applyInArrow(judged, spark_schema(GAPS.schema))

    def merge(self, stored: DataFrame) -> DataFrame:
        return together(stored).withColumn("part", F.lit(MERGED))

    def view(self, stored: DataFrame) -> DataFrame:
        wire = {name: F.pmod(name, F.lit(WRAP)) for name in ("first_sn", "last_sn")}
        return together(stored.where(F.col("kind").isin(MISSING, REPEATED))).withColumns(wire)


def together(rows: DataFrame) -> DataFrame:
    """One row per missing range and per repeated number."""
    names = [column.name for column in GAPS.columns if column.name not in ("count", "noticed_at")]
    found = rows.groupBy(names).agg(F.sum("count").alias("count"), F.min("noticed_at").alias("noticed_at"))
    return found.select(GAPS.columns.names)


def judged(rows: pa.Table, state: pa.Table) -> pa.Table:
    """Takes in the numbers of some sources: their new state, and what there is to tell."""
    known = remembered(state)
    found: list[tuple[object, ...]] = []
    for name, numbers, times in by_source(rows):
        verdict = judge(known.get(name), numbers, times)
        known[name] = verdict.source
        found += [_row(name, REPEATED, each, each.times, NEW) for each in verdict.repeated]
        found += [_row(name, MISSING, each, _size(each), NEW) for each in verdict.settled]
    now = max((source.heard for source in known.values()), default=0)
    for name, source in known.items():
        found += _remember(name, source, now)
    if not found:
        return GAPS.schema.empty_table()
    columns = zip(*found, strict=True)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, GAPS.schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=GAPS.schema)


def by_source(rows: pa.Table) -> Iterator[tuple[_Name, np.ndarray, np.ndarray]]:
    """For each source its numbers in the order of their offsets, and the times they came at."""
    ordered = rows.sort_by([(name, "ascending") for name in ("source_zid", "source_eid", "recorder", "offset")])
    ordered = ordered.combine_chunks()
    if not ordered.num_rows:
        return
    zids, eids = ordered["source_zid"].to_pandas().to_numpy(), ordered["source_eid"].to_numpy()
    numbers, times = ordered["source_sn"].to_numpy(), _micros(ordered["received_at"]).to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], (zids[1:] != zids[:-1]) | (eids[1:] != eids[:-1])]))
    for start, end in zip(starts, [*starts[1:], len(zids)], strict=True):
        yield (str(zids[start]), int(eids[start])), numbers[start:end], times[start:end]


def remembered(state: pa.Table) -> dict[_Name, Source]:
    """The sources that a state tells of."""
    missing: dict[_Name, list[Range]] = {}
    sources: dict[_Name, Source] = {}
    for row, time in zip(state.to_pylist(), _micros(state["noticed_at"]).to_pylist(), strict=True):
        name = (row["source_zid"], row["source_eid"])
        if row["kind"] == MISSING:
            missing.setdefault(name, []).append(Range(row["first_sn"], row["last_sn"], time))
        else:
            sources[name] = Source(row["first_sn"], row["last_sn"], time, row["kind"] == SETTLED)
    in_order = {name: sorted(gaps, key=lambda gap: gap.first) for name, gaps in missing.items()}
    return {name: replace(source, open=tuple(in_order.get(name, []))) for name, source in sources.items()}


def _micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(UTC).cast(pa.int64())


def _remember(name: _Name, source: Source, now: int) -> list[tuple[object, ...]]:
    if now - source.heard > SILENCE / timedelta(microseconds=1):
        return [_row(name, MISSING, gap, _size(gap), NEW) for gap in source.open]
    itself = Range(source.lowest, source.highest, source.heard)
    kind = SETTLED if source.settled else SOURCE
    return [
        _row(name, kind, itself, _size(itself), STATE),
        *(_row(name, MISSING, gap, _size(gap), STATE) for gap in source.open),
    ]


def _row(name: _Name, kind: str, found: Range, count: int, part: str) -> tuple[object, ...]:
    return (*name, kind, found.first, found.last, count, found.noticed, part)


def _size(found: Range) -> int:
    return found.last - found.first + 1
