"""Partitioning of `samples`: by UTC day of reception and first chunk of the key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MICROSECONDS_PER_DAY = 86_400_000_000
MAX_PREFIX_CHARACTERS = 60
"""Characters of a prefix: it is a directory name, which may have 255 bytes."""
WILDCARD = "*"
HIVE_NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""Hive-aware readers take a directory of this name for null: keys that begin with it are in the partition `*`."""
EPOCH_DAY = date(1970, 1, 1)

PartitionValues = dict[str, str]


def partition_prefix(key: str) -> str:
    """The prefix partition of a key; `*` if its first chunk is too long and has wildcards."""
    chunk = key.split("/", 1)[0]
    return (
        WILDCARD
        if (len(chunk) > MAX_PREFIX_CHARACTERS and WILDCARD in chunk) or chunk == HIVE_NULL_NAME
        else chunk[:MAX_PREFIX_CHARACTERS]
    )


def partition_prefixes(keys: pa.Array) -> pa.Array:
    """The prefix partitions of an array of keys."""
    chunks = pc.list_element(pc.split_pattern(keys, "/", max_splits=1), 0)
    is_long = pc.and_(pc.greater(pc.utf8_length(chunks), MAX_PREFIX_CHARACTERS), pc.match_substring(chunks, WILDCARD))
    is_wild = pc.or_(is_long, pc.equal(chunks, HIVE_NULL_NAME))
    return pc.if_else(is_wild, WILDCARD, pc.utf8_slice_codeunits(chunks, 0, MAX_PREFIX_CHARACTERS))


def split_by_partition(rows: pa.Table) -> Iterator[tuple[PartitionValues, pa.Table]]:
    """Split rows by partition; keeps their order. Texts must be dictionary-encoded, and columns have one chunk."""
    days = rows["received_at"].chunk(0).cast(pa.int64()).to_numpy() // MICROSECONDS_PER_DAY
    keys = rows["key"].chunk(0)
    prefixes = partition_prefixes(keys.dictionary).dictionary_encode()
    codes = prefixes.indices.to_numpy()[keys.indices.to_numpy()]
    groups = (days - days.min()) * len(prefixes.dictionary) + codes
    if groups.min() != groups.max():
        order = np.argsort(groups, kind="stable")
        rows, groups = _reorder_rows(rows, pa.array(order)), groups[order]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(groups)], strict=True):
        day, code = divmod(int(groups[start]), len(prefixes.dictionary))
        received_on = EPOCH_DAY + timedelta(days=int(days.min()) + day)
        yield {"day": received_on.isoformat(), "prefix": prefixes.dictionary[code].as_py()}, rows[start:end]


def _reorder_rows(rows: pa.Table, order: pa.Array) -> pa.Table:
    """Reorder rows; constant columns are not copied."""
    columns = [column if _is_constant(column.chunk(0)) else column.take(order) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _is_constant(column: pa.Array) -> bool:
    if column.null_count:
        return bool(column.null_count == len(column))
    return isinstance(column, pa.DictionaryArray) and len(column.dictionary) == 1
