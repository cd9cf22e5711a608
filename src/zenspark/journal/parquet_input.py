"""ParquetInput: samples of Parquet files in order of reception, for tables larger than memory.

Row groups are read in the order of their minimum reception time; rows are buffered until no remaining row group can
have earlier ones. So memory holds overlapping row groups, not the table.
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
"""Minimum number of rows to read before they are sorted."""
PARQUET_BATCH_ROWS = 65_536
REQUIRED_COLUMNS = ("key", "payload", "received_at")
SORT_COLUMNS = ("received_at", "recorder", "offset")


class ParquetRowGroup(msgspec.Struct, frozen=True):
    """A row group of a file."""

    fragment: ds.ParquetFileFragment
    first: pa.Scalar | None
    """Minimum reception time; None without statistics."""
    rows: int

    @property
    def sort_key(self) -> int:
        """Position in the read order: row groups without statistics come first."""
        return -(1 << 63) if self.first is None else self.first.cast(pa.int64()).as_py()


class ParquetInput:
    """The files of one table: a file, those of a directory, or those in the log of a Delta table."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if (path / "samples" / "_delta_log").is_dir():
            raise NoJournal(str(path), "this is a lake; name its table samples/, or its journal _journal/")
        try:
            self._dataset = ds.dataset(_list_files(path), format="parquet")
        except (pa.ArrowException, OSError) as error:
            raise NoJournal(str(path), f"neither a journal nor Parquet: {error}") from error
        for name in REQUIRED_COLUMNS:
            if name not in self.names:
                raise NoJournal(str(path), f"expected rows of samples, found no column {name!r}")

    @property
    def names(self) -> list[str]:
        names: list[str] = self._dataset.schema.names
        return names

    def count(self, condition: ds.Expression | None) -> int:
        """Count the rows that fulfil a condition."""
        try:
            return int(self._dataset.count_rows(filter=condition))
        except (pa.ArrowException, OSError) as error:
            raise JournalError(str(self._path), f"cannot be read: {error}") from error

    def read(self, condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        """Read the rows that fulfil a condition, in order. A damaged footer raises before the first row."""
        try:
            groups = sorted(self._groups(condition), key=lambda group: group.sort_key)
        except (pa.ArrowException, OSError) as error:
            raise JournalError(str(self._path), f"cannot be read: {error}") from error
        return self._merge_sorted(groups, condition)

    def _groups(self, condition: ds.Expression | None) -> Iterator[ParquetRowGroup]:
        for fragment in self._dataset.get_fragments(condition):
            for part in fragment.split_by_row_group(condition, self._dataset.schema):
                (group,) = part.row_groups
                statistics = (group.statistics or {}).get("received_at")
                kind = SCHEMA.field("received_at").type
                yield ParquetRowGroup(
                    part, None if statistics is None else pa.scalar(statistics["min"], kind), group.num_rows
                )

    def _merge_sorted(self, groups: list[ParquetRowGroup], condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        buffered = self._dataset.schema.empty_table().select(self._columns)
        position = 0
        while position < len(groups):
            begin, fresh = position, 0
            while position < len(groups) and fresh < max(MIN_SORT_ROWS, buffered.num_rows):
                fresh += groups[position].rows
                position += 1
            read = [self._rows(group, condition) for group in groups[begin:position]]
            buffered = pa.concat_tables([buffered, *read]).sort_by([(name, "ascending") for name in self._order])
            done = _count_before(buffered, groups[position].first) if position < len(groups) else buffered.num_rows
            yield from buffered[:done].to_batches(max_chunksize=PARQUET_BATCH_ROWS)
            buffered = buffered[done:]

    def _rows(self, group: ParquetRowGroup, condition: ds.Expression | None) -> pa.Table:
        try:
            return group.fragment.to_table(self._dataset.schema, columns=self._columns, filter=condition)
        except (pa.ArrowException, OSError) as error:
            raise JournalError(str(self._path), f"cannot be read: {error}") from error

    @property
    def _columns(self) -> list[str]:
        return [name for name in (*SCHEMA.names, "recorder", "offset") if name in self.names]

    @property
    def _order(self) -> list[str]:
        return [name for name in SORT_COLUMNS if name in self.names]


def _count_before(rows: pa.Table, time: pa.Scalar | None) -> int:
    """Count the sorted rows that were received before a time."""
    if time is None:
        return 0
    return pc.sum(pc.less(rows.column("received_at"), time)).as_py() or 0


def _list_files(path: Path) -> str | list[str]:
    """List the live files of a Delta table, or those of a directory whose name ends in .parquet."""
    if not path.is_dir():
        return str(path)
    if not (path / "_delta_log").is_dir():
        files = [str(file) for file in sorted(path.rglob("*.parquet")) if not file.name.startswith(("_", "."))]
        if not files:
            raise NoJournal(str(path), "neither a journal, nor a directory with .parquet files")
        return files
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise NoJournal(str(path), "to read a Delta table, install zenspark[sql]") from None
    return list(DeltaTable(str(path)).file_uris())
