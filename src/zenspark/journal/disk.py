"""DiskAlarm: warns before the disk of a journal is full."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

logger = logging.getLogger("zenspark.journal")

DISK_CHECK_INTERVAL_SECONDS = 5.0
"""Seconds between two checks of the disk."""
MIN_FREE_BLOCKS = 3
"""Number of largest blocks for which there must be free space; less raises the alarm."""
MIN_FREE_SHARE = 0.05
"""Share of the disk that must be free if that is more than the blocks, up to `MAX_REQUIRED_FREE_BYTES`."""
MAX_REQUIRED_FREE_BYTES = 1 << 30
"""Upper limit of `MIN_FREE_SHARE`: a large disk would raise the alarm days before it is full."""
ALARM_CLEAR_FACTOR = 1.1
"""Multiple of the required space that must be free for the alarm to clear (hysteresis)."""


class DiskAlarm:
    """Whether free space for a journal is low; logs one line when that changes."""

    def __init__(self, path: Path, flush_bytes: int) -> None:
        self.warning: str | None = None
        """Warning with the free space; None if it is not low."""
        self._path = path
        self._flush_bytes = flush_bytes
        self._check_at = 0.0

    def check(self, now: float) -> None:
        """Check the disk if it is due; `now` is monotonic."""
        if now < self._check_at:
            return
        self._check_at = now + DISK_CHECK_INTERVAL_SECONDS
        try:
            total, _, free = shutil.disk_usage(self._path)
        except OSError:  # the next write reports it
            return
        required = max(MIN_FREE_BLOCKS * self._flush_bytes, min(MIN_FREE_SHARE * total, MAX_REQUIRED_FREE_BYTES))
        was_low = self.warning is not None
        is_low = free < required * (ALARM_CLEAR_FACTOR if was_low else 1)
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
