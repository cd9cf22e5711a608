"""Committed offsets of the readers of a journal: one small file per reader, replaced atomically.

Readers write them, in any process; the writer, which trims the journal, reads them. A reader that is behind the end and
has not written its file for long expires: the writer detaches it, so that it no longer prevents trimming.
"""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from zenspark.errors import JournalError, UsageError
from zenspark.journal.failures import DISK_FULL, read_errors, write_errors
from zenspark.journal.format import DIRECTORY_MODE, READERS_DIRECTORY, write_file

logger = logging.getLogger("zenspark.journal")

READER_SUFFIX = ".json"
MIN_EXPIRY_WATCH_SECONDS = 60.0
"""Seconds for which a reader must be seen behind the end before it expires: one that had nothing to read for long, or
all readers if the clock was set forward, can commit meanwhile."""


class AttachedReader(NamedTuple):
    """A reader that is attached to a journal.

    Attributes:
        name: Name of the reader.
        offset: Committed offset: the reader needs no rows before it.
        updated: Time of the last commit or refresh, in seconds since 1970.
        description: Text for operators; None without.

    Example:
        >>> journal.commit("export", 3, "nightly export")
        >>> journal.attached()[0].description
        'nightly export'
    """

    name: str
    offset: int
    updated: float
    description: str | None = None


class ReaderOffsets:
    """Committed offsets of the readers of a journal."""

    def __init__(self, path: Path) -> None:
        self._path = path / READERS_DIRECTORY

    def write(self, reader: str, offset: int, description: str | None = None) -> None:
        """Commit the offset of a reader; without a description it keeps the previous one."""
        if offset < 0:
            raise UsageError(f"reader {reader}: expected an offset, found {offset}")
        file = self._file(reader)
        if description is None:
            description = _read_description(file)
        registration = {"offset": offset, "updated": round(time.time(), 3), "description": description}
        text = json.dumps({name: value for name, value in registration.items() if value is not None}) + "\n"
        with write_errors(self._path):
            self._path.mkdir(DIRECTORY_MODE, exist_ok=True)
            self._replace(file, text)

    def _replace(self, file: Path, text: str) -> None:
        draft = file.with_name(f".{uuid.uuid4().hex}")
        try:
            write_file(draft, text)
            os.replace(draft, file)
        except OSError as error:
            draft.unlink(missing_ok=True)
            if error.errno not in DISK_FULL or not file.exists():
                raise
            _overwrite(file, text)  # otherwise nothing could be trimmed, and the disk would stay full

    def touch(self, reader: str) -> None:
        """Update the time of a reader without a new offset; does nothing if it is not attached."""
        registration = self.get(reader)
        if registration is not None:
            self.write(reader, registration.offset, registration.description)

    def get(self, reader: str) -> AttachedReader | None:
        """Read the registration of a reader; None if it is not attached."""
        file = self._file(reader)
        try:
            with read_errors(file):
                registration = json.loads(file.read_bytes())
                changed = file.stat().st_mtime
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            registration = None
        offset = registration.get("offset") if isinstance(registration, dict) else None
        if not isinstance(offset, int):
            raise JournalError(str(file), 'expected {"offset": number}: remove the file if the reader is gone')
        updated, description = registration.get("updated"), registration.get("description")
        return AttachedReader(
            reader,
            offset,
            float(updated) if isinstance(updated, int | float) else changed,
            description if isinstance(description, str) else None,
        )

    def read(self, reader: str) -> int | None:
        """Committed offset of a reader; None if it is not attached."""
        registration = self.get(reader)
        return None if registration is None else registration.offset

    def names(self) -> list[str]:
        """Names of all attached readers, sorted, including those whose file cannot be read."""
        try:
            with read_errors(self._path):
                names = os.listdir(self._path)
        except FileNotFoundError:
            return []
        files = sorted(name for name in names if name.endswith(READER_SUFFIX) and not name.startswith("."))
        return [unquote(file.removesuffix(READER_SUFFIX)) for file in files]

    def readers(self) -> list[AttachedReader]:
        """All attached readers, sorted by name."""
        return [registration for registration in map(self.get, self.names()) if registration is not None]

    def offsets(self) -> dict[str, int]:
        """Committed offset of each reader."""
        return {registration.name: registration.offset for registration in self.readers()}

    def min_offset(self) -> int | None:
        """Lowest committed offset of all attached readers; None if there are none."""
        return min(self.offsets().values(), default=None)

    def detach(self, reader: str) -> None:
        """Detach a reader, by removing its file."""
        with write_errors(self._path):
            self._file(reader).unlink(missing_ok=True)

    def _file(self, reader: str) -> Path:
        if not reader:
            raise UsageError("the name of a reader must not be empty")
        try:
            name = quote(reader, safe="").replace(".", "%2E")
        except UnicodeEncodeError:
            raise UsageError(f"the name of a reader must be text, found {reader!r}") from None
        return self._path / f"{name}{READER_SUFFIX}"


class ReaderExpiry:
    """Detaches readers that are behind the end and have not committed for `seconds`; runs in the writer process."""

    def __init__(self, path: Path, seconds: float | None) -> None:
        self._path = path
        self._offsets = ReaderOffsets(path)
        self._seconds = seconds
        self._watched: dict[AttachedReader, float] = {}
        """Readers behind the end, and the monotonic time since which each was seen in this state."""

    def expire(self, end: int, now: float, monotonic: float) -> None:
        """Detach the readers that have expired; `end` is the end offset of the journal."""
        if self._seconds is None:
            return
        behind = [reader for reader in self._offsets.readers() if reader.offset < end]
        self._watched = {reader: self._watched.get(reader, monotonic) for reader in behind}
        min_watch = min(self._seconds, MIN_EXPIRY_WATCH_SECONDS)
        for reader, since in list(self._watched.items()):
            is_expired = now - reader.updated >= self._seconds and monotonic - since >= min_watch
            if is_expired and self._offsets.get(reader.name) == reader:
                self._offsets.detach(reader.name)
                logger.warning(
                    "%s: detached reader %s at offset %d: no commit for %.0f s, its unread rows may be trimmed",
                    self._path,
                    reader.name,
                    reader.offset,
                    now - reader.updated,
                )


def _read_description(file: Path) -> str | None:
    """Read the description in a reader's file; None if there is none or it cannot be read."""
    try:
        description = json.loads(file.read_bytes()).get("description")
    except (OSError, ValueError, RecursionError, AttributeError):
        return None
    return description if isinstance(description, str) else None


def _overwrite(file: Path, text: str) -> None:
    """Overwrite a small file in place, which needs no free space; pads with blanks if it was longer."""
    opened = os.open(file, os.O_WRONLY)
    try:
        data = text.encode()
        os.write(opened, data.ljust(os.fstat(opened).st_size))
    finally:
        os.close(opened)
