"""Readers of a journal and how far they have come: one small file for each, replaced as a whole.

Readers write them, in any process; the writer, which trims the journal, reads them. A reader whose file has not been
written for long is taken for gone, and no longer holds back trimming.
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
from zenspark.journal.format import DIRECTORY_MODE, READERS, write_file

logger = logging.getLogger("zenspark.journal")

SUFFIX = ".json"
MIN_EXPIRY_WATCH_SECONDS = 60.0
"""How long a reader is watched before it expires: one that had nothing to read for long, or all if the clock was set
forward, commit meanwhile."""


class AttachedReader(NamedTuple):
    """An attached reader."""

    name: str
    offset: int
    """It needs nothing before this one."""
    updated: float
    """When it said so, in seconds since 1970."""
    description: str | None = None


class ReaderOffsets:
    """The readers of the journal in a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path / READERS

    def write(self, reader: str, offset: int, description: str | None = None) -> None:
        """Note how far a reader has come, now; without a description it keeps the one it has."""
        if offset < 0:
            raise UsageError(f"reader {reader}: expected an offset, found {offset}")
        file = self._file(reader)
        if description is None:
            description = _read_description(file)
        known = {"offset": offset, "updated": round(time.time(), 3), "description": description}
        text = json.dumps({name: value for name, value in known.items() if value is not None}) + "\n"
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
            _overwrite(file, text)  # or else nothing could be trimmed, and the disk would stay full

    def refresh(self, reader: str) -> None:
        """Note that a reader is still there, though it has come no further; nothing if it is not attached."""
        known = self.get(reader)
        if known is not None:
            self.write(reader, known.offset, known.description)

    def get(self, reader: str) -> AttachedReader | None:
        """A reader, None if it is not attached."""
        file = self._file(reader)
        try:
            with read_errors(file):
                known = json.loads(file.read_bytes())
                changed = file.stat().st_mtime
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            known = None
        offset = known.get("offset") if isinstance(known, dict) else None
        if not isinstance(offset, int):
            raise JournalError(str(file), 'expected {"offset": number}: remove the file if the reader is gone')
        updated, description = known.get("updated"), known.get("description")
        return AttachedReader(
            reader,
            offset,
            float(updated) if isinstance(updated, int | float) else changed,
            description if isinstance(description, str) else None,
        )

    def read(self, reader: str) -> int | None:
        """How far a reader has come, None if it is not attached."""
        known = self.get(reader)
        return None if known is None else known.offset

    def names(self) -> list[str]:
        """All attached readers, by name; also those whose file cannot be read."""
        try:
            with read_errors(self._path):
                found = os.listdir(self._path)
        except FileNotFoundError:
            return []
        files = sorted(name for name in found if name.endswith(SUFFIX) and not name.startswith("."))
        return [unquote(file.removesuffix(SUFFIX)) for file in files]

    def readers(self) -> list[AttachedReader]:
        """All attached readers, by name."""
        return [known for known in map(self.get, self.names()) if known is not None]

    def offsets(self) -> dict[str, int]:
        """How far each reader has come."""
        return {known.name: known.offset for known in self.readers()}

    def min_offset(self) -> int | None:
        """The offset before which all attached readers have committed everything, None if there are none."""
        return min(self.offsets().values(), default=None)

    def remove(self, reader: str) -> None:
        """Forget a reader."""
        with write_errors(self._path):
            self._file(reader).unlink(missing_ok=True)

    def _file(self, reader: str) -> Path:
        if not reader:
            raise UsageError("the name of a reader must not be empty")
        try:
            name = quote(reader, safe="").replace(".", "%2E")
        except UnicodeEncodeError:
            raise UsageError(f"the name of a reader must be text, found {reader!r}") from None
        return self._path / f"{name}{SUFFIX}"


class ReaderExpiry:
    """Detaches readers that are behind and have not been heard of for so many seconds, in the process that trims."""

    def __init__(self, path: Path, seconds: float | None) -> None:
        self._path = path
        self._commits = ReaderOffsets(path)
        self._seconds = seconds
        self._watched: dict[AttachedReader, float] = {}
        """Readers that are behind, and since when they have been found so, by the monotonic clock."""

    def expire(self, end: int, now: float, monotonic: float) -> None:
        """Look at all readers of a journal that ends at an offset."""
        if self._seconds is None:
            return
        behind = [known for known in self._commits.readers() if known.offset < end]
        self._watched = {known: self._watched.get(known, monotonic) for known in behind}
        least = min(self._seconds, MIN_EXPIRY_WATCH_SECONDS)
        for known, since in list(self._watched.items()):
            is_silent = now - known.updated >= self._seconds and monotonic - since >= least
            if is_silent and self._commits.get(known.name) == known:
                self._commits.remove(known.name)
                logger.warning(
                    "%s: reader %s at offset %d has not committed for %.0f s and is detached: nothing is kept for it",
                    self._path,
                    known.name,
                    known.offset,
                    now - known.updated,
                )


def _read_description(file: Path) -> str | None:
    """The description in a file of a reader, None if there is none or it cannot be read."""
    try:
        found = json.loads(file.read_bytes()).get("description")
    except (OSError, ValueError, RecursionError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def _overwrite(file: Path, text: str) -> None:
    """Write over a small file where it lies, for which no space is needed; blanks follow if it was longer."""
    opened = os.open(file, os.O_WRONLY)
    try:
        data = text.encode()
        os.write(opened, data.ljust(os.fstat(opened).st_size))
    finally:
        os.close(opened)
