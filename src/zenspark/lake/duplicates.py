"""Samples that two recorders have both recorded: which of them a lake need not take in again.

Two nodes that record the same keys for safety see the same samples. A sample is the same if it has the same key and the
same timestamp by the same clock, or the same source and number. What comes again from the *same* recorder was published
again, and stays. Samples with neither a timestamp nor a source cannot be told apart, and all stay.

Which samples are there already is looked up in the table itself, in the files whose times overlap those of the new
rows. So nothing has to be remembered, and it does not matter how much later the second recorder's journal lands.
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
from zenspark.lake.delta_table import Table
from zenspark.lake.parquet_files import File, batches_of
from zenspark.lake.specs import SAMPLES

COLUMNS = (
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
CLOCK_SKEW = timedelta(minutes=1)
"""How far apart the clocks of two recorders may be: a sample with a source and no timestamp is looked for so far."""

Offsets = npt.NDArray[np.int64]
Dropped = dict[str, Offsets]
"""Of each recorder the offsets of rows that are there already, from another recorder; in order."""


class Known(NamedTuple):
    """Samples by what tells them apart: which recorder has them, and what each is called by stamp and by source."""

    recorder: pa.Array
    offset: pa.Array
    by_stamp: pa.Array
    by_source: pa.Array


def find_duplicates(parts: Sequence[Slice], samples: Table) -> Dropped:
    """The rows of these parts of journals that another recorder has brought in, or brings in with them."""
    rows = pa.Table.from_batches([batch for part in parts for batch in _readable(part)], schema=_plain_schema())
    if not rows.num_rows:
        return {}
    new = known_of(rows)
    there = _joined([known_of(each) for each in _overlapping(samples, rows)])
    return duplicates(new, there)


def _readable(part: Slice) -> list[pa.RecordBatch]:
    """The columns of a part that tell samples apart; none where its rows cannot be read, which landing deals with."""
    try:
        return [batch.select(COLUMNS) for batch in part.batches()]
    except CorruptJournal:
        return []


def _plain_schema() -> pa.Schema:
    return pa.schema([SAMPLES.columns.field(name) for name in COLUMNS])


def duplicates(new: Known, there: Known | None) -> Dropped:
    """Which new samples another recorder has, too: one that is in the table, or one that comes first by name."""
    found: Dropped = {}
    names = sorted(pc.unique(new.recorder).to_pylist())
    for place, name in enumerate(names):
        own = pc.equal(new.recorder, name)
        before = pc.is_in(new.recorder, pa.array(names[:place], pa.string()))
        others = [_taken(new, before)]
        if there is not None:
            others.append(_taken(there, pc.not_equal(there.recorder, name)))
        dropped = _is_among(_taken(new, own), others)
        if pc.any(dropped).as_py():
            offsets = _taken(new, own).offset.filter(dropped).to_numpy()
            found[name] = np.sort(offsets)
    return found


def _is_among(own: Known, others: Iterable[Known]) -> pa.Array:
    found = pa.array(np.zeros(len(own.recorder), bool))
    for other in others:
        for mine, theirs in ((own.by_stamp, other.by_stamp), (own.by_source, other.by_source)):
            known = pc.drop_null(theirs)
            if len(known):
                found = pc.or_(found, pc.and_(pc.is_valid(mine), pc.is_in(mine, known)))
    return found


def _taken(known: Known, mask: pa.Array) -> Known:
    return Known(*(column.filter(mask) for column in known))


def _joined(parts: Sequence[Known]) -> Known | None:
    if not parts:
        return None
    return Known(*(pa.chunked_array(list(columns)).combine_chunks() for columns in zip(*parts, strict=True)))


def known_of(rows: pa.Table) -> Known:
    """What tells samples apart, as texts; null where nothing does."""
    text = {name: rows[name].cast(pa.string()).combine_chunks() for name in COLUMNS if name not in ("received_at",)}
    by_stamp = pc.binary_join_element_wise(
        text["timestamp_ntp64"], text["timestamp_id"], text["kind"], text["key"], "/"
    )
    by_source = pc.binary_join_element_wise(
        text["source_zid"], text["source_eid"], text["source_sn"], text["kind"], text["key"], "/"
    )
    return Known(text["recorder"], rows["offset"].combine_chunks(), by_stamp, by_source)


# --- what is there ----------------------------------------------------------------------------------------------------


class _Times(NamedTuple):
    """When the new rows were stamped, and received, with what clocks may be apart; None if none was."""

    stamped: tuple[datetime, datetime] | None
    received: tuple[datetime, datetime] | None

    @property
    def first_day(self) -> date:
        """The first day on which the same samples may have been received."""
        return min(times[0] - timedelta(days=1) for times in self if times is not None).date()


def _times_of(rows: pa.Table) -> _Times:
    stamped, received = pc.min_max(rows["timestamp"]).as_py(), pc.min_max(rows["received_at"]).as_py()
    has_source = rows["source_sn"].null_count < rows.num_rows
    return _Times(
        None if stamped["min"] is None else (stamped["min"], stamped["max"]),
        (received["min"] - CLOCK_SKEW, received["max"] + CLOCK_SKEW) if has_source and received["min"] else None,
    )


def _overlapping(samples: Table, rows: pa.Table) -> Iterator[pa.Table]:
    """Rows of the table that may be the same samples, from files whose times allow it."""
    times = _times_of(rows)
    if times.stamped is None and times.received is None:
        return
    recorders = set(pc.unique(rows["recorder"]).to_pylist())
    for file in samples.prune(day_from=times.first_day):
        may_be = _overlaps(file, "timestamp", times.stamped) or _overlaps(file, "received_at", times.received)
        if may_be and not _is_only_of(file, recorders):
            yield from map(
                pa.Table.from_batches, ([batch] for batch in batches_of(samples.folder, file, SAMPLES, COLUMNS))
            )


def _overlaps(file: File, column: str, times: tuple[datetime, datetime] | None) -> bool:
    if times is None:
        return False
    least, greatest = file.least.get(column), file.greatest.get(column)
    if least is None or greatest is None:  # without statistics, or no row has a value
        return not file.least or column == "received_at"
    return bool(least <= times[1] and greatest >= times[0])


def _is_only_of(file: File, recorders: set[str]) -> bool:
    """Whether all rows of a file are of the one recorder that the new rows are of."""
    return len(recorders) == 1 and {file.least.get("recorder"), file.greatest.get("recorder")} == recorders


def without(rows: pa.Table | pa.RecordBatch, dropped: Mapping[str, Offsets]) -> pa.Table | pa.RecordBatch:
    """Rows of one recorder without those that are dropped."""
    if not dropped or not rows.num_rows:
        return rows
    offsets = dropped.get(rows.column("recorder")[0].as_py())
    if offsets is None or not len(offsets):
        return rows
    return rows.filter(pa.array(~np.isin(rows.column("offset").to_numpy(), offsets)))
