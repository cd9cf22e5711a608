"""Only one process writes a journal: a lock on a file that also says who."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from zenspark.errors import JournalLocked
from zenspark.journal.layout import LOCK

if sys.platform == "win32":
    import msvcrt

    def _take(file: int) -> None:
        os.lseek(file, 1 << 20, os.SEEK_SET)  # far behind what the file says, which others may read
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Lock:
    """Held until it is released, or its process ends in any way."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _take(self._file)
        except OSError:
            os.lseek(self._file, 0, os.SEEK_SET)
            said = os.read(self._file, 20).strip()
            os.close(self._file)
            raise JournalLocked(str(path), int(said) if said.isdigit() else None) from None
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        os.close(self._file)
