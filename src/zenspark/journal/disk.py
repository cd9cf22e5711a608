"""Disk: tells in time that the disk below a journal is going to be full."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

logger = logging.getLogger("zenspark.journal")

CHECK_SECONDS = 5.0
"""Between two looks at the disk."""
RESERVE_FLUSHES = 3
"""So many of the largest blocks must still fit,"""
RESERVE_SHARE = 0.05
"""or this share of the disk, if that is more,"""
MAX_RESERVE_BYTES = 1 << 30
"""but no more than this: large disks would raise the alarm days before they are full."""
CLEAR_FACTOR = 1.1
"""How many times the reserve must be free for the alarm to end: around the limit it would come and go."""


class DiskAlarm:
    """Whether little space is left for a journal; one line in the log when that changes."""

    def __init__(self, path: Path, flush_bytes: int) -> None:
        self.warning: str | None = None
        """Says how much is left, if that is little."""
        self._path = path
        self._flush_bytes = flush_bytes
        self._check_at = 0.0

    def check(self, now: float) -> None:
        """Look at the disk if it is time; `now` is monotonic."""
        if now < self._check_at:
            return
        self._check_at = now + CHECK_SECONDS
        try:
            total, _, free = shutil.disk_usage(self._path)
        except OSError:  # of which writing tells more
            return
        reserve = max(RESERVE_FLUSHES * self._flush_bytes, min(RESERVE_SHARE * total, MAX_RESERVE_BYTES))
        was_low = self.warning is not None
        is_low = free < reserve * (CLEAR_FACTOR if was_low else 1)
        self.warning = f"low disk space: {_format_size(free)} of {_format_size(total)} left" if is_low else None
        if is_low and not was_low:
            logger.warning("%s: %s", self._path, self.warning)
        elif was_low and not is_low:
            logger.warning("%s: enough disk space again: %s left", self._path, _format_size(free))


def _format_size(size: int) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size} {unit}"
        size //= 1000
    return f"{size} TB"
