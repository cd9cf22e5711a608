"""`gaps`: sequence numbers of a source that are missing, and those that were repeated.

A source is one publisher, across all keys and recorders: by `source_zid` and `source_eid` of its SourceInfo, or, where
a sample has none, by the gid in an attachment of rmw_zenoh (attachments.py), which is the `source_zid` of a source
without `source_eid`. A recorder of only some of the keys that a publisher uses sees the others as missing.

numbering.py defines missing and repeated. The state has, for every source, a row of kind SOURCE with the lowest and
highest number (SETTLED if nothing below is judged any more), and its missing ranges that may still be filled. Each
refresh that received numbers writes it anew, and forgets a source that was silent for `SILENCE`: if it returns, it
starts anew. A row of kind CHANGED tells a publication that the open ranges of a source are others than before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zenspark.arrow import UTC
from zenspark.lake.levels import NEW, STATE
from zenspark.lake.rmw_attachments import find_numbers
from zenspark.lake.sequence_gaps import WRAP, Numbers, Range, Repeated, Source, judge
from zenspark.lake.specs import GAPS, GAPS_STATE
from zenspark.spark.ingest.read_files import spark_schema

BUCKETS = 16
"""Sources are spread over so many tasks at most; what one task has at a time is in memory, numbers only."""
SILENCE = timedelta(days=1)
MISSING, REPEATED = "MISSING", "REPEATED"
SOURCE, SETTLED, CHANGED = "SOURCE", "SETTLED", "CHANGED"
NO_ENTITY = -1
"""Stands for no `source_eid` where numbers are compared."""

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

NAMES = ("source_zid", "source_eid", "kind", "first_sn", "last_sn")
"""The columns that name a missing range or a repeated number."""

_Name = tuple[str, int | None]
_Digest = tuple[Numbers, ...]
"""The numbers, times and offsets in one row."""
Integers = npt.NDArray[np.int64]


class Gaps:
    """Makes `gaps` out of samples."""

    state = GAPS_STATE
    public = GAPS
    order: tuple[str, ...] = ("source_zid", "source_eid", "kind", "first_sn")
    columns: tuple[str, ...] = (
        "attachment",
        "source_zid",
        "source_eid",
        "source_sn",
        "received_at",
        "recorder",
        "offset",
    )
    digested = NUMBERS
    has_state = True
    forgets = False

    def digest(self, rows: pa.Table) -> pa.Table:
        """The numbers of each source, with the times and offsets they were received at."""
        rows, sources, eids, numbers, zids = find_sources(rows)
        if not rows.num_rows:
            return NUMBERS.empty_table()
        names = rows["recorder"].chunk(0)
        columns = (sources, eids, names.indices.to_numpy())
        order = np.lexsort(columns)
        starts = np.flatnonzero(np.any([np.diff(column[order], prepend=-2) != 0 for column in columns], axis=0))
        counted = [each[order] for each in (numbers, *(_integers(rows[name]) for name in ("received_at", "offset")))]
        found = [
            (
                zids[sources[place]],
                None if eids[place] == NO_ENTITY else int(eids[place]),
                names[place].as_py(),
                *(each[start:end].tobytes() for each in counted),
            )
            for place, start, end in zip(order[starts].tolist(), starts, [*starts[1:], len(order)], strict=True)
        ]
        return pa.Table.from_pylist([dict(zip(NUMBERS.names, row, strict=True)) for row in found], schema=NUMBERS)

    def step(self, digests: DataFrame, state: DataFrame) -> DataFrame:
        bucket = F.pmod(F.hash("source_zid", "source_eid"), F.lit(BUCKETS)).alias("bucket")
        grouped = digests.groupBy(bucket).cogroup(state.groupBy(bucket))
        return grouped.applyInArrow(judge_sources, spark_schema(GAPS_STATE.schema))

    def step_rows(self, digests: pa.Table, state: pa.Table) -> pa.Table:
        return judge_sources(digests, state)

    def reduce(self, rows: pa.Table) -> pa.Table:
        """One row per missing range and per repeated number."""
        found = rows.cast(GAPS.schema).group_by(list(NAMES)).aggregate([("count", "sum"), ("noticed_at", "min")])
        return found.rename_columns([*NAMES, "count", "noticed_at"]).cast(GAPS.schema)

    def forget(self, rows: pa.Table, wild: pa.Table, limits: Mapping[str, int]) -> pa.Table:
        return rows.filter(pc.not_equal(rows["kind"], CHANGED))

    def resolve(self, rows: pa.Table, wild: pa.Table) -> pa.Table:
        """The rows of the public table: numbers as they were on the wire."""
        found = rows.filter(pc.is_in(rows["kind"], pa.array([MISSING, REPEATED])))
        wraps = pc.is_valid(found["source_eid"])
        for name in ("first_sn", "last_sn"):
            wire = pc.bit_wise_and(found[name], WRAP - 1)
            found = found.set_column(found.schema.names.index(name), name, pc.if_else(wraps, wire, found[name]))
        return found.cast(GAPS.schema)

    def view(self, stored: DataFrame, parts: Collection[str]) -> DataFrame:
        found = stored.where(F.col("kind").isin(MISSING, REPEATED)).groupBy(*NAMES)
        wraps = F.col("source_eid").isNotNull()
        wire = {
            name: F.when(wraps, F.pmod(name, F.lit(WRAP))).otherwise(F.col(name)) for name in ("first_sn", "last_sn")
        }
        sums = found.agg(F.sum("count").alias("count"), F.min("noticed_at").alias("noticed_at"))
        return sums.withColumns(wire).select(GAPS.schema.names)


def judge_sources(digests: pa.Table, state: pa.Table) -> pa.Table:
    """Takes in the numbers of some sources: their new state, and what is settled of them."""
    known = sources_in(state)
    repeated: list[pa.Table] = []
    found: list[tuple[object, ...]] = []
    for name, numbers, times in numbers_by_source(digests):
        before = known.get(name)
        verdict = judge(before, numbers, times, wraps=name[1] is not None)
        known[name] = verdict.source
        repeated.append(_repeated_rows(name, verdict.repeated))
        found += [_row(name, MISSING, each, _size(each), NEW) for each in verdict.settled]
        if verdict.source.open != (before.open if before else ()):
            found.append(_row(name, CHANGED, Range(0, 0, verdict.source.received), 0, NEW))
    now = max((source.received for source in known.values()), default=0)
    for name, source in known.items():
        found += _state_rows(name, source, now)
    columns = zip(*found, strict=True) if found else [()] * len(GAPS_STATE.schema)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, GAPS_STATE.schema, strict=True)]
    return pa.concat_tables([pa.Table.from_arrays(arrays, schema=GAPS_STATE.schema), *repeated])


def _repeated_rows(name: _Name, found: Repeated) -> pa.Table:
    """A row for each number of a source that was repeated."""
    alike = {"source_zid": name[0], "source_eid": name[1], "kind": REPEATED, "part": NEW}
    differing = {
        "first_sn": found.numbers,
        "last_sn": found.numbers,
        "count": found.times,
        "noticed_at": found.noticed,
    }
    columns = [
        pa.array(differing[each.name]).cast(each.type)
        if each.name in differing
        else pa.repeat(pa.scalar(alike[each.name], each.type), len(found.numbers))
        for each in GAPS_STATE.schema
    ]
    return pa.Table.from_arrays(columns, schema=GAPS_STATE.schema)


def find_sources(rows: pa.Table) -> tuple[pa.Table, Integers, Integers, Integers, list[str]]:
    """The rows that have a number: with an index of their source, their entity, their number; and the sources."""
    has_source = rows["source_sn"].chunk(0).is_valid().to_numpy(zero_copy_only=False)
    attached = find_numbers(rows["attachment"].chunk(0))
    chosen = ~has_source[attached.places]
    zids = rows["source_zid"].chunk(0)
    sources = np.full(len(has_source), -1, np.int64)
    eids, numbers = np.full_like(sources, NO_ENTITY), np.zeros_like(sources)
    sources[has_source] = zids.indices.filter(pa.array(has_source)).to_numpy()
    eids[has_source], numbers[has_source] = (
        rows[name].filter(pa.array(has_source)).to_numpy() for name in ("source_eid", "source_sn")
    )
    sources[attached.places[chosen]] = attached.publisher[chosen] + len(zids.dictionary)
    numbers[attached.places[chosen]] = attached.numbers[chosen]
    found = sources >= 0
    names = [*zids.dictionary.to_pylist(), *attached.gids]
    return rows.filter(pa.array(found)).combine_chunks(), sources[found], eids[found], numbers[found], names


def numbers_by_source(digests: pa.Table) -> Iterator[tuple[_Name, Numbers, Numbers]]:
    """For each source its numbers in the order of recorders and offsets, and the times they were received at."""
    sources: dict[_Name, dict[str, list[_Digest]]] = {}
    for batch in digests.to_batches():
        names = zip(*(batch[name].to_pylist() for name in NUMBERS.names[:3]), strict=True)
        for place, (zid, eid, recorder) in enumerate(names):
            columns = tuple(_numbers_at(batch[name], place) for name in NUMBERS.names[3:])
            sources.setdefault((zid, eid), {}).setdefault(recorder, []).append(columns)
    for name, recorders in sources.items():
        ordered = [_in_order(recorders[recorder]) for recorder in sorted(recorders)]
        numbers, times = (np.concatenate(each) for each in zip(*ordered, strict=True))
        yield name, numbers, times


def _numbers_at(column: pa.Array, place: int) -> Numbers:
    """The integers in one row, where they lie."""
    return np.frombuffer(column[place].as_buffer(), np.int64)


def _in_order(rows: list[_Digest]) -> tuple[Numbers, Numbers]:
    """Numbers and times of one source at one recorder, by offset."""
    numbers, times, offsets = (np.concatenate(each) for each in zip(*rows, strict=True))
    order = np.argsort(offsets)
    return numbers[order], times[order]


def sources_in(state: pa.Table) -> dict[_Name, Source]:
    """The sources that a state has."""
    missing: dict[_Name, list[Range]] = {}
    sources: dict[_Name, Source] = {}
    for row, time in zip(state.to_pylist(), _integers(state["noticed_at"]).tolist(), strict=True):
        name = (row["source_zid"], row["source_eid"])
        if row["kind"] == MISSING:
            missing.setdefault(name, []).append(Range(row["first_sn"], row["last_sn"], time))
        else:
            sources[name] = Source(row["first_sn"], row["last_sn"], time, row["kind"] == SETTLED)
    in_order = {name: sorted(gaps, key=lambda gap: gap.first) for name, gaps in missing.items()}
    return {name: replace(source, open=tuple(in_order.get(name, []))) for name, source in sources.items()}


def _integers(column: pa.ChunkedArray) -> Integers:
    """A column of integers or times as integers."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(UTC)
    found: Integers = pc.cast(column, pa.int64()).to_numpy()
    return found


def _state_rows(name: _Name, source: Source, now: int) -> list[tuple[object, ...]]:
    if now - source.received > SILENCE / timedelta(microseconds=1):
        return [_row(name, MISSING, gap, _size(gap), NEW) for gap in source.open]
    itself = Range(source.lowest, source.highest, source.received)
    kind = SETTLED if source.settled else SOURCE
    return [
        _row(name, kind, itself, _size(itself), STATE),
        *(_row(name, MISSING, gap, _size(gap), STATE) for gap in source.open),
    ]


def _row(name: _Name, kind: str, found: Range, count: int, part: str) -> tuple[object, ...]:
    return (*name, kind, found.first, found.last, count, found.noticed, part)


def _size(found: Range) -> int:
    return found.last - found.first + 1
