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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zenspark.arrow import UTC
from zenspark.spark.lake.derived import MERGED, NEW, STATE
from zenspark.spark.lake.numbering import WRAP, Numbers, Range, Source, judge
from zenspark.spark.lake.reading import spark_schema
from zenspark.spark.lake.shapes import GAPS

BUCKETS = 16
"""Sources are spread over so many tasks at most; what one task has at a time is in memory, numbers only."""
SILENCE = timedelta(days=1)
MISSING, REPEATED = "MISSING", "REPEATED"
SOURCE, SETTLED = "SOURCE", "SETTLED"

NUMBERS = pa.schema(
    [
        ("source_zid", pa.string()),
        ("source_eid", pa.int64()),
        ("recorder", pa.string()),
        ("numbers", pa.binary()),
        ("times", pa.binary()),
        ("offsets", pa.binary()),
    ]
)
"""Numbers of sources, many in a row: a 64-bit integer for each, in each of the last three columns."""

_Name = tuple[str, int]
Row = dict[str, Any]


class Gaps:
    """Makes `gaps` out of samples."""

    shape = GAPS
    needs = "source_sn"
    columns: tuple[str, ...] = ("source_zid", "source_eid", "source_sn", "received_at", "recorder", "offset")
    digested = NUMBERS
    has_state = True

    def digest(self, rows: pa.Table) -> pa.Table:
        """The numbers of each source, with the times and offsets they came at."""
        rows = rows.filter(pc.is_valid(rows["source_sn"])).combine_chunks()
        if not rows.num_rows:
            return NUMBERS.empty_table()
        zids, eids, names = rows["source_zid"].chunk(0), rows["source_eid"].to_numpy(), rows["recorder"].chunk(0)
        columns = (zids.indices.to_numpy(), eids, names.indices.to_numpy())
        order = np.lexsort(columns)
        starts = np.flatnonzero(np.any([np.diff(column[order], prepend=-1) != 0 for column in columns], axis=0))
        told = [rows["source_sn"], _micros(rows["received_at"]), rows["offset"]]
        numbers = [column.to_numpy()[order] for column in told]
        found = [
            (
                zids[place].as_py(),
                int(eids[place]),
                names[place].as_py(),
                *(each[start:end].tobytes() for each in numbers),
            )
            for place, start, end in zip(order[starts].tolist(), starts, [*starts[1:], len(order)], strict=True)
        ]
        return pa.Table.from_pylist([dict(zip(NUMBERS.names, row, strict=True)) for row in found], schema=NUMBERS)

    def step(self, digests: DataFrame, state: DataFrame) -> DataFrame:
        bucket = F.pmod(F.hash("source_zid", "source_eid"), F.lit(BUCKETS)).alias("bucket")
        return digests.groupBy(bucket).cogroup(state.groupBy(bucket)).applyInArrow(judged, spark_schema(GAPS.schema))

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


def judged(digests: pa.Table, state: pa.Table) -> pa.Table:
    """Takes in the numbers of some sources: their new state, and what there is to tell."""
    known = remembered(state)
    found: list[tuple[object, ...]] = []
    for name, numbers, times in by_source(digests):
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


def by_source(digests: pa.Table) -> Iterator[tuple[_Name, Numbers, Numbers]]:
    """For each source its numbers in the order of recorders and offsets, and the times they came at."""
    sources: dict[_Name, dict[str, list[Row]]] = {}
    for row in digests.to_pylist():
        sources.setdefault((row["source_zid"], row["source_eid"]), {}).setdefault(row["recorder"], []).append(row)
    for name, recorders in sorted(sources.items()):
        ordered = [_in_order(recorders[recorder]) for recorder in sorted(recorders)]
        numbers, times = (np.concatenate(each) for each in zip(*ordered, strict=True))
        yield name, numbers, times


def _in_order(rows: list[Row]) -> tuple[Numbers, Numbers]:
    """Numbers and times of one source at one recorder, by offset."""
    columns = ("numbers", "times", "offsets")
    numbers, times, offsets = (np.concatenate([np.frombuffer(row[name], np.int64) for row in rows]) for name in columns)
    order = np.argsort(offsets)
    return numbers[order], times[order]


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
