from tests.unit.api.sessions import listening
from tests.wait import until
from zenspark.cli.key_traffic import KeyTraffic


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_key_traffic_has_messages_bytes_rates_and_last_values() -> None:
    clock = Clock()
    traffic = KeyTraffic(clock=clock)
    with listening("peer") as session:
        session.declare_subscriber("**", traffic)
        for number in range(10):
            session.put("a", f"value {number}", encoding="text/plain")
        session.put("b", bytes(1000))
        session.delete("c")
        until(lambda: traffic.total.messages == 12)
        clock.now += 2
        traffic.tick()
        traffic.tick()  # no time has passed
        a = traffic.get("a")
        assert a is not None
        assert (a.messages, a.bytes, a.rate, a.byte_rate, a.payload, a.encoding) == (
            10,
            70,
            5,
            35,
            b"value 9",
            "text/plain",
        )
        assert [each.key for each in traffic.largest("rate", 1)] == ["a"]
        assert [each.key for each in traffic.largest("bytes", 1)] == ["b"]
        assert next(each.key for each in traffic.largest("messages", 9)) == "a"
        assert [each.key for each in traffic.largest("key", 9)] == ["a", "b", "c"]
        assert [each.key for each in traffic.largest("key", 9, lambda key: key != "a")] == ["b", "c"]
        deleted = traffic.get("c")
        assert deleted is not None
        assert deleted.is_deleted
        clock.now += 1
        session.put("c", "back")
        until(lambda: not deleted.is_deleted)
        assert [each.key for each in traffic.largest("age", 1)] == ["c"]
        clock.now += 1
        traffic.tick()
        assert 3 < a.rate < 5
    assert (len(traffic), sorted(traffic.keys())) == (3, ["a", "b", "c"])


def test_the_number_of_keys_is_bounded() -> None:
    traffic = KeyTraffic(max_keys=1)
    with listening("peer") as session:
        session.declare_subscriber("**", traffic)
        session.put("a", "1")
        session.put("b", "1")
        until(lambda: traffic.uncounted == 1)
    assert traffic.keys() == ["a"]
    assert traffic.total.messages == 2
