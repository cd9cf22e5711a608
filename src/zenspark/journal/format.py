"""Journal file format, other than Arrow data: `journal.json`, block headers and index entries.

A block is a header of fixed size and one complete Arrow IPC stream. An entry is the position of a block and its header
again. Everything is little-endian, and every number of an entry starts at a multiple of its size.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Mapping
from datetime import UTC as UTC_ZONE
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa

from zenspark.arrow import SCHEMA, UTC
from zenspark.errors import NoJournal, UsageError

JOURNAL_FORMAT = "zenspark journal"
JOURNAL_FORMAT_VERSION = 1
MANIFEST = "journal.json"
LOCK_FILE = "writer.lock"
READERS_DIRECTORY = "readers"
FILE_MODE, DIRECTORY_MODE = 0o640, 0o750
"""Permissions of new files and directories, before the umask: payloads are not readable by other users."""
MAX_MANIFEST_BYTES = 1 << 20
"""Maximum size of `journal.json`: a file of any size must not be read into memory."""
URI_PATTERN = re.compile("([a-z][a-z0-9+.-]+):/+")
"""Start of a URI, also after a conversion to `Path`, which merges slashes."""
SEGMENT_SUFFIX, INDEX_SUFFIX = ".segment", ".index"
OFFSET_DIGITS = 20
"""Digits of an offset in a file name: as many as the greatest has, so that names sort as offsets do."""

SAMPLES, SESSIONS, DECLARATIONS, COUNTERS = "samples", "sessions", "declarations", "counters"
SCHEMAS: Mapping[str, pa.Schema] = {
    SAMPLES: SCHEMA,
    SESSIONS: pa.schema(
        [
            ("time", UTC),
            ("event", pa.string()),
            ("zid", pa.string()),
            ("whatami", pa.string()),
            ("source", pa.string()),
            ("destination", pa.string()),
        ]
    ),
    DECLARATIONS: pa.schema(
        [
            ("time", UTC),
            ("event", pa.string()),
            ("kind", pa.string()),
            ("key", pa.string()),
            ("zid", pa.string()),
            ("whatami", pa.string()),
        ]
    ),
    COUNTERS: pa.schema(
        [
            ("time", UTC),
            ("name", pa.string()),
            ("zid", pa.string()),
            ("reason", pa.string()),
            ("value", pa.int64()),
        ]
    ),
}
"""Schemas by row type, the `rows` of `journal.json`."""
TIME_COLUMNS = {SAMPLES: "received_at", SESSIONS: "time", DECLARATIONS: "time", COUNTERS: "time"}
"""Time column by row type, for lookup by time."""


def read_schema(row_type: str) -> pa.Schema:
    """Schema of rows that are read: the written columns, then recorder and offset."""
    return SCHEMAS[row_type].append(pa.field("recorder", pa.string())).append(pa.field("offset", pa.int64()))


# --- files ------------------------------------------------------------------------------------------------------------


def journal_directory(path: str | os.PathLike[str]) -> Path:
    """Validate the directory of a journal. It must be local: acknowledged rows have been written to a disk."""
    scheme = URI_PATTERN.match(str(path))
    if scheme is not None:
        text = f"{scheme[1]}://{str(path)[scheme.end() :]}"
        raise UsageError(f"{text}: a journal is a directory on this machine; only a lake can be elsewhere")
    if "\0" in str(path):
        raise UsageError(f"{str(path)!r}: the path of a journal cannot contain a null character")
    return Path(path)


def write_file(path: Path, text: str) -> None:
    """Write a small file with the permissions of a journal."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        data = memoryview(text.encode())
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)


def segment_file(path: Path, first: int) -> Path:
    return path / f"{first:0{OFFSET_DIGITS}}{SEGMENT_SUFFIX}"


def index_file(path: Path, first: int) -> Path:
    return path / f"{first:0{OFFSET_DIGITS}}{INDEX_SUFFIX}"


def parse_offset(name: str, suffix: str) -> int | None:
    """Parse the offset in the name of a segment or index file; None for other files."""
    stem = name.removesuffix(suffix)
    return int(stem) if stem != name and len(stem) == OFFSET_DIGITS and stem.isascii() and stem.isdigit() else None


class Manifest(msgspec.Struct, frozen=True, rename={"row_type": "rows"}):
    """The content of `journal.json`."""

    recorder: str
    row_type: str
    """Samples, sessions, declarations or counters; `rows` in the file."""
    created: str

    @staticmethod
    def new(recorder: str, row_type: str) -> Manifest:
        return Manifest(recorder, row_type, datetime.now(UTC_ZONE).isoformat(timespec="seconds"))

    def to_json(self) -> str:
        columns = {field.name: str(field.type) for field in SCHEMAS[self.row_type]}
        content = {
            "format": JOURNAL_FORMAT,
            "version": JOURNAL_FORMAT_VERSION,
            **msgspec.to_builtins(self),
            "columns": columns,
        }
        return json.dumps(content, indent=2) + "\n"

    @staticmethod
    def read(path: Path) -> Manifest:
        """Read the manifest of a journal; raises `NoJournal` if it is missing or not supported."""
        file = path / MANIFEST
        try:
            with open(file, "rb") as opened:
                raw = opened.read(MAX_MANIFEST_BYTES)
        except FileNotFoundError:
            what = "there is no journal.json: this is not a journal" if path.is_dir() else "there is no such directory"
            raise NoJournal(str(path), what) from None
        except NotADirectoryError:
            raise NoJournal(str(path), "expected the directory of a journal, found a file") from None
        except OSError as error:
            raise NoJournal(str(file), f"cannot be read: {error.strerror or error}") from error
        try:
            return Manifest._validate(file, json.loads(raw))
        except ValueError as error:
            raise NoJournal(str(file), f"expected JSON, found something else: {error}") from None
        except RecursionError:
            raise NoJournal(str(file), "expected JSON, found something else: nested too deeply") from None

    @staticmethod
    def _validate(file: Path, content: object) -> Manifest:
        if not isinstance(content, dict) or content.get("format") != JOURNAL_FORMAT:
            raise NoJournal(str(file), f"expected the format {JOURNAL_FORMAT!r}: this is not a journal")
        version = content.get("version")
        if version != JOURNAL_FORMAT_VERSION:
            reads = f"this zenspark reads version {JOURNAL_FORMAT_VERSION}"
            problem = f"the journal has format version {version}, and {reads}"
            raise NoJournal(str(file), f"{problem}: use the zenspark that wrote it, or replay it into a new one")
        try:
            manifest = msgspec.convert(content, Manifest)
        except msgspec.ValidationError as error:
            raise NoJournal(str(file), f"not a valid manifest of a journal: {error}") from None
        if manifest.row_type not in SCHEMAS:
            raise NoJournal(str(file), f"rows: expected one of {', '.join(SCHEMAS)}, found {manifest.row_type!r}")
        expected = {field.name: str(field.type) for field in SCHEMAS[manifest.row_type]}
        columns = content.get("columns")
        if columns != expected:
            raise NoJournal(str(file), f"columns: expected {expected}, found {columns}")
        return manifest


# --- blocks -----------------------------------------------------------------------------------------------------------

BLOCK_MAGIC = b"zsB1"
_FIELDS = struct.Struct("<4sIQQqqqqI")
_CHECK = struct.Struct("<I")
_POSITION = struct.Struct("<Q")
HEADER_SIZE = _FIELDS.size + _CHECK.size
ENTRY_SIZE = _POSITION.size + HEADER_SIZE
LAST_RECEIVED_STRUCT = struct.Struct("<40xq24x")
"""Decodes only the last reception time of an entry, to search many of them."""

EMPTY_TIME_RANGE = (2**63 - 1, -(2**63))
"""Minimum and maximum of no times: any time is less than the one and greater than the other."""


class BlockHeader(NamedTuple):
    """Header of a block. Times are microseconds since 1970, minimum and maximum."""

    rows: int
    length: int
    """Bytes after the header."""
    first: int
    """Offset of its first row."""
    received: tuple[int, int]
    timestamped: tuple[int, int]
    checksum: int
    """CRC-32 of the bytes after the header."""

    @property
    def end(self) -> int:
        """Offset after its last row."""
        return self.first + self.rows

    def to_bytes(self) -> bytes:
        raw = _FIELDS.pack(
            BLOCK_MAGIC, self.rows, self.length, self.first, *self.received, *self.timestamped, self.checksum
        )
        return raw + _CHECK.pack(zlib.crc32(raw))

    @staticmethod
    def from_bytes(raw: bytes | memoryview) -> BlockHeader | None:
        """Decode a header; None if it is invalid."""
        if len(raw) != HEADER_SIZE or _CHECK.unpack_from(raw, _FIELDS.size)[0] != zlib.crc32(raw[: _FIELDS.size]):
            return None
        magic, rows, length, first, received, received_to, timestamped, timestamped_to, checksum = _FIELDS.unpack_from(
            raw
        )
        if magic != BLOCK_MAGIC:
            return None
        return BlockHeader(rows, length, first, (received, received_to), (timestamped, timestamped_to), checksum)


class IndexEntry(NamedTuple):
    """Index entry of a block."""

    position: int
    """Byte position of the block header in the segment."""
    block: BlockHeader

    @property
    def stop(self) -> int:
        """Byte position after the block."""
        return self.position + HEADER_SIZE + self.block.length

    def to_bytes(self) -> bytes:
        return _POSITION.pack(self.position) + self.block.to_bytes()

    @staticmethod
    def from_bytes(raw: bytes | memoryview) -> IndexEntry | None:
        """Decode an entry; None if it is invalid."""
        block = BlockHeader.from_bytes(raw[_POSITION.size :]) if len(raw) == ENTRY_SIZE else None
        return None if block is None else IndexEntry(_POSITION.unpack_from(raw)[0], block)
