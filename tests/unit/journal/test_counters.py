"""Changed counters of a recorder and of links."""

from __future__ import annotations

from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.journal.counters import Counter, Counters, read_link_counters, recorder_counters


def test_recorder_counters_include_drops_by_neighbour() -> None:
    assert recorder_counters(9, 4, {"ab": 3, "cd": 2}) == {
        ("received", None, None): 9,
        ("recorded", None, None): 4,
        ("dropped", "ab", "journal full"): 3,
        ("dropped", "cd", "journal full"): 2,
    }


def test_only_changed_counters_are_returned() -> None:
    values: dict[Counter, int] = {("received", None, None): 0}
    with listening("peer") as session:
        counters = Counters(session, lambda: values)
        assert counters.take_changes() == {}
        values[("received", None, None)] = 3
        values[("recorded", None, None)] = 1
        assert counters.take_changes() == values
        assert counters.take_changes() == {}
        values[("recorded", None, None)] = 3
        assert counters.take_changes() == {("recorded", None, None): 3}


def test_link_counters_start_at_recorder_creation() -> None:
    with listening("peer") as session, connected("client", session) as client:
        name = ("received", str(client.zid()), None)
        subscriber = session.declare_subscriber("a")
        publisher = client.declare_publisher("a")
        until(lambda: publisher.matching_status.matching)
        publisher.put(b"before")
        subscriber.recv(TIMEOUT_SECONDS)
        counters, before = Counters(session, dict), read_link_counters(session)[name]
        assert before >= 1
        assert counters.take_changes() == {}
        for _ in range(5):
            publisher.put(b"after")
            subscriber.recv(TIMEOUT_SECONDS)
        assert counters.take_changes() == {name: read_link_counters(session)[name] - before}
        assert read_link_counters(session)[name] >= before + 5
    assert read_link_counters(session) == {}
    assert counters.take_changes() == {}
