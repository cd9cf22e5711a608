"""Vacuum: deletes files that no version of a table within its history refers to."""

from __future__ import annotations

import math
from datetime import timedelta

from deltalake.exceptions import DeltaError

from zenspark.errors import LakeError
from zenspark.lake.delta_table import LakeTable, to_one_line


def vacuum(table: LakeTable, retention: timedelta | None = None, *, full: bool = False) -> int:
    """Delete files that were removed from the table longer ago than `retention`. Returns their number.

    None is the history of the table (`LakeTable.set_history`); other values are rounded up to whole hours. With `full`
    all files in storage are listed, so that files that were written and never committed are deleted, too.
    """
    if not table.exists:
        return 0
    hours = None if retention is None else math.ceil(retention.total_seconds() / 3600)
    try:
        deleted = table.to_deltalake().vacuum(hours, dry_run=False, enforce_retention_duration=False, full=full)
    except (OSError, DeltaError) as error:
        raise LakeError(table.location.address, to_one_line(error)) from error
    return len(deleted)
