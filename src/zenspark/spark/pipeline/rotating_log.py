"""RotatingLog: what a child process writes to its standard error, kept in a file of bounded size."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import IO

MAX_LOG_BYTES = 8 << 20
"""Of one file; with its predecessor a log takes twice as much at most."""
FILE_MODE, DIRECTORY_MODE = 0o640, 0o750
"""Less what the umask takes away: errors may quote keys and paths, which are not for every user."""
CHUNK_BYTES = 1 << 16
TAIL_BYTES = 1 << 14
"""Of the end that is kept in memory, for those who want to know why a process ended."""


class RotatingLog:
    """Appends to a file, and moves it to `<name>.1` when it is full.

    A log must never stop what it tells of: what cannot be written, as on a full disk, is dropped.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._tail = b""

    @property
    def tail(self) -> str:
        """What was written last, also if the file could not be."""
        return self._tail.decode(errors="replace")

    def write(self, data: bytes) -> None:
        """Append bytes."""
        with self._lock, contextlib.suppress(OSError):
            self._tail = (self._tail + data)[-TAIL_BYTES:]
            self._append(data)

    def copy(self, stream: IO[bytes]) -> None:
        """Append what a pipe brings until it ends, and close it."""
        with stream:
            while data := os.read(stream.fileno(), CHUNK_BYTES):
                self.write(data)

    def _append(self, data: bytes) -> None:
        self.path.parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size + len(data) > self._max_bytes:
            os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
        try:
            os.write(file, data)
        finally:
            os.close(file)
