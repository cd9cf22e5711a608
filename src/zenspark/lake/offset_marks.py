"""How far a table has come in every journal: an `offset:<recorder>` mark for each recorder.

A file may hold rows of several recorders, after another tool has put files together, or rows of none, which another
tool inserted. So the statistics of a file only say whether it *may* have rows behind an offset; which rows those are is
decided row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.lake.delta_table import LakeTable
from zenspark.lake.parquet_files import DataFile

OFFSET_APP_ID_PREFIX = "offset:"


def list_recorders(table: LakeTable) -> list[str]:
    """The recorders whose rows are in this table."""
    return sorted(
        name.removeprefix(OFFSET_APP_ID_PREFIX) for name in table.app_versions if name.startswith(OFFSET_APP_ID_PREFIX)
    )


def read_offsets(table: LakeTable, recorders: Iterable[str]) -> dict[str, int]:
    """Up to before which offset of each recorder a table has taken in the rows."""
    marks = {recorder: table.app_version(offset_app_id(recorder)) for recorder in recorders}
    return {recorder: mark for recorder, mark in marks.items() if mark is not None}


def offset_app_id(recorder: str) -> str:
    return f"{OFFSET_APP_ID_PREFIX}{recorder}"


def offset_app_versions(reached: Mapping[str, int]) -> dict[str, int]:
    """The marks that say so."""
    return {offset_app_id(recorder): offset for recorder, offset in reached.items()}


def may_have_rows_from(file: DataFile, start: Mapping[str, int]) -> bool:
    """Whether a file of samples may have rows at or behind these offsets; of a recorder not named, any row is."""
    last = file.max_values.get("offset")
    first_name, last_name = file.min_values.get("recorder"), file.max_values.get("recorder")
    if last is None or first_name is None or first_name != last_name:
        return True  # no statistics, or rows of several recorders
    return bool(last >= start.get(first_name, 0))


def mask_rows_from(rows: pa.RecordBatch | pa.Table, start: Mapping[str, int]) -> pa.Array | pa.ChunkedArray:
    """Which rows are at or behind these offsets; rows that belong to no journal are not."""
    names, numbers = rows.column("recorder"), rows.column("offset")
    texts = names.cast(pa.string()) if pa.types.is_dictionary(names.type) else names
    found = pc.and_(pc.is_valid(texts), pc.is_valid(numbers))
    for recorder, offset in start.items():
        found = pc.and_(found, pc.or_(pc.not_equal(texts, recorder), pc.greater_equal(numbers, offset)))
    return pc.fill_null(found, False)


def rows_from_expression(start: Mapping[str, int]) -> pc.Expression:
    """The same as an expression for a dataset."""
    found = pc.field("recorder").is_valid() & pc.field("offset").is_valid()
    for recorder, offset in start.items():
        found &= (pc.field("recorder") != recorder) | (pc.field("offset") >= offset)
    return found
