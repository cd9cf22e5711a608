"""Bytes and messages of links, those that have ended included."""

from __future__ import annotations

from tests.unit.api.sessions import connected
from tests.unit.web.served import opened
from tests.wait import until
from zenspark.web.traffic import TrafficTotals, read_traffic


def test_totals_outlive_links() -> None:
    with opened() as session:
        with connected("client", session) as other:
            for _ in range(10):
                other.put("demo/a", bytes(1000))
            assert until(lambda: read_traffic(session).messages_in >= 10)
            before = read_traffic(session)
            assert (before.sessions, before.bytes_in > 10_000, before.bytes_out > 0) == (1, True, True)
            assert before.received["push"] == 10
        assert until(lambda: read_traffic(session).sessions == 0)
        after = read_traffic(session)
        assert (after.messages_in, after.bytes_in) >= (before.messages_in, before.bytes_in)
        with connected("client", session):
            assert read_traffic(session).bytes_in > after.bytes_in
    assert read_traffic(session) == TrafficTotals()


def test_messages_are_counted_by_kind_in_both_directions() -> None:
    with opened() as session:
        with connected("client", session) as other:
            queryable = other.declare_queryable("demo/q", lambda query: query.reply("demo/q", b"x"))
            subscriber = other.declare_subscriber("demo/s")
            with session.declare_publisher("demo/s") as publisher, session.declare_querier("demo/q") as querier:
                assert until(lambda: publisher.matching_status.matching and querier.matching_status.matching)
                for _ in range(3):
                    publisher.put(b"x")
                assert len(list(querier.get())) == 1
            assert read_traffic(session).received["declare"] >= 2
            totals = read_traffic(session)
            assert (totals.sent["push"], totals.sent["request"]) == (3, 1)
            assert (totals.received["response"], totals.received["response_final"]) == (1, 1)
            del queryable, subscriber
        assert until(lambda: read_traffic(session).sessions == 0)
        assert read_traffic(session).sent["push"] == 3
