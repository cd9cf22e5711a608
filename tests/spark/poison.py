"""Journals with blocks that are whole, by their checksums, and hold no rows that can be read."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.rows import samples
from zenspark.journal import Journal, JournalWriter
from zenspark.journal.format import ENTRY_SIZE, HEADER_SIZE, IndexEntry, index_file, segment_file
from zenspark.spark.lake import Lake
from zenspark.spark.source.stream import SLICES

BLOCK_ROWS = 100


def recorded_blocks(lake: Lake, count: int) -> Path:
    """A journal beside a lake of so many blocks."""
    path = Path(f"{lake.location.address}-journals/robot")
    with JournalWriter(path, recorder="robot") as writer:
        for number in range(count):
            writer.append(samples(number * BLOCK_ROWS, (number + 1) * BLOCK_ROWS))
            writer.flush()
    return path


def poison(journal: Path, number: int) -> Callable[[], None]:
    """Overwrite the rows of a block of the first segment, and correct its checksums; how to undo it."""
    index, segment = index_file(journal, 0), segment_file(journal, 0)
    before = index.read_bytes(), segment.read_bytes()
    entries, blocks = bytearray(before[0]), bytearray(before[1])
    place = slice(number * ENTRY_SIZE, (number + 1) * ENTRY_SIZE)
    entry = IndexEntry.from_bytes(bytes(entries[place]))
    assert entry is not None
    start, stop = entry.position + HEADER_SIZE, entry.stop
    blocks[start + 16 : stop] = b"x" * (stop - start - 16)
    block = entry.block._replace(checksum=zlib.crc32(blocks[start:stop]))
    blocks[entry.position : start] = block.to_bytes()
    entries[place] = IndexEntry(entry.position, block).to_bytes()
    _replace(index, bytes(entries))
    _replace(segment, bytes(blocks))

    def restore() -> None:
        _replace(index, before[0])
        _replace(segment, before[1])

    return restore


def _replace(path: Path, content: bytes) -> None:
    with open(path, "r+b") as file:  # it may be open in a writer
        file.write(content)


def parts_of(spark: SparkSession, journal: Path) -> DataFrame:
    """All rows of a journal as a batch of a stream."""
    source = Journal(journal)
    slices = source.slices(source.earliest(), source.latest(), 2)
    rows = pa.Table.from_pylist([msgspec.structs.asdict(part) for part in slices], schema=SLICES)
    return spark.createDataFrame(rows)
