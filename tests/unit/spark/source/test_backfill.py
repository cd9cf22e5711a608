from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.interop.reference import ours, unused
from tests.unit.spark.journaled import journal
from zenspark.api.open import open as open_session
from zenspark.journal import Journal
from zenspark.spark.source import backfill as module
from zenspark.spark.source.backfill import backfill, missing_time_range, newest_timestamp
from zenspark.types.query import Query
from zenspark.types.sample import Sample


def test_missing_time_range_starts_after_the_newest_timestamp(tmp_path: Path) -> None:
    empty, full = Journal(journal(tmp_path / "a", 0)), Journal(journal(tmp_path / "b", 250))
    assert newest_timestamp(empty) is None
    assert missing_time_range(empty, "true") == "[..]"
    assert missing_time_range(empty, "now(-1h)") == "[now(-1h)..]"
    assert newest_timestamp(full) == 1_700_000_000_249_000
    assert missing_time_range(full, "now(-1h)") == "[2023-11-14T22:13:20.249001Z..]"


def test_replies_reach_the_subscribers_of_this_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_BACKFILL_BATCH_ROWS", 2)
    endpoint, received, selectors = unused(), list[Sample](), list[str]()

    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as network:
        stamps = [network.new_timestamp() for _ in range(5)]

        def on_query(query: Query) -> None:
            selectors.append(str(query.selector))
            for number, stamp in enumerate(stamps):
                query.reply("a/x", f"value {number}", timestamp=stamp, attachment="note")
            query.reply_err("no\n\x1b[31mmore " + "x" * 100_000)

        network.declare_queryable("a/**", on_query)
        network.declare_subscriber("a/**", lambda sample: pytest.fail(f"{sample} left the session"))
        with open_session(ours(mode="client", connect__endpoints=[endpoint])) as session:
            session.declare_subscriber("a/*", received.append)
            with caplog.at_level(logging.WARNING):
                assert backfill(session, ["a/*", "b/*"], "[now(-1h)..]") == 5
        replier = network.zid()
    assert selectors == ["a/*?_time=[now(-1h)..]"]
    assert [(each.payload.to_string(), each.timestamp) for each in received] == [
        (f"value {number}", stamp) for number, stamp in enumerate(stamps)
    ]
    assert all(each.attachment is not None for each in received)
    assert [record.getMessage() for record in caplog.records if record.name == "zenspark.spark"] == [
        f"backfill of a/*?_time=[now(-1h)..] failed: error reply from {replier}: no [31mmore {'x' * 187}…"
    ]
