"""Ingested offsets of a table: the version of the application id `offset:<recorder>` is the end of the ingested rows.

A file may have rows of several recorders, after a compaction by another tool, or rows without a recorder, which another
tool inserted. So the statistics of a file only show whether it *may* have rows from an offset on; the rows themselves
are filtered one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.lake.delta_table import LakeTable
from zenspark.lake.parquet_files import DataFile

OFFSET_APP_ID_PREFIX = "offset:"
"""Application id of a recorder's end offset, without the name of the recorder."""


def list_recorders(table: LakeTable) -> list[str]:
    """Names of the recorders whose rows are in a table."""
    return sorted(
        name.removeprefix(OFFSET_APP_ID_PREFIX) for name in table.app_versions if name.startswith(OFFSET_APP_ID_PREFIX)
    )


def read_offsets(table: LakeTable, recorders: Iterable[str]) -> dict[str, int]:
    """End offset (exclusive) by recorder of the rows that a table has processed."""
    ends = {recorder: table.app_version(offset_app_id(recorder)) for recorder in recorders}
    return {recorder: end for recorder, end in ends.items() if end is not None}


def offset_app_id(recorder: str) -> str:
    return f"{OFFSET_APP_ID_PREFIX}{recorder}"


def offset_app_versions(offsets: Mapping[str, int]) -> dict[str, int]:
    """The application versions that store the offsets of recorders."""
    return {offset_app_id(recorder): offset for recorder, offset in offsets.items()}


def may_have_rows_from(file: DataFile, start: Mapping[str, int]) -> bool:
    """Whether a file of samples may have rows from these offsets on; all rows of other recorders are included."""
    last = file.max_values.get("offset")
    first_name, last_name = file.min_values.get("recorder"), file.max_values.get("recorder")
    if last is None or first_name is None or first_name != last_name:
        return True  # no statistics, or rows of several recorders
    return bool(last >= start.get(first_name, 0))


def mask_rows_from(rows: pa.RecordBatch | pa.Table, start: Mapping[str, int]) -> pa.Array | pa.ChunkedArray:
    """Mask of rows from these offsets on; rows without a recorder are excluded."""
    names, numbers = rows.column("recorder"), rows.column("offset")
    texts = names.cast(pa.string()) if pa.types.is_dictionary(names.type) else names
    mask = pc.and_(pc.is_valid(texts), pc.is_valid(numbers))
    for recorder, offset in start.items():
        mask = pc.and_(mask, pc.or_(pc.not_equal(texts, recorder), pc.greater_equal(numbers, offset)))
    return pc.fill_null(mask, False)
