"""Replies are consolidated as requested and ended once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from zenspark.engine.reply_collector import TIMEOUT_ERROR, ReplyCollector, make_reply
from zenspark.key import KeyExpr
from zenspark.types.encoding import Encoding
from zenspark.types.enums import ConsolidationMode
from zenspark.types.network_info import ReplyError
from zenspark.types.sample import Reply, Sample, SampleHeader
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import ZBytes
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.message_schema import replace

CLOCK = wire.ZenohId(1)
ERROR = Reply(ReplyError(ZBytes(b"no"), Encoding.ZENOH_BYTES))


class ListSink:
    """An sink that only writes down."""

    def __init__(self) -> None:
        self.items: list[Reply] = []
        self.closed = 0

    def push(self, item: Reply) -> bool:
        self.items.append(item)
        return True

    def push_many(self, items: Iterable[Reply]) -> bool:
        self.items.extend(items)
        return True

    def close(self) -> None:
        self.closed += 1


def reply(text: str, when: int = 0, key: str = "a") -> Reply:
    return Reply(Sample(SampleHeader(KeyExpr(key), timestamp_id=CLOCK if when else None), text.encode(), when))


def texts(sink: ListSink) -> list[str]:
    return [one.ok.payload.to_string() if one.ok else "error" for one in sink.items]


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [
        (ConsolidationMode.NONE, ["2", "1", "0", "error", "b"], []),
        (ConsolidationMode.MONOTONIC, ["2", "0", "error", "b"], []),
        (ConsolidationMode.LATEST, ["error"], ["2", "b"]),
    ],
)
def test_consolidation_mode_decides_which_replies_are_delivered_when(
    mode: ConsolidationMode, before: list[str], after: list[str]
) -> None:
    sink = ListSink()
    collector = ReplyCollector(KeyExpr("*"), mode, sink, 1)
    for one in (reply("2", 2), reply("1", 1), reply("0"), ERROR, reply("b", 1, "b")):
        collector.add(one)
    assert texts(sink) == before
    collector.source_finished()
    assert texts(sink) == before + after
    assert sink.closed == 1


@pytest.mark.parametrize("mode", [ConsolidationMode.LATEST, ConsolidationMode.NONE])
def test_auto_consolidation_follows_the_preference_of_each_reply(mode: ConsolidationMode) -> None:
    """QU-56: what a reply prefers counts, and the mode where it prefers nothing."""
    sink = ListSink()
    collector = ReplyCollector(None, mode, sink, 1, follows_replies=True)
    preferences = {
        "n": [ConsolidationMode.NONE] * 3,
        "m": [ConsolidationMode.MONOTONIC] * 3,
        "l": [ConsolidationMode.LATEST] * 3,
        "a": [ConsolidationMode.AUTO] * 3,
    }
    for key, preferred in preferences.items():
        for when, one in zip((1, 3, 2), preferred, strict=True):
            collector.add(Reply(reply(f"{key}{when}", when, key).result, None, one))
    collector.finish()
    at_once = ["n1", "n3", "n2", "m1", "m3"]
    auto = ["l3", "a3"] if mode is ConsolidationMode.LATEST else ["a1", "a3", "a2", "l3"]
    assert texts(sink) == at_once + auto


def test_the_timestamp_of_a_response_counts_where_the_value_has_none() -> None:
    own, outer = wire.Timestamp(1, CLOCK), wire.Timestamp(2, CLOCK)
    put, removal = messages.Put(payload=b""), messages.Del()
    for body in (put, removal):
        for given, expected in ((None, outer), (own, own)):
            reply = messages.Reply(body=replace(body, timestamp=given))
            found = make_reply("a", reply, None, wire.QoS.DEFAULT, timestamp=outer).ok
            assert found is not None
            assert found.timestamp == Timestamp.from_wire(expected)
    error = make_reply("a", messages.Err(payload=b""), None, wire.QoS.DEFAULT, timestamp=outer).err
    assert error is not None
    assert error.timestamp == Timestamp.from_wire(outer)


def test_explicit_consolidation_ignores_preferences_of_replies() -> None:
    sink = ListSink()
    collector = ReplyCollector(None, ConsolidationMode.LATEST, sink, 1)
    for when in (1, 3, 2):
        collector.add(Reply(reply(str(when), when).result, None, ConsolidationMode.NONE))
    collector.finish()
    assert texts(sink) == ["3"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ConsolidationMode.NONE, ["2", "error", "1"]),
        (ConsolidationMode.MONOTONIC, ["2", "error"]),
        (ConsolidationMode.LATEST, ["error", "2"]),
    ],
)
def test_last_response_of_the_budget_finishes_the_collector(mode: ConsolidationMode, expected: list[str]) -> None:
    """QU-76, RE-38: replies and errors count, whatever becomes of them, and what was held back is handed over."""
    sink, ended = ListSink(), []
    collector = ReplyCollector(KeyExpr("*"), mode, sink, 3, budget=3)
    collector.on_finish(lambda: ended.append(True))
    for one in (reply("2", 2), ERROR):
        assert collector.add(one)
    assert not collector.is_finished
    assert collector.add(reply("1", 1))
    assert (collector.is_finished, ended) == (True, [True])
    collector.add(reply("late", 9))
    collector.source_finished()
    assert (texts(sink), sink.closed) == (expected, 1)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ConsolidationMode.MONOTONIC, ["1", "3", "3 again", "none", "other 2"]),
        (ConsolidationMode.LATEST, ["3 again", "other 2"]),
    ],
)
def test_replies_older_than_the_newest_of_their_key_are_dropped(mode: ConsolidationMode, expected: list[str]) -> None:
    """One that is as new as the newest is passed on, too (protocol section 21, row 12)."""
    sink = ListSink()
    collector = ReplyCollector(None, mode, sink, 1)
    for one in (reply("1", 1), reply("3", 3), reply("2", 2), reply("3 again", 3), reply("none")):
        collector.add(one)
    collector.add(reply("other 2", 2, "b"))
    collector.finish()
    assert texts(sink) == expected


def test_later_reply_of_equal_timestamps_is_delivered() -> None:
    sink = ListSink()
    collector = ReplyCollector(None, ConsolidationMode.LATEST, sink, 1)
    for one in (reply("first", 1), reply("second", 1), reply("x", key="b"), reply("y", key="b")):
        collector.add(one)
    collector.finish()
    assert texts(sink) == ["second", "y"]


def test_replies_on_other_keys_are_dropped_unless_wanted() -> None:
    sink = ListSink()
    collector = ReplyCollector(KeyExpr("a"), ConsolidationMode.NONE, sink, 1)
    collector.add(reply("1", key="b"))
    assert sink.items == []
    collector = ReplyCollector(None, ConsolidationMode.NONE, sink, 1)
    collector.add(reply("1", key="b"))
    assert texts(sink) == ["1"]


def test_collector_finishes_once_with_its_last_source() -> None:
    sink = ListSink()
    ended: list[str] = []
    collector = ReplyCollector(None, ConsolidationMode.LATEST, sink, 2)
    collector.on_finish(lambda: ended.append("once"))
    collector.add(reply("1"))
    collector.source_finished()
    assert not collector.is_finished
    collector.source_finished()
    assert collector.is_finished
    collector.finish(TIMEOUT_ERROR)
    collector.cancel()
    collector.add(reply("late"))
    assert texts(sink) == ["1"]
    assert (sink.closed, ended) == (1, ["once"])
    collector.on_finish(lambda: ended.append("at once"))
    assert ended == ["once", "at once"]


def test_reply_after_the_end_does_not_pause_its_sender() -> None:
    """It is accepted, since it is dropped: False would stop reading from the neighbour."""
    collector = ReplyCollector(None, ConsolidationMode.NONE, ListSink(), 1)
    collector.finish()
    assert collector.add(reply("late"))


def test_timeout_error_is_delivered_after_the_buffered_replies() -> None:
    sink = ListSink()
    collector = ReplyCollector(None, ConsolidationMode.LATEST, sink, 1)
    collector.add(reply("1"))
    collector.finish(TIMEOUT_ERROR)
    assert texts(sink) == ["1", "error"]
    error = sink.items[-1].err
    assert error is not None
    assert (error.payload, error.encoding) == (ZBytes(b"Timeout"), Encoding.ZENOH_STRING)


def test_cancelled_collector_delivers_no_buffered_replies() -> None:
    sink = ListSink()
    collector = ReplyCollector(None, ConsolidationMode.LATEST, sink, 1)
    collector.add(reply("1"))
    collector.cancel()
    assert (sink.items, sink.closed) == ([], 1)
