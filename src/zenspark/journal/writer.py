"""JournalWriter: appends rows to a journal, one writer at a time.

Appended rows are buffered until there are enough of them, or until `flush`: then they are written as one block, and
acknowledged. An error while flushing, such as a full disk, loses nothing: rows stay buffered, and `flush` tries again.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow.decode import RowChunk, ntp64_to_microseconds
from zenspark.errors import JournalError, JournalFull, NoJournal, UsageError
from zenspark.journal.block_codec import encode_chunks, encode_columns, serialize_batch
from zenspark.journal.failures import write_errors
from zenspark.journal.format import (
    DIRECTORY_MODE,
    EMPTY_TIME_RANGE,
    LOCK_FILE,
    MANIFEST,
    SAMPLES,
    SCHEMAS,
    TIME_COLUMNS,
    BlockHeader,
    Manifest,
    journal_directory,
    write_file,
)
from zenspark.journal.lock import JournalLock
from zenspark.journal.policy import Policy
from zenspark.journal.reader_offsets import ReaderExpiry, ReaderOffsets
from zenspark.journal.retention import is_older, remove_orphans, trim, trim_committed
from zenspark.journal.segment import SegmentWriter, Truncation, list_segments, sync_directory

logger = logging.getLogger("zenspark.journal")

MANIFEST_DRAFT = f".{MANIFEST}"
TRIM_INTERVAL_SECONDS = 10.0
"""Interval of trimming the journal, in seconds."""


class JournalWriter:
    """Writes a journal; creates it if it does not exist. `cut` describes data truncated after a crash, or is None.

    Args:
        path: Directory of the journal.
        policy: When rows are written, synced and trimmed; `Policy()` by default.
        recorder: Name of the recorder; of a new journal a random one by default.
        row_type: Type of the rows: samples, sessions, declarations or counters.

    Raises:
        UsageError: The path is not a local path, or there are no rows of this type.
        JournalLocked: Another process writes this journal.
        JournalError: The journal cannot be opened or created, or is for rows of another type.

    Example:
        >>> with JournalWriter("journal", Policy(fsync="flush")) as writer:
        ...     offset = writer.append(batch)
        ...     writer.flush()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        recorder: str | None = None,
        row_type: str = SAMPLES,
    ) -> None:
        self.path = journal_directory(path)
        self.policy = policy or Policy()
        _prepare_directory(self.path, row_type)
        self._lock = JournalLock(self.path)
        try:
            with write_errors(self.path):
                self.manifest = _open_manifest(self.path, recorder, row_type)
                self._lock.lock_manifest()
                self._segment = self._last_segment()
        except BaseException:
            self._lock.release()
            raise
        self._batches: list[pa.RecordBatch] = []
        self._chunks: list[RowChunk] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._buffered_since = 0.0
        self._synced = self._trimmed = time.monotonic()
        self._created = self._synced - self._segment.age(time.time())
        self._expiry = ReaderExpiry(self.path, self.policy.reader_expiry)
        self._is_closed = False
        self.bytes = 0
        """Bytes that this writer has written."""

    @property
    def cut(self) -> Truncation | None:
        """Incomplete data that was truncated when the journal was opened."""
        return self._cut

    def _last_segment(self) -> SegmentWriter:
        remove_orphans(self.path)
        segments = list_segments(self.path)
        segment = SegmentWriter(self.path, segments[-1] if segments else 0, self.policy.fsync)
        self._cut = segment.cut
        if segment.cut is not None:
            logger.warning(
                "%s: truncated to offset %d: %d bytes and %d index entries at the end were incomplete",
                segment.cut.file,
                segment.end,
                segment.cut.bytes,
                segment.cut.entries,
            )
        if segment.damaged:
            logger.error("%s: lost the rows of %d blocks: they are corrupt", segment.path, segment.damaged)
        return segment

    @property
    def _has_fsync(self) -> bool:
        return self.policy.fsync != "never"

    # --- offsets

    @property
    def acknowledged(self) -> int:
        """Offset after the last acknowledged row."""
        return self._segment.end

    @property
    def end(self) -> int:
        """Offset after the last appended row."""
        return self._segment.end + self._buffered_rows

    @property
    def waiting_bytes(self) -> int:
        """Approximate bytes that are not acknowledged yet."""
        return self._buffered_bytes

    @property
    def is_due(self) -> bool:
        """Whether the flush interval of buffered rows has passed."""
        return bool(self._buffered_rows) and time.monotonic() - self._buffered_since >= self.policy.flush_interval

    # --- rows

    def append(self, batch: pa.RecordBatch) -> int:
        """Append rows. They are acknowledged with a full block, or by `flush`.

        Args:
            batch: The rows, with the schema of their type.

        Returns:
            The offset of the first row.

        Raises:
            JournalFull: Earlier rows cannot be written; these rows are not accepted.
            UsageError: The columns are not those of the schema, or the writer was closed.

        Example:
            >>> offset = writer.append(batch)
        """
        self._check(batch.schema)
        return self._buffer(batch.num_rows, batch.nbytes, batches=[batch])

    def append_chunks(self, chunks: Sequence[RowChunk]) -> int:
        """Append received row chunks: ten times as fast as `append`.

        Args:
            chunks: The chunks, none of them empty.

        Returns:
            The offset of the first row.

        Raises:
            JournalFull: Earlier rows cannot be written; these rows are not accepted.
            UsageError: The journal is not for samples, or the writer was closed.

        Example:
            >>> offset = writer.append_chunks(chunks)
        """
        if self.manifest.row_type != SAMPLES:
            raise UsageError(f"{self.path}: this journal is for {self.manifest.row_type}, not for samples")
        return self._buffer(sum(chunk.num_rows for chunk in chunks), sum(chunk.size for chunk in chunks), chunks=chunks)

    def _buffer(
        self, rows: int, size: int, batches: Sequence[pa.RecordBatch] = (), chunks: Sequence[RowChunk] = ()
    ) -> int:
        if self._is_closed:
            raise UsageError(f"{self.path}: this writer was closed")
        is_other_kind = (self._chunks and batches) or (self._batches and chunks)
        is_too_much = bool(self._buffered_rows) and self._buffered_bytes + size > self.policy.flush_bytes
        if is_other_kind or is_too_much or self._should_flush:
            self.flush()
        offset = self.end
        if not rows:
            return offset
        if not self._buffered_rows:
            self._buffered_since = time.monotonic()
        self._batches += batches
        self._chunks += chunks
        self._buffered_rows += rows
        self._buffered_bytes += size
        if self._should_flush or self.is_due:
            with suppress(JournalError):  # the rows are accepted: the next call raises the error
                self.flush()
        return offset

    @property
    def _should_flush(self) -> bool:
        return self._buffered_rows >= self.policy.flush_rows or self._buffered_bytes >= self.policy.flush_bytes

    def _check(self, schema: pa.Schema) -> None:
        expected = SCHEMAS[self.manifest.row_type]
        if schema.equals(expected):
            return
        for field in expected:
            actual = schema.field(field.name).type if field.name in schema.names else None
            if actual != field.type:
                what = "nothing" if actual is None else str(actual)
                raise UsageError(f"{self.path}: column {field.name!r}: expected {field.type}, found {what}")
        raise UsageError(f"{self.path}: expected the columns {', '.join(expected.names)}, found {schema.names}")

    def flush(self) -> None:
        """Write and acknowledge all appended rows, with fsync if the policy requires it.

        Raises:
            JournalFull: There is no space. Nothing is lost: the rows can be flushed later.
            JournalError: Writing failed otherwise.

        Example:
            >>> writer.flush()
            >>> writer.acknowledged == writer.end
            True
        """
        if self._buffered_rows:
            self._write(encode_chunks(self._chunks) if self._chunks else encode_columns(_concat_batches(self._batches)))
        self._run_maintenance(time.monotonic())

    def _write(self, rows: pa.RecordBatch) -> None:
        self._lock.check()
        payload = serialize_batch(rows, self.policy.compression)
        try:
            self._append_block(rows, payload)
        except JournalFull:
            if not self._free_space():
                raise
            self._append_block(rows, payload)
        self._batches, self._chunks = [], []
        self._buffered_rows = self._buffered_bytes = 0

    def _append_block(self, rows: pa.RecordBatch, payload: list[memoryview]) -> None:
        self._rotate_if_due()
        times = (
            rows.column(TIME_COLUMNS[self.manifest.row_type])
            if TIME_COLUMNS[self.manifest.row_type] in rows.schema.names
            else None
        )
        block = BlockHeader(
            rows.num_rows,
            sum(len(part) for part in payload),
            self._segment.end,
            EMPTY_TIME_RANGE if times is None else _time_range(times),
            _timestamp_range(rows),
            reduce(lambda checksum, part: zlib.crc32(part, checksum), payload, 0),
        )
        self._segment.append(block, payload)
        self.bytes += block.length

    # --- files

    def _rotate_if_due(self) -> None:
        segment = self._segment
        is_old = time.monotonic() - self._created >= self.policy.segment_age
        if segment.count and (segment.position >= self.policy.segment_bytes or is_old):
            self._rotate()
            self._trim()

    def _rotate(self) -> None:
        segment = self._segment
        if self._has_fsync:
            segment.sync()
        with write_errors(self.path):
            self._segment = SegmentWriter(self.path, segment.end, self.policy.fsync)
        segment.close()
        self._created = time.monotonic()

    def _run_maintenance(self, now: float) -> None:
        """Run periodic tasks that are due: fsync, rotation and trimming."""
        fsync = self.policy.fsync
        if fsync == "flush" or (isinstance(fsync, float | int) and now - self._synced >= fsync):
            self._segment.sync()
            self._synced = now
        if now - self._trimmed >= TRIM_INTERVAL_SECONDS:
            self._rotate_if_due()
            self._trim()

    # --- retention

    def _trim(self) -> None:
        self._trimmed = time.monotonic()
        try:
            self._expiry.expire(self._segment.end, time.time(), self._trimmed)
            if self._can_retire_segment():
                self._rotate()
            trim(self.path, self.policy, time.time())
        except (OSError, JournalError) as error:
            logger.warning("%s: trimming failed, old rows stay until the next attempt: %s", self.path, error)

    def _can_retire_segment(self) -> bool:
        """Whether the active segment could be removed after a rotation."""
        policy, segment = self.policy, self._segment
        if not self._removes_committed or not self._is_committed:
            return False
        is_large = policy.retain_read_bytes is not None and segment.position > policy.retain_read_bytes
        age = policy.retain_read_age
        return is_large or (age is not None and is_older(self.path, segment.first, age, time.time()))

    @property
    def _removes_committed(self) -> bool:
        return self.policy.retain_read_age is not None or self.policy.retain_read_bytes is not None

    @property
    def _is_committed(self) -> bool:
        """Whether the active segment has rows, and all attached readers have committed them."""
        committed = ReaderOffsets(self.path).min_offset()
        return bool(self._segment.count) and committed is not None and committed >= self._segment.end

    def _free_space(self) -> bool:
        """Trim rows that all attached readers have committed, if the policy does not retain them. True if it did."""
        if not self._removes_committed:
            return False
        try:
            trimmed = self.trim_committed()
        except (OSError, JournalError) as error:
            logger.warning("%s: trimming failed, committed rows stay until the next attempt: %s", self.path, error)
            return False
        if trimmed:
            logger.warning("%s: the disk is full: trimmed %d rows that all readers have committed", self.path, trimmed)
        return bool(trimmed)

    def trim_committed(self) -> int:
        """Remove rows that all attached readers have committed, whatever the policy retains.

        The active segment is rotated if all of its rows can be removed.

        Returns:
            The number of rows removed.

        Raises:
            JournalError: A file cannot be read or removed.

        Example:
            >>> removed = writer.trim_committed()
        """
        trimmed = trim_committed(self.path)
        if self._is_committed:
            self._rotate()
            trimmed += trim_committed(self.path)
        return trimmed

    def close(self) -> None:
        """Flush and release the lock. Closing it again does nothing.

        Raises:
            JournalError: The last rows cannot be written; they are lost.

        Example:
            >>> writer.close()
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.flush()
            if self._has_fsync:
                self._segment.sync()
        finally:
            self._segment.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _prepare_directory(path: Path, row_type: str) -> None:
    """Create the directory, or check that it is empty or has a journal."""
    if row_type not in SCHEMAS:
        raise UsageError(f"row_type: expected one of {', '.join(SCHEMAS)}, found {row_type!r}")
    try:
        path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        with os.scandir(path) as entries:
            others = {entry.name for entry in entries} - {LOCK_FILE, MANIFEST_DRAFT}
    except FileExistsError:
        raise NoJournal(str(path), "expected the directory of a journal, found a file") from None
    except OSError as error:
        raise NoJournal(str(path), f"the directory cannot be made or read: {error.strerror}") from error
    if others and MANIFEST not in others:
        raise NoJournal(str(path), "the directory has files in it that are no journal: choose another, or empty it")


def _open_manifest(path: Path, recorder: str | None, row_type: str) -> Manifest:
    """Read the manifest; writes it if the journal is new."""
    if not (path / MANIFEST).exists():
        manifest = Manifest.new(recorder or f"{path.resolve().name}-{secrets.token_hex(4)}", row_type)
        write_file(path / MANIFEST_DRAFT, manifest.to_json())
        os.replace(path / MANIFEST_DRAFT, path / MANIFEST)
        sync_directory(path)
    manifest = Manifest.read(path)
    if manifest.row_type != row_type:
        raise NoJournal(str(path), f"expected a journal of {row_type}, found one of {manifest.row_type}")
    if recorder is not None and manifest.recorder != recorder:
        problem = f"the recorder of this journal is {manifest.recorder!r}, not {recorder!r}"
        raise NoJournal(str(path), f"{problem}: choose another directory, or that name")
    return manifest


def _concat_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def _time_range(times: pa.Array) -> tuple[int, int]:
    """Minimum and maximum, in microseconds."""
    values = times.values if isinstance(times, pa.RunEndEncodedArray) else times
    bounds = pc.min_max(values.cast(pa.int64()))
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    return EMPTY_TIME_RANGE if least is None else (least, greatest)


def _timestamp_range(rows: pa.RecordBatch) -> tuple[int, int]:
    """Range of the timestamps; clock readings sort as their times do."""
    if "timestamp" in rows.schema.names:
        return _time_range(rows.column("timestamp"))
    if "timestamp_ntp64" not in rows.schema.names:
        return EMPTY_TIME_RANGE
    readings = rows.column("timestamp_ntp64")
    if isinstance(readings, pa.RunEndEncodedArray):
        readings = readings.values
    bounds = pc.min_max(readings.view(pa.uint64()))
    return _time_range(ntp64_to_microseconds(pa.array([bounds["min"].as_py(), bounds["max"].as_py()], pa.uint64())))
