"""Vacuum: removes files from disk that no version of a table within its history refers to."""

from __future__ import annotations

import math
from datetime import timedelta

from deltalake.exceptions import DeltaError

from zenspark.errors import LakeError
from zenspark.lake.delta_table import LakeTable, to_one_line


def vacuum(table: LakeTable, retention: timedelta | None = None, *, full: bool = False) -> int:
    """Remove files from disk that have been out of the table for so long; how many.

    None is the history of the table (`LakeTable.set_history`); other times are rounded up to whole hours. With `full` all
    files of the table are listed, so that what was written and never committed goes, too.
    """
    if not table.exists:
        return 0
    hours = None if retention is None else math.ceil(retention.total_seconds() / 3600)
    try:
        gone = table.delta().vacuum(hours, dry_run=False, enforce_retention_duration=False, full=full)
    except (OSError, DeltaError) as error:
        raise LakeError(table.location.address, to_one_line(error)) from error
    return len(gone)
