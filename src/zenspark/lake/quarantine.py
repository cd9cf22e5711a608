"""Quarantine: blocks of journals that cannot be landed, put aside so that everything behind them can.

In `_quarantine/<recorder>/` of the lake there are two files for each block: its bytes as the journal had them, and a
JSON file that says which rows these are and why they did not land. The transaction that moves the offsets of the table
over these rows also sets a mark for them. Another transaction moves that mark when they have landed after all, so that
they do so once; files without a mark are of an attempt that did not get so far, and mean nothing.
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

log = logging.getLogger("zenspark.spark")

QUARANTINE_DIRECTORY = "_quarantine"
APP_ID_PREFIX = "quarantine:"
QUARANTINED, RETRIED = 1, 2
"""What the mark of quarantined rows says: put aside, or landed after all."""
LATE_TAG = "zenspark.late"
"""The tag of a file whose rows lie before the offsets up to which its table had already come."""
LATE_TAGS = {LATE_TAG: "true"}


class QuarantinedBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one block that were put aside."""

    recorder: str
    path: str
    """The journal."""
    segment: int
    start: int
    end: int
    """From which offset up to before which other."""
    reason: str
    version: str
    """Of the zenspark that could not land them."""
    time: str
    has_bytes: bool
    """Whether the bytes of the block could be read at all."""
    is_damaged: bool = True
    """Whether the block is not what a recorder wrote; otherwise its rows are of a kind that could not be landed."""

    @property
    def num_rows(self) -> int:
        return self.end - self.start

    @property
    def app_id(self) -> str:
        """The mark of these rows in `samples`."""
        return f"{APP_ID_PREFIX}{self.recorder}:{self.start}-{self.end}"

    @property
    def file(self) -> str:
        """Where it stands in the lake, without the ending."""
        return f"{QUARANTINE_DIRECTORY}/{quote(self.recorder, safe='')}/{self.start:020}"


def parse_app_id(name: str) -> tuple[str, int, int]:
    """The recorder and the offsets, from one up to before the other, that a mark of quarantined rows names."""
    recorder, offsets = name.removeprefix(APP_ID_PREFIX).rsplit(":", 1)
    start, end = offsets.split("-")
    return recorder, int(start), int(end)


def is_data_error(error: BaseException) -> bool:
    """Whether it is the rows that are wrong, and not the disk, the memory or the network."""
    return isinstance(
        error, CorruptJournal | pa.ArrowException | ValueError | TypeError | LookupError | ArithmeticError
    ) and not isinstance(error, OSError | MemoryError)


# --- to write rows ----------------------------------------------------------------------------------------------------


def write_rows(
    location: StoragePath, label: str, batches: Iterable[pa.RecordBatch], tags: dict[str, str] | None = None
) -> list[DataFile]:
    """Write samples into files by day and prefix; nothing is left of them after an error."""
    files = DataFileWriter(location, SAMPLES, label, tags=tags)
    try:
        for rows in group_batches(batches):
            for partition, own in split_by_partition(rows):
                files.write(own, partition)
            files.roll_over()
        return files.close()
    except BaseException:
        files.discard()
        raise


class SalvageResult(NamedTuple):
    """What could be written of a part of a journal, and what could not."""

    files: list[DataFile]
    quarantined: list[QuarantinedBlock]


def salvage(lake: StoragePath, samples: StoragePath, label: str, part: Slice) -> SalvageResult:
    """Write the rows of a part block by block, and put aside the blocks that fail: what a task of Spark does."""
    found = SalvageResult([], [])
    for piece, entry in split_into_blocks(part):
        try:
            if entry is None:
                problem = f"the block that has offset {piece.start}: its entry is damaged"
                raise CorruptJournal(str(segment_file(Path(piece.path), piece.segment)), 0, problem)
            found.files.extend(write_rows(samples, label, piece.batches(DICTIONARY_TYPE)))
        except Exception as error:
            if not is_data_error(error):
                raise
            found.quarantined.append(_quarantine_block(lake, piece, entry, error))
    return found


def split_into_blocks(part: Slice) -> Iterator[tuple[Slice, IndexEntry | None]]:
    """The rows of a part, block by block; without an entry where the index does not say which block they are in."""
    known = list_segments(Path(part.path))
    offset, segment = part.start, part.segment
    while offset < part.end:
        following = next((first for first in known if first > offset), part.end)
        end = min(part.end, following)
        for entry in _read_entries(Path(part.path), segment, offset, end):
            if offset < entry.block.first:
                yield _block_slice(part, segment, offset, entry.block.first), None
            offset = min(entry.block.end, end)
            yield _block_slice(part, segment, max(entry.block.first, part.start), offset), entry
        if offset < end:
            yield _block_slice(part, segment, offset, end), None
        offset = segment = end


def _read_entries(path: Path, segment: int, start: int, end: int) -> list[IndexEntry]:
    """The blocks of a segment that have these rows, as far as its index can be read."""
    found: list[IndexEntry] = []
    with SegmentIndex(path, segment) as index:
        for number in range(index.count):
            try:
                entry = index.entry(number)
            except CorruptJournal:
                continue
            behind = found[-1].block.end if found else start
            if entry.block.end > behind and entry.block.first < end:
                found.append(entry)
    return found


def _block_slice(part: Slice, segment: int, start: int, end: int) -> Slice:
    return msgspec.structs.replace(part, start=start, end=end, segment=segment)


def _quarantine_block(lake: StoragePath, piece: Slice, entry: IndexEntry | None, error: Exception) -> QuarantinedBlock:
    raw = None if entry is None else _read_block_bytes(piece, entry)
    item = QuarantinedBlock(
        recorder=piece.recorder,
        path=piece.path,
        segment=piece.segment,
        start=piece.start,
        end=piece.end,
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
    """Remove the files of rows that are not put aside after all."""
    for item in items:
        for ending in (".json", ".block"):
            lake.remove(f"{item.file}{ending}")


def _read_block_bytes(piece: Slice, entry: IndexEntry) -> bytes:
    with open(segment_file(Path(piece.path), piece.segment), "rb") as file:
        file.seek(entry.position)
        return file.read(entry.stop - entry.position)


# --- to look at it, and to try again ----------------------------------------------------------------------------------


def list_quarantined(lake: StoragePath, samples: LakeTable) -> list[QuarantinedBlock]:
    """What is put aside now, by recorder and offset."""
    found = []
    for file in lake.files(QUARANTINE_DIRECTORY, suffix=".json"):
        content = lake.read(file.path)
        if content is not None:
            item = msgspec.json.decode(content, type=QuarantinedBlock)
            if samples.app_version(item.app_id) == QUARANTINED:
                found.append(item)
    return found


def retry(lake: StoragePath, samples: LakeTable, items: Sequence[QuarantinedBlock]) -> int:
    """Land what can be read now, each block in a transaction of its own; how many rows.

    The rows come from the bytes that were put aside, or from the journal, which may have been restored from a copy.
    """
    landed = 0
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
        log.warning("rows %d to %d of recorder %s have landed after all", item.start, item.end - 1, item.recorder)
        landed += item.num_rows
    return landed


def _keep_quarantined(lake: StoragePath, item: QuarantinedBlock, reason: str) -> None:
    """Note that this version cannot read it, either."""
    log.warning("rows %d to %d of recorder %s stay aside: %s", item.start, item.end - 1, item.recorder, reason)
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
    """The rows of a block out of the bytes that were put aside."""
    where = Path(lake.address, f"{item.file}.block")
    raw = lake.read(f"{item.file}.block") or b""
    block = BlockHeader.from_bytes(raw[:HEADER_SIZE])
    if block is None or zlib.crc32(raw[HEADER_SIZE:]) != block.checksum:
        raise CorruptJournal(str(where), 0, "a block as it was written", (item.start, item.end - 1))
    return part.rows_of_block(where, IndexEntry(0, block), raw[HEADER_SIZE:], DICTIONARY_TYPE)
