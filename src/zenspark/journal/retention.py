"""What is removed from a journal: whole segments from its beginning, never the one that is written."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

from zenspark.journal.commits import Commits
from zenspark.journal.layout import SEGMENT, index_file, segment_file
from zenspark.journal.policy import Policy
from zenspark.journal.segment import Index, listed

logger = logging.getLogger("zenspark.journal")


def trim(path: Path, policy: Policy, now: float) -> int:
    """Remove what the policy does not keep; the number of rows removed.

    Segments go from the oldest on, until one is to be kept.
    """
    if policy.retain_age is None and policy.retain_bytes is None:
        return 0
    segments = listed(path)
    sizes = {first: _size(path, first) for first in segments}
    needed = None if policy.trim_unread else min(Commits(path).all().values(), default=None)
    total, removed = sum(sizes.values()), 0
    for first, end in pairwise(segments):
        if needed is not None and end > needed:
            break
        is_large = policy.retain_bytes is not None and total > policy.retain_bytes
        if not is_large and not _is_old(path, first, policy, now):
            break
        remove(path, first)
        total -= sizes[first]
        removed += end - first
    if removed:
        logger.info("%s: removed the oldest %d rows", path, removed)
    return removed


def _size(path: Path, first: int) -> int:
    return segment_file(path, first).stat().st_size + index_file(path, first).stat().st_size


def _is_old(path: Path, first: int, policy: Policy, now: float) -> bool:
    if policy.retain_age is None:
        return False
    with Index(path, first) as index:
        newest = index.entry(index.count - 1).block.received[1] if index.count else 0
    return newest < (now - policy.retain_age) * 1e6


def remove(path: Path, first: int) -> None:
    """Remove a segment; its index goes first, because what has no index is not there for anybody."""
    index_file(path, first).unlink()
    segment_file(path, first).unlink(missing_ok=True)


def remove_orphans(path: Path) -> None:
    """Segments whose index is gone: somebody was about to remove them, or had just begun to write them."""
    for first in set(listed(path, SEGMENT)) - set(listed(path)):
        segment_file(path, first).unlink(missing_ok=True)
