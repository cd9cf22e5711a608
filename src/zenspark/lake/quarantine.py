"""Quarantine: journal blocks that cannot be ingested are set aside, so that ingestion can continue after them.

`_quarantine/<recorder>/` of the lake has two files for each block: its raw bytes, and a JSON file with the offsets of
its rows and the reason. The transaction that advances the offsets of the table past these rows also sets an application
version for them. Another transaction changes it when they are ingested later, so that this happens exactly once; files
without an application version are left over from an attempt that was not committed, and are ignored.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import pyarrow as pa

from zenspark import __version__
from zenspark.errors import CorruptJournal, JournalError
from zenspark.journal import Slice
from zenspark.journal.block_codec import DICTIONARY_TYPE
from zenspark.journal.format import HEADER_SIZE, BlockHeader, IndexEntry, segment_file
from zenspark.journal.segment import SegmentIndex, list_segments
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.error_cause import error_cause
from zenspark.lake.parquet_files import DataFile, DataFileWriter, group_batches
from zenspark.lake.partitioning import split_by_partition
from zenspark.lake.specs import SAMPLES
from zenspark.lake.storage_path import StoragePath

logger = logging.getLogger("zenspark.lake")

QUARANTINE_DIRECTORY = "_quarantine"
QUARANTINE_APP_ID_PREFIX = "quarantine:"
QUARANTINED, RETRIED = 1, 2
"""Application version of a quarantined block: in quarantine, or ingested by a retry."""
LATE_TAG = "zenspark.late"
"""Tag of a data file whose rows precede the offsets that its table had already reached."""
LATE_TAGS = {LATE_TAG: "true"}


class QuarantinedBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One quarantined block; the content of its JSON file.

    Attributes:
        recorder: Name of the recorder.
        path: Directory of the journal.
        segment: First offset of the segment that has the block.
        start: Offset of the first row.
        end: Offset after the last row.
        reason: Error of the ingestion.
        version: Version of zenspark that failed to ingest it.
        time: Time of the failure, in ISO 8601.
        has_bytes: Whether the raw bytes of the block could be read.
        is_damaged: Whether the block is corrupt; otherwise it is intact and its rows could not be ingested.

    Example:
        >>> for block in lake.quarantine():
        ...     print(block.recorder, block.num_rows, block.reason)
    """

    recorder: str
    path: str
    segment: int
    start: int
    end: int
    reason: str
    version: str
    time: str
    has_bytes: bool
    is_damaged: bool = True

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.end - self.start

    @property
    def app_id(self) -> str:
        """Application id of the block in `samples`."""
        return f"{QUARANTINE_APP_ID_PREFIX}{self.recorder}:{self.start}-{self.end}"

    @property
    def file(self) -> str:
        """Path of its files in the lake, without suffix."""
        return f"{QUARANTINE_DIRECTORY}/{quote(self.recorder, safe='')}/{self.start:020}"


def parse_app_id(app_id: str) -> tuple[str, int, int]:
    """Parse the application id of a block: recorder, first offset and end offset (exclusive)."""
    recorder, offsets = app_id.removeprefix(QUARANTINE_APP_ID_PREFIX).rsplit(":", 1)
    start, end = offsets.split("-")
    return recorder, int(start), int(end)


def is_data_error(error: BaseException) -> bool:
    """Whether an error is caused by the data, and not by disk, memory or network."""
    return isinstance(
        error, CorruptJournal | pa.ArrowException | ValueError | TypeError | LookupError | ArithmeticError
    ) and not isinstance(error, OSError | MemoryError)


# --- write rows -------------------------------------------------------------------------------------------------------


def write_rows(
    location: StoragePath, label: str, batches: Iterable[pa.RecordBatch], tags: dict[str, str] | None = None
) -> list[DataFile]:
    """Write samples to data files by partition; after an error no file is left."""
    files = DataFileWriter(location, SAMPLES, label, tags=tags)
    try:
        for rows in group_batches(batches):
            for partition, group in split_by_partition(rows):
                files.write(group, partition)
            files.roll_over()
        return files.close()
    except BaseException:
        files.discard()
        raise


class SliceResult(NamedTuple):
    """Data files written from a journal slice, and its quarantined blocks."""

    files: list[DataFile]
    quarantined: list[QuarantinedBlock]


def write_by_block(lake: StoragePath, samples: StoragePath, label: str, part: Slice) -> SliceResult:
    """Write a journal slice block by block, and quarantine the blocks that fail; runs in a Spark task."""
    result = SliceResult([], [])
    for block, entry in split_into_blocks(part):
        try:
            if entry is None:
                problem = f"index entry of the block with offset {block.start} is damaged"
                raise CorruptJournal(str(segment_file(Path(block.path), block.segment)), 0, problem)
            result.files.extend(write_rows(samples, label, block.batches(DICTIONARY_TYPE)))
        except Exception as error:
            if not is_data_error(error):
                raise
            result.quarantined.append(_quarantine_block(lake, block, entry, error))
    return result


def split_into_blocks(part: Slice) -> Iterator[tuple[Slice, IndexEntry | None]]:
    """Split a slice by blocks; the index entry is None for rows whose entry is damaged."""
    segments = list_segments(Path(part.path))
    offset, segment = part.start, part.segment
    while offset < part.end:
        next_segment = next((first for first in segments if first > offset), part.end)
        end = min(part.end, next_segment)
        for entry in _read_entries(Path(part.path), segment, offset, end):
            if offset < entry.block.first:
                yield _block_slice(part, segment, offset, entry.block.first), None
            offset = min(entry.block.end, end)
            yield _block_slice(part, segment, max(entry.block.first, part.start), offset), entry
        if offset < end:
            yield _block_slice(part, segment, offset, end), None
        offset = segment = end


def _read_entries(path: Path, segment: int, start: int, end: int) -> list[IndexEntry]:
    """Read the index entries of the blocks with these rows; damaged entries are skipped."""
    entries: list[IndexEntry] = []
    with SegmentIndex(path, segment) as index:
        for number in range(index.count):
            try:
                entry = index.entry(number)
            except CorruptJournal:
                continue
            previous_end = entries[-1].block.end if entries else start
            if entry.block.end > previous_end and entry.block.first < end:
                entries.append(entry)
    return entries


def _block_slice(part: Slice, segment: int, start: int, end: int) -> Slice:
    return msgspec.structs.replace(part, start=start, end=end, segment=segment)


def _quarantine_block(lake: StoragePath, block: Slice, entry: IndexEntry | None, error: Exception) -> QuarantinedBlock:
    raw = None if entry is None else _read_block_bytes(block, entry)
    item = QuarantinedBlock(
        recorder=block.recorder,
        path=block.path,
        segment=block.segment,
        start=block.start,
        end=block.end,
        reason=error_cause(error),
        version=__version__,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        has_bytes=raw is not None,
        is_damaged=isinstance(error, CorruptJournal),
    )
    if raw is not None:
        lake.write(f"{item.file}.block", raw)
    _write_description(lake, item)
    return item


def _write_description(lake: StoragePath, item: QuarantinedBlock) -> None:
    lake.write(f"{item.file}.json", msgspec.json.format(msgspec.json.encode(item)))


def discard(lake: StoragePath, items: Iterable[QuarantinedBlock]) -> None:
    """Delete the files of blocks that are no longer in quarantine."""
    for item in items:
        for ending in (".json", ".block"):
            lake.remove(f"{item.file}{ending}")


def _read_block_bytes(block: Slice, entry: IndexEntry) -> bytes:
    with open(segment_file(Path(block.path), block.segment), "rb") as file:
        file.seek(entry.position)
        return file.read(entry.stop - entry.position)


# --- list and retry ---------------------------------------------------------------------------------------------------


def list_quarantined(lake: StoragePath, samples: LakeTable) -> list[QuarantinedBlock]:
    """Blocks that are in quarantine, by recorder and offset."""
    items = []
    for file in lake.files(QUARANTINE_DIRECTORY, suffix=".json"):
        content = lake.read(file.path)
        if content is not None:
            item = msgspec.json.decode(content, type=QuarantinedBlock)
            if samples.app_version(item.app_id) == QUARANTINED:
                items.append(item)
    return items


def retry(lake: StoragePath, samples: LakeTable, items: Sequence[QuarantinedBlock]) -> int:
    """Ingest quarantined blocks that can be decoded now, one transaction per block. Returns the number of rows.

    The rows are read from the quarantined bytes, or from the journal, which may have been restored from a backup.
    """
    ingested = 0
    for item in items:
        try:
            files = _write_quarantined_rows(lake, samples, item)
        except Exception as error:
            if not is_data_error(error) and not isinstance(error, JournalError):
                raise
            _keep_quarantined(lake, item, error_cause(error))
            continue
        samples.commit(Transaction(add=files, app_versions={item.app_id: RETRIED}))
        discard(lake, [item])
        logger.warning(
            "%s: rows %d to %d of recorder %s ingested from quarantine",
            lake.address,
            item.start,
            item.end - 1,
            item.recorder,
        )
        ingested += item.num_rows
    return ingested


def _keep_quarantined(lake: StoragePath, item: QuarantinedBlock, reason: str) -> None:
    """Log that a retry failed, and record its reason and the version in the JSON file."""
    span = (item.start, item.end - 1, item.recorder)
    logger.warning("%s: rows %d to %d of recorder %s stay in quarantine: %s", lake.address, *span, reason)
    _write_description(lake, msgspec.structs.replace(item, reason=reason, version=__version__))


def _write_quarantined_rows(lake: StoragePath, samples: LakeTable, item: QuarantinedBlock) -> list[DataFile]:
    part = Slice(item.path, item.recorder, SAMPLES.name, item.start, item.end, item.segment)
    try:
        return write_rows(samples.location, "retry", [_decode_quarantined_rows(lake, item, part)], LATE_TAGS)
    except Exception as error:
        if not is_data_error(error):
            raise
        return write_rows(samples.location, "retry", part.batches(DICTIONARY_TYPE), LATE_TAGS)


def _decode_quarantined_rows(lake: StoragePath, item: QuarantinedBlock, part: Slice) -> pa.RecordBatch:
    """Decode the rows of a block from its quarantined bytes."""
    where = Path(lake.address, f"{item.file}.block")
    raw = lake.read(f"{item.file}.block") or b""
    block = BlockHeader.from_bytes(raw[:HEADER_SIZE])
    if block is None or zlib.crc32(raw[HEADER_SIZE:]) != block.checksum:
        raise CorruptJournal(str(where), 0, "a block as it was written", (item.start, item.end - 1))
    return part.rows_of_block(where, IndexEntry(0, block), pa.py_buffer(raw[HEADER_SIZE:]), DICTIONARY_TYPE)
