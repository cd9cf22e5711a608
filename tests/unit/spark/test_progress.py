from __future__ import annotations

import json
from typing import Any

import pytest

from zenspark.spark.progress import offsets_behind_latest


def progress(end: object, latest: object) -> dict[str, Any]:
    return {"sources": [{"endOffset": end, "latestOffset": latest, "metrics": {}}]}


def test_offsets_behind_latest_count_rows_recorded_since() -> None:
    end, latest = {"a": 100, "b": 50, "@reader": 7}, {"a": 100, "b": 80, "c": 15}
    expected = {"avgOffsetsBehindLatest": 15.0, "maxOffsetsBehindLatest": 30, "minOffsetsBehindLatest": 0}
    assert offsets_behind_latest(progress(json.dumps(end), json.dumps(latest))) == expected
    assert offsets_behind_latest(progress(end, latest)) == expected
    assert offsets_behind_latest(json.dumps(progress(end, latest))) == expected


def test_end_offset_after_latest_is_0_behind() -> None:
    found = offsets_behind_latest(progress({"a": 100}, {"a": 90}))
    assert found == {"avgOffsetsBehindLatest": 0.0, "maxOffsetsBehindLatest": 0, "minOffsetsBehindLatest": 0}


@pytest.mark.parametrize("latest", [None, "null", "17", '{"topic": {"0": 5}}', "-", "[1]"])
def test_offsets_of_other_sources_are_ignored(latest: str | None) -> None:
    assert offsets_behind_latest(progress("{}", latest)) == {}


def test_no_progress_gives_no_lag_metrics() -> None:
    assert offsets_behind_latest(None) == {}
    assert offsets_behind_latest({"sources": []}) == {}
