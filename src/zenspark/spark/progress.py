"""Consumer lag in offsets, as Kafka's source reports it, computed from the progress of a streaming query.

Spark's Kafka source has it in `sources[].metrics`. A Python data source cannot report metrics in Spark 4.3, but the
offsets in a progress contain the same information:

    offsets_behind_latest(query.lastProgress)
    {'avgOffsetsBehindLatest': 1250.0, 'maxOffsetsBehindLatest': 2000, 'minOffsetsBehindLatest': 500}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from zenspark.spark.options import READER_ENTRY


def offsets_behind_latest(progress: Mapping[str, Any] | str | None) -> dict[str, float]:
    """Compute the average, maximum and minimum number of unread rows per recorder.

    With several streams of format zenoh, the recorders of all of them count; other sources are ignored.

    Args:
        progress: `query.lastProgress`, one of `query.recentProgress`, the progress that a listener gets, or any of them
            as JSON; None before the first progress.

    Returns:
        The numbers by the names that Spark's Kafka source has for them; empty if they are not known.

    Raises:
        ValueError: The text is no JSON.

    Example:
        >>> progress = {"sources": [{"endOffset": {"robot": 10}, "latestOffset": {"robot": 14}}]}
        >>> offsets_behind_latest(progress)
        {'avgOffsetsBehindLatest': 4.0, 'maxOffsetsBehindLatest': 4, 'minOffsetsBehindLatest': 4}
    """
    parsed = json.loads(progress) if isinstance(progress, str) else progress or {}
    behind = [rows for source in parsed.get("sources") or () for rows in _rows_behind(source)]
    if not behind:
        return {}
    return {
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
        "maxOffsetsBehindLatest": max(behind),
        "minOffsetsBehindLatest": min(behind),
    }


def _rows_behind(source: Mapping[str, Any]) -> Iterator[int]:
    end, latest = (_parse_offset(source.get(name)) for name in ("endOffset", "latestOffset"))
    for recorder, offset in latest.items():
        if recorder != READER_ENTRY:
            yield max(offset - end.get(recorder, 0), 0)


def _parse_offset(value: object) -> dict[str, int]:
    """Parse an offset of format zenoh, from JSON or a dictionary; empty for other sources."""
    try:
        offsets = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    if isinstance(offsets, dict) and all(isinstance(offset, int) for offset in offsets.values()):
        return offsets
    return {}
