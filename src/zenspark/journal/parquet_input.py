"""Rows of samples in Parquet files, in the order they were received, of tables larger than memory.

Every row group says when its first row was received. Groups are read in that order; rows wait until no group that is
still to be read can have earlier ones. So memory is what overlaps, and not the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from zenspark.arrow import SCHEMA
from zenspark.errors import JournalError, NoJournal

MIN_SORT_ROWS = 500_000
"""Rows that are read before they are sorted, at least."""
BATCH_ROWS = 65_536
REQUIRED_COLUMNS = ("key", "payload", "received_at")
SORT_COLUMNS = ("received_at", "recorder", "offset")


class ParquetRowGroup(msgspec.Struct, frozen=True):
    """A row group of a file."""

    fragment: ds.ParquetFileFragment
    first: pa.Scalar | None
    """When its earliest row was received; None if it does not say."""
    rows: int

    @property
    def place(self) -> int:
        """Where it stands among others: what does not say comes first."""
        return -(1 << 63) if self.first is None else self.first.cast(pa.int64()).as_py()


class ParquetInput:
    """The files of one table: a file, those of a directory, or those that the log of a Delta table names."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._dataset = ds.dataset(_list_files(path), format="parquet")
        except (pa.ArrowException, OSError) as error:
            raise NoJournal(str(path), f"neither a journal nor Parquet: {error}") from error
        for name in REQUIRED_COLUMNS:
            if name not in self.names:
                raise NoJournal(str(path), f"expected rows of samples, found no column {name!r}")

    @property
    def names(self) -> list[str]:
        found: list[str] = self._dataset.schema.names
        return found

    def read(self, condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        """The rows for which something is true, in order. What is wrong with a file's end is said at once."""
        try:
            groups = sorted(self._groups(condition), key=lambda group: group.place)
        except (pa.ArrowException, OSError) as error:
            raise JournalError(str(self._path), f"cannot be read: {error}") from error
        return self._sweep(groups, condition)

    def _groups(self, condition: ds.Expression | None) -> Iterator[ParquetRowGroup]:
        for fragment in self._dataset.get_fragments(condition):
            for part in fragment.split_by_row_group(condition, self._dataset.schema):
                (found,) = part.row_groups
                said = (found.statistics or {}).get("received_at")
                kind = SCHEMA.field("received_at").type
                yield ParquetRowGroup(part, None if said is None else pa.scalar(said["min"], kind), found.num_rows)

    def _sweep(self, groups: list[ParquetRowGroup], condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        held = self._dataset.schema.empty_table().select(self._wanted)
        position = 0
        while position < len(groups):
            begin, fresh = position, 0
            while position < len(groups) and fresh < max(MIN_SORT_ROWS, held.num_rows):
                fresh += groups[position].rows
                position += 1
            read = [self._rows(group, condition) for group in groups[begin:position]]
            held = pa.concat_tables([held, *read]).sort_by([(name, "ascending") for name in self._order])
            done = _count_before(held, groups[position].first) if position < len(groups) else held.num_rows
            yield from held[:done].to_batches(max_chunksize=BATCH_ROWS)
            held = held[done:]

    def _rows(self, group: ParquetRowGroup, condition: ds.Expression | None) -> pa.Table:
        try:
            return group.fragment.to_table(self._dataset.schema, columns=self._wanted, filter=condition)
        except (pa.ArrowException, OSError) as error:
            raise JournalError(str(self._path), f"cannot be read: {error}") from error

    @property
    def _wanted(self) -> list[str]:
        return [name for name in (*SCHEMA.names, "recorder", "offset") if name in self.names]

    @property
    def _order(self) -> list[str]:
        return [name for name in SORT_COLUMNS if name in self.names]


def _count_before(rows: pa.Table, time: pa.Scalar | None) -> int:
    """How many of some rows in order were received before a time."""
    if time is None:
        return 0
    return pc.sum(pc.less(rows.column("received_at"), time)).as_py() or 0


def _list_files(path: Path) -> str | list[str]:
    """Of a Delta table only those that its log names; everything else as it is."""
    if not (path / "_delta_log").is_dir():
        return str(path)
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise NoJournal(str(path), "to read a Delta table, install zenspark[spark]") from None
    return list(DeltaTable(str(path)).file_uris())
