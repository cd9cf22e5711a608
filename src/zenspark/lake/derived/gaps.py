"""`gaps`: missing and repeated sequence numbers of each source.

A source is one publisher, across all keys and recorders. It is identified by `source_zid` and `source_eid` of its
SourceInfo. Where a sample has no SourceInfo, it is identified by the gid in an rmw_zenoh attachment
(lake/rmw_attachments.py), stored as `source_zid` without `source_eid`. If only some keys of a publisher are recorded,
the numbers of its other keys appear as missing.

lake/sequence_gaps.py defines missing and repeated. For every source the state has a row of kind SOURCE with the lowest
and highest number (SETTLED once numbers below are no longer checked), and its missing ranges that may still be filled.
Each refresh with new numbers rewrites the state and drops sources that sent nothing for `SOURCE_RESET_AFTER`; such a
source starts anew when it returns. A row of kind CHANGED marks that the open ranges of a source changed, for the writer
of the public table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow import UTC
from zenspark.lake.levels import NEW_PART, REPLACED_PART
from zenspark.lake.rmw_attachments import find_sequence_numbers
from zenspark.lake.sequence_gaps import MissingRange, Numbers, RepeatedNumbers, SourceState, update_gaps
from zenspark.lake.specs import GAPS, GAPS_STATE
from zenspark.types.ids import SOURCE_SN_MODULUS
from zenspark.types.timestamps import MICROSECOND

SOURCE_RESET_AFTER = timedelta(days=1)
MISSING, REPEATED = "MISSING", "REPEATED"
SOURCE, FINALIZED, CHANGED = "SOURCE", "SETTLED", "CHANGED"
"""Kinds of the rows of the state."""
NO_ENTITY = -1
"""Replaces a null `source_eid` in integer arrays."""

NUMBERS_SCHEMA = pa.schema(
    [
        ("source_zid", pa.string()),
        ("source_eid", pa.int64()),
        ("recorder", pa.string()),
        ("numbers", pa.binary()),
        ("times", pa.binary()),
        ("offsets", pa.binary()),
    ]
)
"""Packed sequence numbers of sources: the last three columns are arrays of 64-bit integers as bytes."""

GAP_KEY_COLUMNS = ("source_zid", "source_eid", "kind", "first_sn", "last_sn")
"""Columns that identify a missing range or a repeated number."""

_SourceKey = tuple[str, int | None]
_PackedNumbers = tuple[Numbers, ...]
"""Numbers, times and offsets of one row of `NUMBERS_SCHEMA`."""
Integers = npt.NDArray[np.int64]


class GapsAggregation:
    """Aggregates samples to the derived table `gaps`."""

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
    partial_schema = NUMBERS_SCHEMA
    needs_state = True
    propagates_deletes = False

    def aggregate_rows(self, rows: pa.Table) -> pa.Table:
        """Collect the sequence numbers of each source, with reception times and offsets."""
        rows, sources, eids, numbers, zids = extract_numbers(rows)
        if not rows.num_rows:
            return NUMBERS_SCHEMA.empty_table()
        names = rows["recorder"].chunk(0)
        columns = (sources, eids, names.indices.to_numpy())
        order = np.lexsort(columns)
        starts = np.flatnonzero(np.any([np.diff(column[order], prepend=-2) != 0 for column in columns], axis=0))
        values = [array[order] for array in (numbers, *(_integers(rows[name]) for name in ("received_at", "offset")))]
        packed = [
            (
                zids[sources[index]],
                None if eids[index] == NO_ENTITY else int(eids[index]),
                names[index].as_py(),
                *(array[start:end].tobytes() for array in values),
            )
            for index, start, end in zip(order[starts].tolist(), starts, [*starts[1:], len(order)], strict=True)
        ]
        return pa.Table.from_pylist(
            [dict(zip(NUMBERS_SCHEMA.names, row, strict=True)) for row in packed], schema=NUMBERS_SCHEMA
        )

    def combine_rows(self, partials: pa.Table, state: pa.Table) -> pa.Table:
        return update_sources(partials, state)

    def reduce(self, rows: pa.Table) -> pa.Table:
        """Merge rows into one per missing range and per repeated number."""
        grouped = (
            rows.cast(GAPS.schema).group_by(list(GAP_KEY_COLUMNS)).aggregate([("count", "sum"), ("noticed_at", "min")])
        )
        return grouped.rename_columns([*GAP_KEY_COLUMNS, "count", "noticed_at"]).cast(GAPS.schema)

    def drop_expired(self, rows: pa.Table, wildcard_rows: pa.Table, limits: Mapping[str, int]) -> pa.Table:
        return rows.filter(pc.not_equal(rows["kind"], CHANGED))

    def to_public_rows(self, rows: pa.Table, wildcard_rows: pa.Table) -> pa.Table:
        """Return the rows of the public table, with sequence numbers as they were on the wire."""
        gaps = rows.filter(pc.is_in(rows["kind"], pa.array([MISSING, REPEATED])))
        wraps = pc.is_valid(gaps["source_eid"])
        for name in ("first_sn", "last_sn"):
            wire = pc.bit_wise_and(gaps[name], SOURCE_SN_MODULUS - 1)
            gaps = gaps.set_column(gaps.schema.names.index(name), name, pc.if_else(wraps, wire, gaps[name]))
        return gaps.cast(GAPS.schema)


def update_sources(partials: pa.Table, state: pa.Table) -> pa.Table:
    """Update sources with new numbers. Returns their new state rows and the finalized gaps and repetitions."""
    sources = read_sources(state)
    repeated: list[pa.Table] = []
    state_rows: list[tuple[object, ...]] = []
    for name, numbers, times in group_by_source(partials):
        before = sources.get(name)
        update = update_gaps(before, numbers, times, wraps=name[1] is not None)
        sources[name] = update.source
        repeated.append(_repeated_rows(name, update.repeated))
        state_rows += [_row(name, MISSING, gap, _size(gap), NEW_PART) for gap in update.finalized]
        if update.source.open_ranges != (before.open_ranges if before else ()):
            state_rows.append(_row(name, CHANGED, MissingRange(0, 0, update.source.received_at_us), 0, NEW_PART))
    now = max((source.received_at_us for source in sources.values()), default=0)
    for name, source in sources.items():
        state_rows += _state_rows(name, source, now)
    columns = zip(*state_rows, strict=True) if state_rows else [()] * len(GAPS_STATE.schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, GAPS_STATE.schema, strict=True)]
    return pa.concat_tables([pa.Table.from_arrays(arrays, schema=GAPS_STATE.schema), *repeated])


def _repeated_rows(name: _SourceKey, repeated: RepeatedNumbers) -> pa.Table:
    """Make a row for each repeated number of a source."""
    constant = {"source_zid": name[0], "source_eid": name[1], "kind": REPEATED, "part": NEW_PART}
    varying = {
        "first_sn": repeated.numbers,
        "last_sn": repeated.numbers,
        "count": repeated.repetitions,
        "noticed_at": repeated.noticed_at_us,
    }
    columns = [
        pa.array(varying[field.name]).cast(field.type)
        if field.name in varying
        else pa.repeat(pa.scalar(constant[field.name], field.type), len(repeated.numbers))
        for field in GAPS_STATE.schema
    ]
    return pa.Table.from_arrays(columns, schema=GAPS_STATE.schema)


def extract_numbers(rows: pa.Table) -> tuple[pa.Table, Integers, Integers, Integers, list[str]]:
    """Select rows with a sequence number. Returns rows, source indices, entity ids, numbers, and source names."""
    has_source = rows["source_sn"].chunk(0).is_valid().to_numpy(zero_copy_only=False)
    attachments = find_sequence_numbers(rows["attachment"].chunk(0))
    chosen = ~has_source[attachments.row_indices]
    zids = rows["source_zid"].chunk(0)
    sources = np.full(len(has_source), -1, np.int64)
    eids, numbers = np.full_like(sources, NO_ENTITY), np.zeros_like(sources)
    sources[has_source] = zids.indices.filter(pa.array(has_source)).to_numpy()
    eids[has_source], numbers[has_source] = (
        rows[name].filter(pa.array(has_source)).to_numpy() for name in ("source_eid", "source_sn")
    )
    sources[attachments.row_indices[chosen]] = attachments.publisher[chosen] + len(zids.dictionary)
    numbers[attachments.row_indices[chosen]] = attachments.numbers[chosen]
    is_numbered = sources >= 0
    names = [*zids.dictionary.to_pylist(), *attachments.gids]
    return (
        rows.filter(pa.array(is_numbered)).combine_chunks(),
        sources[is_numbered],
        eids[is_numbered],
        numbers[is_numbered],
        names,
    )


def group_by_source(partials: pa.Table) -> Iterator[tuple[_SourceKey, Numbers, Numbers]]:
    """Yield for each source its numbers, ordered by recorder and offset, and their reception times."""
    sources: dict[_SourceKey, dict[str, list[_PackedNumbers]]] = {}
    for batch in partials.to_batches():
        names = zip(*(batch[name].to_pylist() for name in NUMBERS_SCHEMA.names[:3]), strict=True)
        for index, (zid, eid, recorder) in enumerate(names):
            columns = tuple(_numbers_at(batch[name], index) for name in NUMBERS_SCHEMA.names[3:])
            sources.setdefault((zid, eid), {}).setdefault(recorder, []).append(columns)
    for name, recorders in sources.items():
        ordered = [_sort_by_offset(recorders[recorder]) for recorder in sorted(recorders)]
        numbers, times = (np.concatenate(arrays) for arrays in zip(*ordered, strict=True))
        yield name, numbers, times


def _numbers_at(column: pa.Array, index: int) -> Numbers:
    """View the packed integers of one row without copying."""
    return np.frombuffer(column[index].as_buffer(), np.int64)


def _sort_by_offset(rows: list[_PackedNumbers]) -> tuple[Numbers, Numbers]:
    """Sort the numbers and times of one source at one recorder by offset."""
    numbers, times, offsets = (np.concatenate(arrays) for arrays in zip(*rows, strict=True))
    order = np.argsort(offsets)
    return numbers[order], times[order]


def read_sources(state: pa.Table) -> dict[_SourceKey, SourceState]:
    """Read the sources from the rows of a state."""
    missing: dict[_SourceKey, list[MissingRange]] = {}
    sources: dict[_SourceKey, SourceState] = {}
    for row, time in zip(state.to_pylist(), _integers(state["noticed_at"]).tolist(), strict=True):
        name = (row["source_zid"], row["source_eid"])
        if row["kind"] == MISSING:
            missing.setdefault(name, []).append(MissingRange(row["first_sn"], row["last_sn"], time))
        else:
            sources[name] = SourceState(row["first_sn"], row["last_sn"], time, row["kind"] == FINALIZED)
    in_order = {name: sorted(gaps, key=lambda gap: gap.first) for name, gaps in missing.items()}
    return {name: replace(source, open_ranges=tuple(in_order.get(name, []))) for name, source in sources.items()}


def _integers(column: pa.ChunkedArray) -> Integers:
    """Convert a column of integers or timestamps to integers (microseconds)."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(UTC)
    integers: Integers = pc.cast(column, pa.int64()).to_numpy()
    return integers


def _state_rows(name: _SourceKey, source: SourceState, now: int) -> list[tuple[object, ...]]:
    if now - source.received_at_us > SOURCE_RESET_AFTER / MICROSECOND:
        return [_row(name, MISSING, gap, _size(gap), NEW_PART) for gap in source.open_ranges]
    full_range = MissingRange(source.lowest, source.highest, source.received_at_us)
    kind = FINALIZED if source.is_finalized else SOURCE
    return [
        _row(name, kind, full_range, _size(full_range), REPLACED_PART),
        *(_row(name, MISSING, gap, _size(gap), REPLACED_PART) for gap in source.open_ranges),
    ]


def _row(name: _SourceKey, kind: str, gap: MissingRange, count: int, part: str) -> tuple[object, ...]:
    return (*name, kind, gap.first, gap.last, count, gap.noticed_at_us, part)


def _size(gap: MissingRange) -> int:
    return gap.last - gap.first + 1
