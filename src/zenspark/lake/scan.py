"""Reads samples out of Parquet files, without Spark: few rows of many, at a cost that follows the few.

From the outside in, each step looks at less: files whose statistics in the log rule them out are not opened; of a file
the footer is read, once, as files never change; of its row groups and their pages only those are read whose statistics
allow a hit; where the dictionary of a row group has no key that matches, nothing but that dictionary is read. Then
come the columns that decide, key and times; all others only for the rows that are wanted, page by page.

Files that other tools wrote may lack statistics, page indexes and dictionaries: then more is read, and the rows are the
same.
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
"""Memory for footers, page indexes and dictionaries that are kept: those of some hundred large files."""
FOOTER_MEMORY_FACTOR = 8
"""What a footer takes in memory for each byte in its file, about."""
INDEXED_PAGE_MEMORY_BYTES, CACHE_ENTRY_MEMORY_BYTES = 500, 200
"""What a page in an index takes, and an entry of the cache."""
MAX_PAYLOAD_READ_BYTES = 32 << 20
"""Bytes of payloads that are read at once: they are in memory three times meanwhile."""
MAX_PREFETCH_BYTES = 64 << 20
"""Bytes of files on another machine that are read before their turn, at most: their rows are in memory."""
MISSING_COLUMN_STATS = ColumnStats(is_all_null=True)
"""The limits of a column that a file does not have."""
TIMESTAMP, RECEIVED_AT = "timestamp", "received_at"

T = TypeVar("T")


class ReadableLocation(Protocol):
    """What is needed of a `Folder`."""

    @property
    def address(self) -> str:
        """What to call it."""

    @property
    def is_local(self) -> bool:
        """Whether a request costs next to nothing."""

    def open(self, path: str) -> RandomAccessFile:
        """Open a file to read anywhere in it."""


class ScanRequest(msgspec.Struct, frozen=True):
    """Which rows are wanted, and which columns of them."""

    keys: KeyPredicate
    times: TimePredicate
    columns: tuple[str, ...] = tuple(JOURNAL_SCHEMA.names)


class NewestTimes:
    """The times of the newest rows found so far, `limit` of each key: what is older than these is not wanted."""

    def __init__(self, limit: int, *, is_single_key: bool = False) -> None:
        """With `is_single_key` there are `limit` rows of all keys together."""
        self.limit = limit
        self._is_single_key = is_single_key
        self._times: dict[str, list[int]] = {}

    def add(self, names: Iterable[str], times: Iterable[int]) -> None:
        """Take in rows: the key of each, and its time in microseconds."""
        for name, time in zip(names, times, strict=True):
            known = self._times.setdefault("" if self._is_single_key else name, [])
            if len(known) < self.limit:
                heapq.heappush(known, time)
            else:
                heapq.heappushpop(known, time)

    def has_all(self, newest: int, names: Iterable[str] | None = None) -> bool:
        """Whether rows of these keys, or of any, are not wanted if they are not newer than a time."""
        if self._is_single_key:
            names = ("",)
        return names is not None and all(self._oldest(name) > newest for name in names)

    def _oldest(self, name: str) -> int:
        """The time that rows of a key must reach to be wanted."""
        known = self._times.get("" if self._is_single_key else name, [])
        return known[0] if len(known) == self.limit else MIN_TIME_US

    def select(self, names: pa.Array, codes: Numbers, times: Numbers) -> BoolMask:
        """Of rows, each with the code of its key, those that may be among the newest; where times are equal, all."""
        if self._is_single_key:
            codes = np.zeros_like(codes)
        order = np.lexsort((times, codes))
        ends = np.append(np.flatnonzero(np.diff(codes[order])) + 1, len(order))
        counts = np.diff(ends, prepend=0)
        oldest = times[order][ends - np.minimum(counts, self.limit)]
        known = [self._oldest(names[code].as_py()) for code in codes[order][ends - 1].tolist()]
        found = np.empty(len(order), bool)
        found[order] = times[order] >= np.repeat(np.maximum(oldest, known), counts)
        return found


class Scanner:
    """Reads files of one table; any number of threads may do so at once."""

    def __init__(self, location: ReadableLocation, cache_bytes: int = METADATA_CACHE_BYTES) -> None:
        self._location = location
        self._io = LOCAL_IO if location.is_local else REMOTE_IO
        self._cache = _MetadataCache(cache_bytes)

    def rows(self, files: Iterable[DataFile], wanted: ScanRequest) -> Iterator[pa.RecordBatch]:
        """All rows that are wanted, file by file in the order given."""
        chosen = [file for file in files if _may_match(file, wanted)]
        if self._io.parallel_requests == 1:
            for file in chosen:
                yield from self._rows_of(file, wanted)
            return
        with ThreadPoolExecutor(self._io.parallel_requests, thread_name_prefix="zenspark-scan") as pool:
            for batches in _map_in_order(pool, lambda file: list(self._rows_of(file, wanted)), chosen):
                yield from batches

    def newest(self, files: Iterable[DataFile], wanted: ScanRequest, newest: NewestTimes) -> Iterator[pa.RecordBatch]:
        """Rows that are wanted, newest files first, without those that are older than enough others of their key.

        `newest` knows the rows that were found elsewhere, and gets to know those found here. More rows than the limit
        may come: the caller chooses among them.
        """
        chosen = [(_max_file_time(file), file) for file in files if _may_match(file, wanted)]
        for bound, file in sorted(chosen, key=lambda each: each[0], reverse=True):
            if not newest.has_all(bound):
                yield from self._rows_of(file, wanted, newest)

    def _rows_of(
        self, file: DataFile, wanted: ScanRequest, newest: NewestTimes | None = None
    ) -> Iterator[pa.RecordBatch]:
        address = f"{self._location.address}/{file.path}"
        with _name_file_in_errors(address), closing(self._location.open(file.path)) as opened:
            source = ParquetFileReader(opened, file.size, self._io)
            footer = self._cache.get((file.path,), source.footer, lambda made: made.size * FOOTER_MEMORY_FACTOR)
            for group in _select_row_groups(footer, wanted, newest):
                yield from _RowGroupReader(file.path, source, group, self._cache).rows(wanted, newest)


def _may_match(file: DataFile, wanted: ScanRequest) -> bool:
    if not wanted.times.may_match_row(time_stats(file, TIMESTAMP), time_stats(file, RECEIVED_AT)):
        return False
    return wanted.keys.may_match(key_stats(file))


def _max_file_time(file: DataFile) -> int:
    return max_row_time(time_stats(file, TIMESTAMP), time_stats(file, RECEIVED_AT))


def _group_stats(group: RowGroup, column: str) -> ColumnStats:
    chunk = group.chunks.get(column)
    return MISSING_COLUMN_STATS if chunk is None else chunk.stats


def _select_row_groups(footer: Footer, wanted: ScanRequest, newest: NewestTimes | None) -> Iterator[RowGroup]:
    """The row groups that may hold rows that are wanted; the newest first, if the newest are."""
    found = [
        group
        for group in footer.groups
        if wanted.keys.may_match(_group_stats(group, "key"))
        and wanted.times.may_match_row(_group_stats(group, TIMESTAMP), _group_stats(group, RECEIVED_AT))
    ]
    if newest is None:
        yield from found
        return
    bounds = {
        group.number: max_row_time(_group_stats(group, TIMESTAMP), _group_stats(group, RECEIVED_AT)) for group in found
    }
    for group in sorted(found, key=lambda group: bounds[group.number], reverse=True):
        if not newest.has_all(bounds[group.number]):
            yield group


def _map_in_order(pool: ThreadPoolExecutor, work: Callable[[DataFile], T], files: Iterable[DataFile]) -> Iterator[T]:
    """The results of work on each file, in order; as many are under way as may be in memory together."""
    waiting: deque[tuple[Future[T], int]] = deque()
    size = 0
    try:
        for file in files:
            while waiting and (len(waiting) == REMOTE_IO.parallel_requests or size + file.size > MAX_PREFETCH_BYTES):
                future, own = waiting.popleft()
                size -= own
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
    """Says of which file something is wrong; that it is not there any more stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError, LookupError, OverflowError, pa.ArrowException) as error:  # as damaged bytes may do
        raise LakeError(address, f"cannot be read: {error}") from error


class _MetadataCache:
    """What is known of files, as much as there is memory for; what was not used for longest goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[tuple[object, ...], tuple[object, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[object, ...], make: Callable[[], T], size_of: Callable[[T], int]) -> T:
        """What is kept under a key, made if it is not there."""
        with self._lock:
            known = self._entries.get(key)
            if known is not None:
                self._entries.move_to_end(key)
                return known[0]  # type: ignore[return-value] # under a key there is always the same type
        made = make()
        size = size_of(made) + CACHE_ENTRY_MEMORY_BYTES
        with self._lock:
            if key not in self._entries and size <= self._most:
                self._entries[key] = made, size
                self._size += size
            while self._size > self._most:
                self._size -= self._entries.popitem(last=False)[1][1]
        return made


class _RowGroupReader:
    """The rows of one row group that are wanted."""

    def __init__(self, path: str, source: ParquetFileReader, group: RowGroup, cache: _MetadataCache) -> None:
        self._path = path
        self._source = source
        self._group = group
        self._cache = cache
        self._pages: dict[str, PageIndex | None] = {}

    def rows(self, wanted: ScanRequest, newest: NewestTimes | None) -> Iterator[pa.RecordBatch]:
        """Read what decides first, and the rest if there is anything."""
        key = self._group.chunks.get("key")
        if key is None:
            return
        self._load_pages(wanted.columns)
        candidates = self._candidates(wanted)
        if not len(candidates) or not self._is_in_dictionary(key, wanted.keys, newest):
            return
        found = self._columns(("key", TIMESTAMP, RECEIVED_AT), candidates)
        times = pc.coalesce(found[TIMESTAMP], found[RECEIVED_AT])
        keep = _match_keys(found["key"], wanted.keys) & wanted.times.mask(times)
        if newest is not None and keep.any():
            keep = _select_newest(found["key"], times, keep, newest)
        if not keep.any():
            return
        decided = {name: array.filter(pa.array(keep)) for name, array in found.items()}
        yield from self._completed(candidates[keep], decided, wanted.columns)

    # -- what to read

    def _load_pages(self, columns: Iterable[str]) -> None:
        names = [
            name for name in dict.fromkeys(("key", TIMESTAMP, RECEIVED_AT, *columns)) if name in self._group.chunks
        ]
        chunks = [self._group.chunks[name] for name in names]
        key = (self._path, self._group.number, *names)
        found = self._cache.get(key, lambda: self._source.pages(chunks), _page_index_memory)
        self._pages = dict(zip(names, found, strict=True))

    def _candidates(self, wanted: ScanRequest) -> Numbers:
        """The numbers of the rows that pages allow."""
        is_key = self._rows_where("key", wanted.keys.may_match)
        is_time = self._rows_where(TIMESTAMP, wanted.times.may_overlap)
        has_no_time = self._rows_where(TIMESTAMP, lambda limits: limits.null_count != 0)
        is_received = self._rows_where(RECEIVED_AT, wanted.times.may_overlap)
        return np.flatnonzero(is_key & (is_time | (has_no_time & is_received)))

    def _rows_where(self, column: str, may_be: Callable[[ColumnStats], bool]) -> BoolMask:
        """Of each row whether its page may fulfil a condition, or the row group if nothing is known of pages."""
        chunk = self._group.chunks.get(column)
        pages = self._pages.get(column)
        if pages is None or pages.stats is None:
            return np.full(self._group.rows, may_be(MISSING_COLUMN_STATS if chunk is None else chunk.stats))
        lengths = np.diff(pages.starts, append=self._group.rows)
        return np.repeat(np.array([may_be(limits) for limits in pages.stats], bool), lengths)

    def _is_in_dictionary(self, chunk: ColumnChunk, keys: KeyPredicate, newest: NewestTimes | None) -> bool:
        """Whether the dictionary of the row group has a key that is wanted."""
        if not chunk.is_dictionary_encoded:
            return True
        names = self._cache.get(
            (self._path, self._group.number),
            lambda: self._source.dictionary(chunk, self._pages["key"]).cast(pa.string()),
            lambda made: int(made.nbytes),
        )
        matching = keys.matching(names)
        if newest is None or not matching.any():
            return bool(matching.any())
        bound = max_row_time(_group_stats(self._group, TIMESTAMP), _group_stats(self._group, RECEIVED_AT))
        return not newest.has_all(bound, names.filter(pa.array(matching)).to_pylist())

    # -- to read it

    def _columns(self, names: Iterable[str], rows: Numbers) -> dict[str, pa.Array]:
        """Columns of some rows; of those that the file does not have nulls."""
        chunks = {name: self._group.chunks[name] for name in names if name in self._group.chunks}
        selections = [RowSelection(chunk, self._pages[name], rows) for name, chunk in chunks.items()]
        found = dict(zip(chunks, self._source.columns(selections), strict=True))
        return {name: _to_table_type(name, found.get(name), chunks.get(name), len(rows)) for name in names}

    def _completed(
        self, rows: Numbers, decided: Mapping[str, pa.Array], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Rows with all columns, in parts that fit in memory."""
        rest = [name for name in columns if name not in decided]
        start = 0
        for part in self._parts(rows):
            others = self._columns(rest, part)
            known = {name: array[start : start + len(part)] for name, array in decided.items()}
            start += len(part)
            arrays = [(known if name in known else others)[name] for name in columns]
            fields = [JOURNAL_SCHEMA.field(name) for name in columns]
            plain = [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
            yield pa.RecordBatch.from_arrays(plain, names=list(columns))

    def _parts(self, rows: Numbers) -> list[Numbers]:
        chunk, pages = self._group.chunks.get("payload"), self._pages.get("payload")
        if chunk is None or pages is None or chunk.size < MAX_PAYLOAD_READ_BYTES:
            return [rows]  # without an index every part would read everything
        count = -(-RowSelection(chunk, pages, rows).size // MAX_PAYLOAD_READ_BYTES)
        return np.array_split(rows, min(count, len(rows)))


def _page_index_memory(pages: Sequence[PageIndex | None]) -> int:
    return sum(INDEXED_PAGE_MEMORY_BYTES * len(each.spans) for each in pages if each is not None)


def _match_keys(keys: pa.DictionaryArray, wanted: KeyPredicate) -> BoolMask:
    """Of each row whether its key is wanted; a null is not."""
    flags = np.append(wanted.matching(keys.dictionary), False)
    found: BoolMask = flags[_dictionary_codes(keys)]
    return found


def _dictionary_codes(keys: pa.DictionaryArray) -> Numbers:
    indices = pc.fill_null(keys.indices, len(keys.dictionary)) if keys.null_count else keys.indices
    codes: Numbers = indices.to_numpy(zero_copy_only=False)
    return codes


def _select_newest(keys: pa.DictionaryArray, times: pa.Array, keep: BoolMask, newest: NewestTimes) -> BoolMask:
    """Those of the rows to keep that may be among the newest of their key."""
    rows = np.flatnonzero(keep)
    codes = _dictionary_codes(keys)[rows]
    numbers = times.cast(pa.int64()).to_numpy(zero_copy_only=False)[rows].astype(np.int64)
    chosen = newest.select(keys.dictionary, codes, numbers)
    names = keys.dictionary.take(pa.array(codes[chosen])).to_pylist()
    newest.add(names, numbers[chosen].tolist())
    found = np.zeros(len(keep), bool)
    found[rows[chosen]] = True
    return found


def _to_table_type(name: str, array: pa.Array | None, chunk: ColumnChunk | None, rows: int) -> pa.Array:
    """A column as the table has it, but for texts, which stay dictionaries."""
    kind = JOURNAL_SCHEMA.field(name).type
    if array is None or chunk is None:
        array = pa.nulls(rows, kind)
    elif kind == UTC and chunk.leaf.unit is not None and pa.types.is_int64(array.type):
        array = array.cast(pa.timestamp(chunk.leaf.unit, "UTC")).cast(UTC, safe=False)
    elif pa.types.is_timestamp(array.type):
        array = array.cast(UTC, safe=False)
    if name == "key" and not pa.types.is_dictionary(array.type):
        array = array.cast(kind).dictionary_encode()
    return array
