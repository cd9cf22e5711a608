"""RotatingLog: standard error of a child process, kept in a file of bounded size."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import IO

MAX_LOG_BYTES = 8 << 20
"""Size of one file; with its predecessor a log takes at most twice as much."""
FILE_MODE, DIRECTORY_MODE = 0o640, 0o750
"""Permissions before the umask: errors may quote keys and paths, which not every user may read."""
CHUNK_BYTES = 1 << 16
TAIL_BYTES = 1 << 14
"""Bytes of the end of the log kept in memory, to report why a process ended."""


class RotatingLog:
    """Appends to a file, and moves it to `<name>.1` when it is full.

    A log must never stop the process it belongs to: output that cannot be written, as on a full disk, is dropped.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._tail = b""

    @property
    def tail(self) -> str:
        """The last output, also if it could not be written to the file."""
        return self._tail.decode(errors="replace")

    def write(self, data: bytes) -> None:
        """Append bytes."""
        with self._lock, contextlib.suppress(OSError):
            self._tail = (self._tail + data)[-TAIL_BYTES:]
            self._append(data)

    def copy(self, stream: IO[bytes]) -> None:
        """Append the content of a pipe until end of file, and close it."""
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
