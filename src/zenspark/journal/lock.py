"""JournalLock: exclusive lock of a journal's writer.

Two files are locked. `writer.lock` has the process id, for the error message of another writer. Operators may delete it
as a supposed left-over; so `journal.json` is locked as well, without which the journal cannot be opened.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from pathlib import Path

from zenspark.errors import JournalError, JournalLocked
from zenspark.journal.failures import write_errors
from zenspark.journal.format import FILE_MODE, LOCK_FILE, MANIFEST

logger = logging.getLogger("zenspark.journal")

if sys.platform == "win32":
    import msvcrt

    def _lock_file(file: int) -> None:
        os.lseek(file, 1 << 20, os.SEEK_SET)  # beyond the content, which other processes may read
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock_file(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


LOCKED_ERRORS = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
MAX_PID_BYTES = 20


class JournalLock:
    """Exclusive write access to a journal, until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._manifest: int | None = None
        with write_errors(path):
            self._file = self._open_locked(LOCK_FILE, os.O_CREAT)

    def lock_manifest(self) -> None:
        """Lock `journal.json`, once it exists, and write the process id to the lock file."""
        with write_errors(self._path):
            self._manifest = self._open_locked(MANIFEST)
            self._write_pid()

    def check(self) -> None:
        """Verify that the locked files are still those of the journal; to be called before each write.

        A deleted lock file is created again. Raises `JournalLocked` if another process has locked it meanwhile, and
        `JournalError` if `journal.json` is another file: the journal was removed, moved or replaced.
        """
        if self._manifest is not None and not _is_at(self._path / MANIFEST, self._manifest):
            problem = "was removed, moved or replaced while this process writes the journal: nothing more is written"
            raise JournalError(str(self._path / MANIFEST), problem)
        if not _is_at(self._path / LOCK_FILE, self._file):
            with write_errors(self._path):
                removed, self._file = self._file, self._open_locked(LOCK_FILE, os.O_CREAT)
                os.close(removed)
                self._write_pid()
            logger.warning(
                "%s: lock file was removed while process %d writes the journal; created again",
                self._path / LOCK_FILE,
                os.getpid(),
            )

    def release(self) -> None:
        os.close(self._file)
        if self._manifest is not None:
            os.close(self._manifest)
            self._manifest = None

    def _open_locked(self, name: str, flags: int = 0) -> int:
        file = os.open(self._path / name, os.O_RDWR | flags, FILE_MODE)
        try:
            _lock_file(file)
        except OSError as error:
            holder = _read_pid(file) if name == LOCK_FILE else None
            os.close(file)
            if error.errno in LOCKED_ERRORS:
                raise JournalLocked(str(self._path), holder) from None
            raise JournalError(str(self._path / name), f"cannot be locked: {error.strerror}") from error
        return file

    def _write_pid(self) -> None:
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, f"{os.getpid()}\n".encode())


def _read_pid(file: int) -> int | None:
    os.lseek(file, 0, os.SEEK_SET)
    content = os.read(file, MAX_PID_BYTES).strip()
    return int(content) if content.isdigit() else None


def _is_at(path: Path, file: int) -> bool:
    """Return whether a path refers to an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except OSError:
        return False
