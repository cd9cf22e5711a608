"""The lag of a query, from its progress.

Spark's Kafka source has it in `sources[].metrics`; a source in Python has no way to report metrics in Spark 4.3, nor a
`description` of its own, but the offsets in a progress say the same:

    offsets_behind_latest(query.lastProgress)
    {'avgOffsetsBehindLatest': 1250.0, 'maxOffsetsBehindLatest': 2000, 'minOffsetsBehindLatest': 500}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from zenspark.spark.options import READER_ENTRY


def offsets_behind_latest(progress: Mapping[str, Any] | str | None) -> dict[str, float]:
    """How many rows the recorders have behind the end of a batch: on average, at most, at least; empty if unknown.

    Takes `query.lastProgress`, one of `query.recentProgress`, the progress that a listener gets, or any of them as
    JSON. In a query with several streams of format zenoh the recorders of all of them count; other sources do not.
    """
    given = json.loads(progress) if isinstance(progress, str) else progress or {}
    behind = [rows for source in given.get("sources") or () for rows in _behind(source)]
    if not behind:
        return {}
    return {
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
        "maxOffsetsBehindLatest": max(behind),
        "minOffsetsBehindLatest": min(behind),
    }


def _behind(source: Mapping[str, Any]) -> Iterator[int]:
    end, latest = (_offset(source.get(name)) for name in ("endOffset", "latestOffset"))
    for recorder, offset in latest.items():
        if recorder != READER_ENTRY:
            yield max(offset - end.get(recorder, 0), 0)


def _offset(given: object) -> dict[str, int]:
    """An offset of format zenoh, from JSON or as it was read; empty if it is another's."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return {}
    if isinstance(found, dict) and all(isinstance(offset, int) for offset in found.values()):
        return found
    return {}
