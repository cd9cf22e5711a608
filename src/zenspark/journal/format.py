"""The bytes of a journal that are not Arrow: `journal.json`, the header of a block, and an entry of the index.

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

FORMAT = "zenspark journal"
VERSION = 1
MANIFEST = "journal.json"
LOCK = "writer.lock"
READERS = "readers"
FILE_MODE, DIRECTORY_MODE = 0o640, 0o750
"""Permissions of what a journal makes, less those that the umask takes away: payloads are not for every user."""
MAX_MANIFEST_BYTES = 1 << 20
"""More is no `journal.json`: a file of any size must not be read into memory."""
URI_PATTERN = re.compile("([a-z][a-z0-9+.-]+):/+")
"""How what is no path begins, also when it was taken for one: a `Path` has no two slashes in a row."""
SEGMENT, INDEX = ".segment", ".index"
OFFSET_DIGITS = 20
"""As many as the greatest offset can have, so that names sort as offsets do."""

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
"""What rows a journal may have, by the name that `journal.json` gives them."""
TIME_COLUMNS = {SAMPLES: "received_at", SESSIONS: "time", DECLARATIONS: "time", COUNTERS: "time"}
"""The column of the time by which rows are found."""


def read_schema(rows: str) -> pa.Schema:
    """The columns of rows that are read: those that were written, and where they stand."""
    return SCHEMAS[rows].append(pa.field("recorder", pa.string())).append(pa.field("offset", pa.int64()))


# --- files ------------------------------------------------------------------------------------------------------------


def journal_directory(path: str | os.PathLike[str]) -> Path:
    """The directory of a journal. It is on this machine: what is acknowledged has been written to a disk."""
    scheme = URI_PATTERN.match(str(path))
    if scheme is not None:
        text = f"{scheme[1]}://{str(path)[scheme.end() :]}"
        raise UsageError(f"{text}: a journal is a directory on this machine; only a lake can be elsewhere")
    if "\0" in str(path):
        raise UsageError(f"{str(path)!r}: the path of a journal cannot contain a null character")
    return Path(path)


def write_file(path: Path, text: str) -> None:
    """Write a small file, with the permissions of a journal."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        data = memoryview(text.encode())
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)


def segment_file(path: Path, first: int) -> Path:
    return path / f"{first:0{OFFSET_DIGITS}}{SEGMENT}"


def index_file(path: Path, first: int) -> Path:
    return path / f"{first:0{OFFSET_DIGITS}}{INDEX}"


def parse_offset(name: str, suffix: str) -> int | None:
    """The offset that a file is named after, None if it is another file."""
    stem = name.removesuffix(suffix)
    return int(stem) if stem != name and len(stem) == OFFSET_DIGITS and stem.isascii() and stem.isdigit() else None


class Manifest(msgspec.Struct, frozen=True):
    """What `journal.json` says."""

    recorder: str
    rows: str
    created: str

    @staticmethod
    def new(recorder: str, rows: str) -> Manifest:
        return Manifest(recorder, rows, datetime.now(UTC_ZONE).isoformat(timespec="seconds"))

    def to_json(self) -> str:
        columns = {field.name: str(field.type) for field in SCHEMAS[self.rows]}
        known = {"format": FORMAT, "version": VERSION, **msgspec.to_builtins(self), "columns": columns}
        return json.dumps(known, indent=2) + "\n"

    @staticmethod
    def read(path: Path) -> Manifest:
        """Of the journal in a directory; raises `NoJournal` if there is none that this version can use."""
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
            return Manifest._checked(file, json.loads(raw))
        except ValueError as error:
            raise NoJournal(str(file), f"expected JSON, found something else: {error}") from None
        except RecursionError:
            raise NoJournal(str(file), "expected JSON, found something else: nested too deeply") from None

    @staticmethod
    def _checked(file: Path, known: object) -> Manifest:
        if not isinstance(known, dict) or known.get("format") != FORMAT:
            raise NoJournal(str(file), f"expected the format {FORMAT!r}: this is not a journal")
        version = known.get("version")
        if version != VERSION:
            problem = f"the journal has format version {version}, and this zenspark reads version {VERSION}"
            raise NoJournal(str(file), f"{problem}: use the zenspark that wrote it, or replay it into a new one")
        try:
            manifest = msgspec.convert(known, Manifest)
        except msgspec.ValidationError as error:
            raise NoJournal(str(file), f"not what a journal says of itself: {error}") from None
        if manifest.rows not in SCHEMAS:
            raise NoJournal(str(file), f"rows: expected one of {', '.join(SCHEMAS)}, found {manifest.rows!r}")
        expected = {field.name: str(field.type) for field in SCHEMAS[manifest.rows]}
        found = known.get("columns")
        if found != expected:
            raise NoJournal(str(file), f"columns: expected {expected}, found {found}")
        return manifest


# --- blocks -----------------------------------------------------------------------------------------------------------

MAGIC = b"zsB1"
_FIELDS = struct.Struct("<4sIQQqqqqI")
_CHECK = struct.Struct("<I")
_POSITION = struct.Struct("<Q")
HEADER_SIZE = _FIELDS.size + _CHECK.size
ENTRY_SIZE = _POSITION.size + HEADER_SIZE
LAST_RECEIVED_STRUCT = struct.Struct("<40xq24x")
"""Of an entry only the greatest time of reception, to look at many."""

EMPTY_TIME_RANGE = (2**63 - 1, -(2**63))
"""The least and greatest time of no rows at all: any time is less than the one and greater than the other."""


class BlockHeader(NamedTuple):
    """What the header of a block says. Times are microseconds since 1970, the least and the greatest."""

    rows: int
    length: int
    """Bytes behind the header."""
    first: int
    """The offset of its first row."""
    received: tuple[int, int]
    stamped: tuple[int, int]
    checksum: int
    """Of the bytes behind the header."""

    @property
    def end(self) -> int:
        """The offset behind its last row."""
        return self.first + self.rows

    def to_bytes(self) -> bytes:
        raw = _FIELDS.pack(MAGIC, self.rows, self.length, self.first, *self.received, *self.stamped, self.checksum)
        return raw + _CHECK.pack(zlib.crc32(raw))

    @staticmethod
    def from_bytes(raw: bytes | memoryview) -> BlockHeader | None:
        """None if these bytes are not a header that was written."""
        if len(raw) != HEADER_SIZE or _CHECK.unpack_from(raw, _FIELDS.size)[0] != zlib.crc32(raw[: _FIELDS.size]):
            return None
        magic, rows, length, first, received, received_to, stamped, stamped_to, checksum = _FIELDS.unpack_from(raw)
        if magic != MAGIC:
            return None
        return BlockHeader(rows, length, first, (received, received_to), (stamped, stamped_to), checksum)


class IndexEntry(NamedTuple):
    """One block as the index has it."""

    position: int
    """Where its header starts."""
    block: BlockHeader

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.position + HEADER_SIZE + self.block.length

    def to_bytes(self) -> bytes:
        return _POSITION.pack(self.position) + self.block.to_bytes()

    @staticmethod
    def from_bytes(raw: bytes | memoryview) -> IndexEntry | None:
        """None if these bytes are not an entry that was written."""
        block = BlockHeader.from_bytes(raw[_POSITION.size :]) if len(raw) == ENTRY_SIZE else None
        return None if block is None else IndexEntry(_POSITION.unpack_from(raw)[0], block)
