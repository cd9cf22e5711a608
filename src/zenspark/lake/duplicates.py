"""Deduplication of samples that two recorders have both recorded.

Two nodes that record the same keys for redundancy receive the same samples. Two samples are duplicates if they have the
same key and kind, and either the same timestamp of the same clock or the same source and sequence number. A repetition
within the *same* recorder was published twice, and is kept. Samples with neither a timestamp nor a source cannot be
identified, and are all kept.

Ingested samples are looked up in the table itself, in the files whose times overlap those of the new rows. So there is
no other state, and it does not matter how much later the journal of the second recorder is ingested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.errors import CorruptJournal
from zenspark.journal import Slice
from zenspark.lake.delta_table import LakeTable
from zenspark.lake.parquet_files import DataFile, read_batches
from zenspark.lake.specs import SAMPLES

COMPARED_COLUMNS = (
    "key",
    "kind",
    "timestamp",
    "timestamp_ntp64",
    "timestamp_id",
    "source_zid",
    "source_eid",
    "source_sn",
    "received_at",
    "recorder",
    "offset",
)
"""Columns by which two rows of different recorders are found to be one sample."""
MAX_CLOCK_SKEW = timedelta(minutes=1)
"""Largest difference between the clocks of two recorders: bounds the search for samples without a timestamp."""

Offsets = npt.NDArray[np.int64]
DuplicateOffsets = dict[str, Offsets]
"""Offsets of duplicate rows by recorder, in ascending order."""


class SampleIdentities(NamedTuple):
    """Identities of samples: recorder and offset, and the two keys by which duplicates are found; null if none."""

    recorder: pa.Array
    offset: pa.Array
    by_timestamp: pa.Array
    by_source: pa.Array


def find_duplicates(slices: Sequence[Slice], samples: LakeTable) -> DuplicateOffsets:
    """Find the rows of journal slices that were ingested from another recorder, or that another of the slices has."""
    rows = pa.Table.from_batches(
        [batch for part in slices for batch in _read_identity_columns(part)], schema=_identity_schema()
    )
    if not rows.num_rows:
        return {}
    new = compute_identities(rows)
    ingested = _concat_identities([compute_identities(table) for table in _read_overlapping(samples, rows)])
    return match_duplicates(new, ingested)


def _read_identity_columns(part: Slice) -> list[pa.RecordBatch]:
    """Read the identity columns of a slice; no rows if it is corrupt, which ingestion handles."""
    try:
        return [batch.select(COMPARED_COLUMNS) for batch in part.batches()]
    except CorruptJournal:
        return []


def _identity_schema() -> pa.Schema:
    return pa.schema([SAMPLES.columns.field(name) for name in COMPARED_COLUMNS])


def match_duplicates(new: SampleIdentities, ingested: SampleIdentities | None) -> DuplicateOffsets:
    """Find new samples that another recorder recorded too: in the table, or in the slices if its name sorts first."""
    duplicates: DuplicateOffsets = {}
    names = sorted(pc.unique(new.recorder).to_pylist())
    for index, name in enumerate(names):
        is_of_recorder = pc.equal(new.recorder, name)
        before = pc.is_in(new.recorder, pa.array(names[:index], pa.string()))
        others = [_filter_identities(new, before)]
        if ingested is not None:
            others.append(_filter_identities(ingested, pc.not_equal(ingested.recorder, name)))
        dropped = _is_among(_filter_identities(new, is_of_recorder), others)
        if pc.any(dropped).as_py():
            offsets = _filter_identities(new, is_of_recorder).offset.filter(dropped).to_numpy()
            duplicates[name] = np.sort(offsets)
    return duplicates


def _is_among(samples: SampleIdentities, others: Iterable[SampleIdentities]) -> pa.Array:
    mask = pa.array(np.zeros(len(samples.recorder), bool))
    for other in others:
        for identities, candidates in (
            (samples.by_timestamp, other.by_timestamp),
            (samples.by_source, other.by_source),
        ):
            values = pc.drop_null(candidates)
            if len(values):
                mask = pc.or_(mask, pc.and_(pc.is_valid(identities), pc.is_in(identities, values)))
    return mask


def _filter_identities(identities: SampleIdentities, mask: pa.Array) -> SampleIdentities:
    return SampleIdentities(*(column.filter(mask) for column in identities))


def _concat_identities(parts: Sequence[SampleIdentities]) -> SampleIdentities | None:
    if not parts:
        return None
    return SampleIdentities(*(pa.chunked_array(list(columns)).combine_chunks() for columns in zip(*parts, strict=True)))


def compute_identities(rows: pa.Table) -> SampleIdentities:
    """Build the identity strings of samples by timestamp and by source; null where a part is missing."""
    text = {
        name: rows[name].cast(pa.string()).combine_chunks() for name in COMPARED_COLUMNS if name not in ("received_at",)
    }
    by_timestamp = pc.binary_join_element_wise(
        text["timestamp_ntp64"], text["timestamp_id"], text["kind"], text["key"], "/"
    )
    by_source = pc.binary_join_element_wise(
        text["source_zid"], text["source_eid"], text["source_sn"], text["kind"], text["key"], "/"
    )
    return SampleIdentities(text["recorder"], rows["offset"].combine_chunks(), by_timestamp, by_source)


# --- ingested rows ----------------------------------------------------------------------------------------------------


class _TimeBounds(NamedTuple):
    """Timestamp range and reception range, widened by the clock skew, of the new rows; None without such times."""

    timestamped: tuple[datetime, datetime] | None
    received: tuple[datetime, datetime] | None

    @property
    def first_day(self) -> date:
        """First day on which duplicates may have been received."""
        return min(times[0] - timedelta(days=1) for times in self if times is not None).date()


def _time_bounds(rows: pa.Table) -> _TimeBounds:
    timestamped, received = pc.min_max(rows["timestamp"]).as_py(), pc.min_max(rows["received_at"]).as_py()
    has_source = rows["source_sn"].null_count < rows.num_rows
    return _TimeBounds(
        None if timestamped["min"] is None else (timestamped["min"], timestamped["max"]),
        (received["min"] - MAX_CLOCK_SKEW, received["max"] + MAX_CLOCK_SKEW)
        if has_source and received["min"]
        else None,
    )


def _read_overlapping(samples: LakeTable, rows: pa.Table) -> Iterator[pa.Table]:
    """Read rows of the table that may be duplicates, from files whose times overlap."""
    times = _time_bounds(rows)
    if times.timestamped is None and times.received is None:
        return
    recorders = set(pc.unique(rows["recorder"]).to_pylist())
    for file in samples.prune_files(day_from=times.first_day):
        may_overlap = _overlaps(file, "timestamp", times.timestamped) or _overlaps(file, "received_at", times.received)
        if may_overlap and not _is_of_single_recorder(file, recorders):
            yield from map(
                pa.Table.from_batches,
                ([batch] for batch in read_batches(samples.location, file, SAMPLES, COMPARED_COLUMNS)),
            )


def _overlaps(file: DataFile, column: str, times: tuple[datetime, datetime] | None) -> bool:
    if times is None:
        return False
    least, greatest = file.min_values.get(column), file.max_values.get(column)
    if least is None or greatest is None:  # without statistics, or no row has a value
        return not file.min_values or column == "received_at"
    return bool(least <= times[1] and greatest >= times[0])


def _is_of_single_recorder(file: DataFile, recorders: set[str]) -> bool:
    """Whether all rows of a file and all new rows are of the same single recorder."""
    return len(recorders) == 1 and {file.min_values.get("recorder"), file.max_values.get("recorder")} == recorders


def drop_duplicates(rows: pa.Table | pa.RecordBatch, dropped: Mapping[str, Offsets]) -> pa.Table | pa.RecordBatch:
    """Remove duplicate rows from a batch of one recorder."""
    if not dropped or not rows.num_rows:
        return rows
    offsets = dropped.get(rows.column("recorder")[0].as_py())
    if offsets is None or not len(offsets):
        return rows
    return rows.filter(pa.array(~np.isin(rows.column("offset").to_numpy(), offsets)))
