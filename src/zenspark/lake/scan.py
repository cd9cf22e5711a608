"""Selective scan of Parquet files without Spark: cost depends on the rows that match, not on all rows.

Pruning, from the outside in: files are skipped by their statistics in the log; the footer of a file is read once and
cached, as files are immutable; row groups and pages are skipped by their statistics; a row group whose key dictionary
has no match costs only that dictionary. Then the predicate columns, key and times, are read; the other columns only for
matching rows, page by page (late materialization).

Files of other tools may lack statistics, page indexes and dictionaries: then more is read, with the same result.
"""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow import UTC
from zenspark.errors import LakeError
from zenspark.lake.column_chunks import LOCAL_IO, REMOTE_IO, ParquetFileReader, RandomAccessFile, RowSelection
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.parquet_footer import ColumnChunk, ColumnStats, Footer, Numbers, PageIndex, RowGroup
from zenspark.lake.predicates import (
    MIN_TIME_US,
    BoolMask,
    KeyPredicate,
    TimePredicate,
    key_stats,
    max_row_time,
    time_stats,
)
from zenspark.lake.specs import JOURNAL_SCHEMA

METADATA_CACHE_BYTES = 64 << 20
"""Memory for cached footers, page indexes and dictionaries: those of some hundred large files."""
FOOTER_MEMORY_FACTOR = 8
"""Approximate bytes in memory per byte of an encoded footer."""
INDEXED_PAGE_MEMORY_BYTES, CACHE_ENTRY_MEMORY_BYTES = 500, 200
"""Approximate bytes in memory of an indexed page, and of a cache entry."""
MAX_PAYLOAD_READ_BYTES = 32 << 20
"""Bytes of payloads that are read at once: they are in memory three times while they are decoded."""
MAX_PREFETCH_BYTES = 64 << 20
"""Maximum bytes of remote files that are prefetched: their rows are in memory."""
MISSING_COLUMN_STATS = ColumnStats(is_all_null=True)
"""Statistics of a column that a file does not have."""
TIMESTAMP, RECEIVED_AT = "timestamp", "received_at"

T = TypeVar("T")


class ReadableLocation(Protocol):
    """The part of `StoragePath` that a scan needs."""

    @property
    def address(self) -> str:
        """Path or URI, for error messages."""

    @property
    def is_local(self) -> bool:
        """Whether files are on a local disk, where a read costs little."""

    def open(self, path: str) -> RandomAccessFile:
        """Open a file for random access."""


class ScanRequest(msgspec.Struct, frozen=True):
    """Predicates and columns of a scan."""

    keys: KeyPredicate
    times: TimePredicate
    columns: tuple[str, ...] = tuple(JOURNAL_SCHEMA.names)


class NewestTimes:
    """Times of the newest rows found so far, `limit` per key: older rows need not be read (top-N pruning)."""

    def __init__(self, limit: int, *, is_single_key: bool = False) -> None:
        """Take the number of rows to find per key; with `is_single_key` it applies to all keys together."""
        self.limit = limit
        self._is_single_key = is_single_key
        self._times: dict[str, list[int]] = {}

    def add(self, names: Iterable[str], times: Iterable[int]) -> None:
        """Add rows by key and time in microseconds."""
        for name, time in zip(names, times, strict=True):
            newest_times = self._times.setdefault("" if self._is_single_key else name, [])
            if len(newest_times) < self.limit:
                heapq.heappush(newest_times, time)
            else:
                heapq.heappushpop(newest_times, time)

    def excludes(self, newest: int, names: Iterable[str] | None = None) -> bool:
        """Whether rows of these keys, or of any key if None, can be skipped if none is newer than `newest`."""
        if self._is_single_key:
            names = ("",)
        return names is not None and all(self._oldest(name) > newest for name in names)

    def _oldest(self, name: str) -> int:
        """The time that rows of a key must have at least to be among the newest."""
        newest_times = self._times.get("" if self._is_single_key else name, [])
        return newest_times[0] if len(newest_times) == self.limit else MIN_TIME_US

    def select(self, names: pa.Array, codes: Numbers, times: Numbers) -> BoolMask:
        """Mask of rows, given by key code and time, that may be among the newest; includes all ties."""
        if self._is_single_key:
            codes = np.zeros_like(codes)
        order = np.lexsort((times, codes))
        ends = np.append(np.flatnonzero(np.diff(codes[order])) + 1, len(order))
        counts = np.diff(ends, prepend=0)
        oldest = times[order][ends - np.minimum(counts, self.limit)]
        limits = [self._oldest(names[code].as_py()) for code in codes[order][ends - 1].tolist()]
        mask = np.empty(len(order), bool)
        mask[order] = times[order] >= np.repeat(np.maximum(oldest, limits), counts)
        return mask


class Scanner:
    """Scans files of one table; thread-safe."""

    def __init__(self, location: ReadableLocation, cache_bytes: int = METADATA_CACHE_BYTES) -> None:
        self._location = location
        self._io = LOCAL_IO if location.is_local else REMOTE_IO
        self._cache = _MetadataCache(cache_bytes)

    def rows(self, files: Iterable[DataFile], request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Read all matching rows, file by file in the order given."""
        chosen = [file for file in files if _may_match(file, request)]
        if self._io.parallel_requests == 1:
            for file in chosen:
                yield from self._read_file(file, request)
            return
        with ThreadPoolExecutor(self._io.parallel_requests, thread_name_prefix="zenspark-scan") as pool:
            for batches in _map_in_order(pool, lambda file: list(self._read_file(file, request)), chosen):
                yield from batches

    def newest(self, files: Iterable[DataFile], request: ScanRequest, newest: NewestTimes) -> Iterator[pa.RecordBatch]:
        """Read matching rows that may be among the newest of their key, newest files first.

        `newest` has the times of rows found elsewhere, and is updated with those found here. More rows than the limit
        may be returned: the caller selects among them.
        """
        chosen = [(_max_file_time(file), file) for file in files if _may_match(file, request)]
        for bound, file in sorted(chosen, key=lambda item: item[0], reverse=True):
            if not newest.excludes(bound):
                yield from self._read_file(file, request, newest)

    def _read_file(
        self, file: DataFile, request: ScanRequest, newest: NewestTimes | None = None
    ) -> Iterator[pa.RecordBatch]:
        address = f"{self._location.address}/{file.path}"
        with _name_file_in_errors(address), closing(self._location.open(file.path)) as opened:
            source = ParquetFileReader(opened, file.size, self._io)
            footer = self._cache.get((file.path,), source.footer, lambda footer: footer.size * FOOTER_MEMORY_FACTOR)
            for group in _select_row_groups(footer, request, newest):
                yield from _RowGroupReader(file.path, source, group, self._cache).rows(request, newest)


def _may_match(file: DataFile, request: ScanRequest) -> bool:
    if not request.times.may_match_row(time_stats(file, TIMESTAMP), time_stats(file, RECEIVED_AT)):
        return False
    return request.keys.may_match(key_stats(file))


def _max_file_time(file: DataFile) -> int:
    return max_row_time(time_stats(file, TIMESTAMP), time_stats(file, RECEIVED_AT))


def _group_stats(group: RowGroup, column: str) -> ColumnStats:
    chunk = group.chunks.get(column)
    return MISSING_COLUMN_STATS if chunk is None else chunk.stats


def _select_row_groups(footer: Footer, request: ScanRequest, newest: NewestTimes | None) -> Iterator[RowGroup]:
    """Row groups that may have matching rows; newest first for a top-N scan."""
    selected = [
        group
        for group in footer.groups
        if request.keys.may_match(_group_stats(group, "key"))
        and request.times.may_match_row(_group_stats(group, TIMESTAMP), _group_stats(group, RECEIVED_AT))
    ]
    if newest is None:
        yield from selected
        return
    bounds = {
        group.number: max_row_time(_group_stats(group, TIMESTAMP), _group_stats(group, RECEIVED_AT))
        for group in selected
    }
    for group in sorted(selected, key=lambda group: bounds[group.number], reverse=True):
        if not newest.excludes(bounds[group.number]):
            yield group


def _map_in_order(pool: ThreadPoolExecutor, work: Callable[[DataFile], T], files: Iterable[DataFile]) -> Iterator[T]:
    """Yield the results of work on each file, in order; prefetches up to the limits of requests and bytes."""
    waiting: deque[tuple[Future[T], int]] = deque()
    size = 0
    try:
        for file in files:
            while waiting and (len(waiting) == REMOTE_IO.parallel_requests or size + file.size > MAX_PREFETCH_BYTES):
                future, file_size = waiting.popleft()
                size -= file_size
                yield future.result()
            waiting.append((pool.submit(work, file), file.size))
            size += file.size
        while waiting:
            yield waiting.popleft()[0].result()
    finally:
        for future, _ in waiting:
            future.cancel()


@contextmanager
def _name_file_in_errors(address: str) -> Iterator[None]:
    """Raise LakeError with the file for read errors; FileNotFoundError is passed on."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError, LookupError, OverflowError, pa.ArrowException) as error:  # raised for damaged bytes
        raise LakeError(address, f"cannot be read: {error}") from error


class _MetadataCache:
    """LRU cache of file metadata, limited by memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[tuple[object, ...], tuple[object, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[object, ...], make: Callable[[], T], size_of: Callable[[T], int]) -> T:
        """Return the cached value of a key, or create it."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return entry[0]  # type: ignore[return-value] # each key has values of one type
        value = make()
        size = size_of(value) + CACHE_ENTRY_MEMORY_BYTES
        with self._lock:
            if key not in self._entries and size <= self._max_bytes:
                self._entries[key] = value, size
                self._size += size
            while self._size > self._max_bytes:
                self._size -= self._entries.popitem(last=False)[1][1]
        return value


class _RowGroupReader:
    """Reads the matching rows of one row group."""

    def __init__(self, path: str, source: ParquetFileReader, group: RowGroup, cache: _MetadataCache) -> None:
        self._path = path
        self._source = source
        self._group = group
        self._cache = cache
        self._pages: dict[str, PageIndex | None] = {}

    def rows(self, request: ScanRequest, newest: NewestTimes | None) -> Iterator[pa.RecordBatch]:
        """Read the predicate columns first, and the others if any row matches."""
        key = self._group.chunks.get("key")
        if key is None:
            return
        self._load_page_indexes(request.columns)
        candidates = self._candidates(request)
        if not len(candidates) or not self._is_in_dictionary(key, request.keys, newest):
            return
        columns = self._columns(("key", TIMESTAMP, RECEIVED_AT), candidates)
        times = pc.coalesce(columns[TIMESTAMP], columns[RECEIVED_AT])
        keep = _match_keys(columns["key"], request.keys) & request.times.mask(times)
        if newest is not None and keep.any():
            keep = _select_newest(columns["key"], times, keep, newest)
        if not keep.any():
            return
        read_columns = {name: array.filter(pa.array(keep)) for name, array in columns.items()}
        yield from self._read_other_columns(candidates[keep], read_columns, request.columns)

    # -- selection

    def _load_page_indexes(self, columns: Iterable[str]) -> None:
        names = [
            name for name in dict.fromkeys(("key", TIMESTAMP, RECEIVED_AT, *columns)) if name in self._group.chunks
        ]
        chunks = [self._group.chunks[name] for name in names]
        key = (self._path, self._group.number, *names)
        indexes = self._cache.get(key, lambda: self._source.page_indexes(chunks), _page_index_memory)
        self._pages = dict(zip(names, indexes, strict=True))

    def _candidates(self, request: ScanRequest) -> Numbers:
        """Row numbers that page statistics do not exclude."""
        is_key = self._rows_where("key", request.keys.may_match)
        is_time = self._rows_where(TIMESTAMP, request.times.may_overlap)
        has_no_time = self._rows_where(TIMESTAMP, lambda stats: stats.null_count != 0)
        is_received = self._rows_where(RECEIVED_AT, request.times.may_overlap)
        return np.flatnonzero(is_key & (is_time | (has_no_time & is_received)))

    def _rows_where(self, column: str, may_match: Callable[[ColumnStats], bool]) -> BoolMask:
        """Mask of rows whose page may match, by its statistics, or those of the row group without a page index."""
        chunk = self._group.chunks.get(column)
        pages = self._pages.get(column)
        if pages is None or pages.stats is None:
            return np.full(self._group.rows, may_match(MISSING_COLUMN_STATS if chunk is None else chunk.stats))
        lengths = np.diff(pages.starts, append=self._group.rows)
        return np.repeat(np.array([may_match(stats) for stats in pages.stats], bool), lengths)

    def _is_in_dictionary(self, chunk: ColumnChunk, keys: KeyPredicate, newest: NewestTimes | None) -> bool:
        """Whether the key dictionary of the row group has a match; True if not all pages use it."""
        if not chunk.is_dictionary_encoded:
            return True
        names = self._cache.get(
            (self._path, self._group.number),
            lambda: self._source.dictionary(chunk, self._pages["key"]).cast(pa.string()),
            lambda value: int(value.nbytes),
        )
        matching = keys.matching(names)
        if newest is None or not matching.any():
            return bool(matching.any())
        bound = max_row_time(_group_stats(self._group, TIMESTAMP), _group_stats(self._group, RECEIVED_AT))
        return not newest.excludes(bound, names.filter(pa.array(matching)).to_pylist())

    # -- columns

    def _columns(self, names: Iterable[str], rows: Numbers) -> dict[str, pa.Array]:
        """Read columns of selected rows; columns that the file does not have are null."""
        chunks = {name: self._group.chunks[name] for name in names if name in self._group.chunks}
        selections = [RowSelection(chunk, self._pages[name], rows) for name, chunk in chunks.items()]
        columns = dict(zip(chunks, self._source.columns(selections), strict=True))
        return {name: _to_table_type(name, columns.get(name), chunks.get(name), len(rows)) for name in names}

    def _read_other_columns(
        self, rows: Numbers, read_columns: Mapping[str, pa.Array], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows with all columns, in batches that fit in memory."""
        rest = [name for name in columns if name not in read_columns]
        start = 0
        for part in self._parts(rows):
            others = self._columns(rest, part)
            read = {name: array[start : start + len(part)] for name, array in read_columns.items()}
            start += len(part)
            arrays = [(read if name in read else others)[name] for name in columns]
            fields = [JOURNAL_SCHEMA.field(name) for name in columns]
            plain = [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
            yield pa.RecordBatch.from_arrays(plain, names=list(columns))

    def _parts(self, rows: Numbers) -> list[Numbers]:
        chunk, pages = self._group.chunks.get("payload"), self._pages.get("payload")
        if chunk is None or pages is None or chunk.size < MAX_PAYLOAD_READ_BYTES:
            return [rows]  # without a page index every batch would read the whole chunk
        count = -(-RowSelection(chunk, pages, rows).size // MAX_PAYLOAD_READ_BYTES)
        return np.array_split(rows, min(count, len(rows)))


def _page_index_memory(pages: Sequence[PageIndex | None]) -> int:
    return sum(INDEXED_PAGE_MEMORY_BYTES * len(index.ranges) for index in pages if index is not None)


def _match_keys(keys: pa.DictionaryArray, predicate: KeyPredicate) -> BoolMask:
    """Mask of rows with a matching key; nulls do not match."""
    matches = np.append(predicate.matching(keys.dictionary), False)
    mask: BoolMask = matches[_dictionary_codes(keys)]
    return mask


def _dictionary_codes(keys: pa.DictionaryArray) -> Numbers:
    indices = pc.fill_null(keys.indices, len(keys.dictionary)) if keys.null_count else keys.indices
    codes: Numbers = indices.to_numpy(zero_copy_only=False)
    return codes


def _select_newest(keys: pa.DictionaryArray, times: pa.Array, keep: BoolMask, newest: NewestTimes) -> BoolMask:
    """Mask of the rows to keep that may be among the newest of their key."""
    rows = np.flatnonzero(keep)
    codes = _dictionary_codes(keys)[rows]
    numbers = times.cast(pa.int64()).to_numpy(zero_copy_only=False)[rows].astype(np.int64)
    chosen = newest.select(keys.dictionary, codes, numbers)
    names = keys.dictionary.take(pa.array(codes[chosen])).to_pylist()
    newest.add(names, numbers[chosen].tolist())
    mask = np.zeros(len(keep), bool)
    mask[rows[chosen]] = True
    return mask


def _to_table_type(name: str, array: pa.Array | None, chunk: ColumnChunk | None, rows: int) -> pa.Array:
    """Cast a column to its type in the table; texts stay dictionary-encoded."""
    data_type = JOURNAL_SCHEMA.field(name).type
    if array is None or chunk is None:
        array = pa.nulls(rows, data_type)
    elif data_type == UTC and chunk.leaf.unit is not None and pa.types.is_int64(array.type):
        array = array.cast(pa.timestamp(chunk.leaf.unit, "UTC")).cast(UTC, safe=False)
    elif pa.types.is_timestamp(array.type):
        array = array.cast(UTC, safe=False)
    if name == "key" and not pa.types.is_dictionary(array.type):
        array = array.cast(data_type).dictionary_encode()
    return array
