"""Reads a derived table up to the moment without Spark: its state, and the rows of `samples` not refreshed yet.

The result is that of `zenspark.spark.ingest.derived.DerivedTable.read`. All rows of the table are in memory, so this
suits tables of up to some million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.delta_table import ForeignCommit, LakeTable
from zenspark.lake.derived.gaps import GapsAggregation
from zenspark.lake.derived.latest import LatestAggregation
from zenspark.lake.derived.partial_aggregates import IDENTITY_COLUMNS, PartialAggregation, iterate_partials
from zenspark.lake.derived.traffic import TrafficAggregation
from zenspark.lake.key_ranges import FULL_RANGE, SortedTable
from zenspark.lake.lake import Lake
from zenspark.lake.levels import REPLACED_PART, WILDCARD_PARTS, has_wildcard_keys, part_of
from zenspark.lake.parquet_files import DataFile, concat_batches, conform_to_schema, read_batches
from zenspark.lake.pending_rows import (
    PROPAGATED_DELETES_APP_ID,
    REBUILD_COUNT_APP_ID,
    SAMPLES_VERSION_APP_ID,
    OffsetRanges,
    find_pending,
)
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES

Row = dict[str, object]
Identity = tuple[object, ...]
"""Recorder and offset of a sample."""


class DerivedAggregation(PartialAggregation, Protocol):
    """The part of a definition that works with Arrow."""

    needs_state: bool
    propagates_deletes: bool

    def combine_rows(self, partials: pa.Table, state: pa.Table) -> pa.Table:
        """Combine partial aggregates with the files that refreshes replace, `part=state`."""

    def reduce(self, rows: pa.Table) -> pa.Table:
        """Merge rows that belong together."""

    def to_public_rows(self, rows: pa.Table, wildcard_rows: pa.Table) -> pa.Table:
        """Compute the rows of the public table."""


AGGREGATIONS: dict[str, DerivedAggregation] = {
    "latest": LatestAggregation(),
    "gaps": GapsAggregation(),
    "traffic": TrafficAggregation(),
}
"""Definitions of the derived tables by name."""


def is_public_table_complete(lake: Lake, name: str) -> bool:
    """Whether the public table of a derived table already has all rows of `samples`."""
    public, state, samples = lake.table(name), lake.state_table(name), lake.table("samples")
    if not public.exists or lake.version == "1":
        return False
    is_same_build = (public.app_version(REBUILD_COUNT_APP_ID) or 0) == (state.app_version(REBUILD_COUNT_APP_ID) or 0)
    return is_same_build and find_pending(public, samples).is_empty and not _foreign_changes(name, state, samples)


def resolve(lake: Lake, name: str) -> pa.Table:
    """Read a derived table with all rows that are in `samples` now."""
    state = lake.state_table(name)  # opened before `samples`, so that it is never ahead of them
    samples = lake.table("samples")
    aggregation = AGGREGATIONS[name]
    changes = _foreign_changes(name, state, samples)
    remove_deleted_rows = _make_row_filter(state, samples, changes) if changes else None
    pending = _all_rows(samples) if changes else find_pending(state, samples)
    new = _read_pending(aggregation, state, samples, pending, is_complete=bool(changes))
    stored = [file for file in state.files if part_of(file) != REPLACED_PART]
    sorted_table = SortedTable(state.location, state.spec, aggregation.order[0])
    parts = {}
    for is_wildcard_part in (False, True):
        files = [file for file in stored if has_wildcard_keys(file) == is_wildcard_part]
        old = sorted_table.read(files, FULL_RANGE, aggregation.reduce)
        selected = _select_part(new, is_wildcard_part)
        parts[is_wildcard_part] = _merge(
            aggregation, remove_deleted_rows(old) if remove_deleted_rows else old, selected
        )
    return aggregation.to_public_rows(parts[False], parts[True])


def _read_pending(
    aggregation: DerivedAggregation, state: LakeTable, samples: LakeTable, pending: OffsetRanges, *, is_complete: bool
) -> pa.Table:
    """Aggregate pending rows; where a definition needs it, combined with the partition `part=state`."""
    version = None if is_complete else state.app_version(SAMPLES_VERSION_APP_ID)
    files = samples.files if version is None else samples.files_since(version)
    selected = [] if pending.is_empty else [file for file in files if pending.may_have_rows_in(file)]
    partials = list(iterate_partials(aggregation, samples.location, pending, selected))
    if not aggregation.needs_state:
        return _concat(partials, state.spec.schema)
    state_files = [file for file in state.files if part_of(file) == REPLACED_PART]
    previous = _concat([_read_with_part(state, file) for file in state_files], state.spec.schema)
    return aggregation.combine_rows(pa.concat_tables(partials), previous) if partials else previous


def _read_with_part(state: LakeTable, file: DataFile) -> pa.Table:
    rows = pa.Table.from_batches(
        read_batches(state.location, file, state.spec), with_text_type(state.spec.columns, DICTIONARY_TYPE)
    )
    return rows.append_column("part", pa.repeat(part_of(file), rows.num_rows)).cast(state.spec.schema)


def _concat(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])


def _select_part(rows: pa.Table, has_wildcards: bool) -> pa.Table:
    in_part = pc.is_in(rows["part"], pa.array(WILDCARD_PARTS))
    return rows.filter(in_part if has_wildcards else pc.invert(in_part)).drop_columns("part")


def _merge(aggregation: DerivedAggregation, old: pa.Table, new: pa.Table) -> pa.Table:
    """Reduce old and new rows together; texts dictionary-encoded and one chunk per column, as `reduce` takes them."""
    schema = with_text_type(aggregation.state.columns, DICTIONARY_TYPE)
    batches = [conform_to_schema(batch, schema) for rows in (old, new) for batch in rows.to_batches()]
    return aggregation.reduce(concat_batches(batches) if batches else pa.table(schema.empty_table()))


# --- deletes by other tools -------------------------------------------------------------------------------------------


def _foreign_changes(name: str, state: LakeTable, samples: LakeTable) -> list[ForeignCommit]:
    """List deletes by other tools in `samples` that the state does not have yet."""
    version = state.app_version(PROPAGATED_DELETES_APP_ID)
    if version is None or not AGGREGATIONS[name].propagates_deletes:
        return []
    return samples.foreign_changes(version) or []


def _all_rows(samples: LakeTable) -> OffsetRanges:
    """Every row of `samples`: a key that lost its newest row falls back to an older one."""
    everything = OffsetRanges({}, {})
    return OffsetRanges(everything.start, find_pending(samples, samples).end)


def _make_row_filter(
    state: LakeTable, samples: LakeTable, changes: Sequence[ForeignCommit]
) -> Callable[[pa.Table], pa.Table]:
    """Make a filter that removes rows of the state that were in removed files and are no longer in `samples`."""
    removed = _read_removed(samples, [path for change in changes for path in change.removed])
    days = {partition[0] if partition else None for change in changes for partition in change.partitions}

    def remove_deleted_rows(rows: pa.Table) -> pa.Table:
        plain = rows.cast(JOURNAL_SCHEMA).to_pylist()
        suspects = {
            _identity(row): row
            for row in plain
            if (removed is None or _identity(row) in removed) and (None in days or _day(row) in days)
        }
        live = _read_rows(samples, suspects)
        gone = {identity for identity, row in suspects.items() if _content(row) not in live.get(identity, ())}
        return rows.filter(pa.array([_identity(row) not in gone for row in plain], pa.bool_()))

    return remove_deleted_rows


def _read_removed(samples: LakeTable, paths: Sequence[str]) -> set[Identity] | None:
    """Identities of the rows of removed files; None if vacuum has deleted one of the files."""
    if not all(samples.location.exists(path) for path in paths):
        return None
    files = [DataFile(path, 0, 0, {}) for path in paths]
    return {_identity(row) for row in _iterate(samples, files, IDENTITY_COLUMNS)}


def _read_rows(samples: LakeTable, identities: Iterable[Identity]) -> dict[Identity, list[Row]]:
    """Contents of the rows of `samples` with these identities."""
    selected = set(identities)
    contents: dict[Identity, list[Row]] = {}
    if selected:
        for row in _iterate(samples, samples.files, JOURNAL_SCHEMA.names):
            if _identity(row) in selected:
                contents.setdefault(_identity(row), []).append(_content(row))
    return contents


def _iterate(samples: LakeTable, files: Iterable[DataFile], columns: Sequence[str]) -> Iterable[Row]:
    for file in files:
        for batch in read_batches(samples.location, file, SAMPLES, columns):
            yield from batch.to_pylist()


def _identity(row: Row) -> Identity:
    return tuple(row[name] for name in IDENTITY_COLUMNS)


def _content(row: Row) -> Row:
    """Columns compared to recognise a row. Without the key: a PUT with wildcards is stored under keys it updated."""
    return {name: value for name, value in row.items() if name != "key"}


def _day(row: Row) -> str:
    received = row["received_at"]
    assert isinstance(received, datetime), "every row has been received"
    day: date = received.astimezone(UTC).date()
    return day.isoformat()
