"""Record batches published: to this session, to neighbours, to those of them with a matching subscriber, or to none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import zenspark
from tests.unit.api.sessions import connected, listening, pair
from tests.wait import until
from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.engine import batch_publisher, receive_backpressure
from zenspark.engine.publisher import publish_targets
from zenspark.engine.subscriptions import Subscriptions
from zenspark.errors import UsageError
from zenspark.handlers.arrow import ArrowBatches
from zenspark.handlers.channel import ReceiveTimeout
from zenspark.handlers.handler import FifoChannel
from zenspark.types.enums import Locality, SampleKind
from zenspark.types.sample import Sample

RECEIVE_TIMEOUT_SECONDS = 10.0


@pytest.fixture
def both() -> Iterator[tuple[Session, Session]]:
    with pair("peer", "peer") as (one, other):
        yield one, other


def batch(**columns: Any) -> pa.RecordBatch:  # noqa: ANN401
    return pa.record_batch(columns)


def subscribed(watching: Session, acting: Session, key: str = "k/**") -> Any:  # noqa: ANN401
    """A subscriber that the other session has the declaration of."""
    subscriber = watching.declare_subscriber(key, ArrowBatches())
    publisher = acting.declare_publisher(key.replace("**", "known"))
    until(lambda: publisher.matching_status.matching)
    publisher.undeclare()
    return subscriber


def received(subscriber: Any, rows: int) -> pa.Table:  # noqa: ANN401
    found: list[pa.RecordBatch] = []
    while sum(one.num_rows for one in found) < rows:
        found.append(subscriber.recv(timeout=RECEIVE_TIMEOUT_SECONDS))
    return pa.Table.from_batches(found)


@pytest.mark.slow
def test_rows_arrive_in_order_under_their_keys(both: tuple[Session, Session]) -> None:
    one, other = both
    subscriber = subscribed(one, other)
    sent = batch(key=[f"k/{n % 7}" for n in range(1000)], payload=[b"%d" % n for n in range(1000)])
    assert other.put_batch(sent) == 0
    found = received(subscriber, 1000)
    assert found.schema.equals(SCHEMA)
    assert found.select(["key", "payload"]).to_pylist() == sent.to_pylist()
    assert set(found.column("via").to_pylist()) == {str(other.zid())}


@pytest.mark.slow
def test_received_batch_can_be_republished_unchanged(both: tuple[Session, Session]) -> None:
    one, other = both
    subscriber = subscribed(one, other)
    sent = batch(
        key=["k/a", "k/b", "k/a"],
        kind=["PUT", "DELETE", "PUT"],
        payload=[b"1", None, bytes(200_000)],
        encoding=["text/plain", None, "application/json;x"],
        timestamp_ntp64=[7386664595088445305, None, 7],
        timestamp_id=["abc", None, None],
        attachment=[b"", b"x", None],
        source_zid=["f", None, "e"],
        source_eid=[1, None, 3],
        source_sn=[2, None, 4],
        priority=["REAL_TIME", "DATA", "BACKGROUND"],
        congestion=["BLOCK", "DROP", "BLOCK_FIRST"],
        express=[True, False, False],
        reliable=[False, True, True],
    )
    other.put_batch(sent)
    first = received(subscriber, 3)
    given = sent.select([name for name in sent.schema.names if name not in ("encoding", "timestamp_id")])
    assert first.select(given.schema.names).to_pylist() == given.to_pylist()
    assert first.column("encoding").to_pylist() == ["text/plain", "zenoh/bytes", "application/json;x"]
    assert first.column("timestamp_id").to_pylist() == ["abc", None, str(other.zid())]
    other.put_batch(first)
    again = received(subscriber, 3)
    assert again.drop(["received_at"]).to_pylist() == first.drop(["received_at"]).to_pylist()


@pytest.mark.slow
def test_chunked_table_and_a_slice_of_it_are_published(both: tuple[Session, Session]) -> None:
    one, other = both
    subscriber = subscribed(one, other)
    parts = [batch(key=["k/x"] * 3, payload=[b"%d%d" % (part, n) for n in range(3)]) for part in range(3)]
    table = pa.Table.from_batches([*parts, parts[0][:0]])
    assert other.put_batch(table[2:8]) == 0
    assert received(subscriber, 6).column("payload").to_pylist() == [b"02", b"10", b"11", b"12", b"20", b"21"]


def test_empty_batch_publishes_nothing(both: tuple[Session, Session]) -> None:
    one, other = both
    subscriber = subscribed(one, other)
    assert other.put_batch(batch(key=pa.array([], pa.string()), payload=pa.array([], pa.binary()))) == 0
    assert other.put_batch(pa.Table.from_batches([], SCHEMA)) == 0
    with pytest.raises(ReceiveTimeout):
        subscriber.recv(timeout=0.01)


@pytest.mark.slow
def test_each_neighbour_gets_only_rows_with_matching_keys() -> None:
    with listening("router") as one, connected("client", one) as two, connected("client", one) as three:
        all_of_it = subscribed(two, one, "k/**")
        some = subscribed(three, one, "k/b/**")
        none = subscribed(three, one, "other/**")
        here = one.declare_subscriber("k/a", ArrowBatches())
        sent = batch(key=["k/a", "k/b/x", "k/a", "k/b/y"], payload=[b"1", b"2", b"3", b"4"])
        assert one.put_batch(sent) == 0
        assert received(all_of_it, 4).column("payload").to_pylist() == [b"1", b"2", b"3", b"4"]
        assert received(some, 2).column("key").to_pylist() == ["k/b/x", "k/b/y"]
        assert received(here, 2).column("payload").to_pylist() == [b"1", b"3"]
        assert none.try_recv() is None


@pytest.mark.slow
def test_qos_runs_do_not_leak_rows_to_other_subscribers(both: tuple[Session, Session]) -> None:
    one, other = both
    subscriber = subscribed(one, other, "k/a")
    sent = batch(key=["k/a", "k/b", "k/a"], payload=[b"1", b"2", b"3"], priority=["DATA", "REAL_TIME", "DATA"])
    other.put_batch(sent)
    assert received(subscriber, 2).column("payload").to_pylist() == [b"1", b"3"]


@pytest.mark.slow
@pytest.mark.parametrize(("where", "here", "there"), [(Locality.REMOTE, 0, 1), (Locality.SESSION_LOCAL, 1, 0)])
def test_rows_go_only_where_they_are_allowed(
    both: tuple[Session, Session], where: Locality, here: int, there: int
) -> None:
    one, other = both
    remote = subscribed(one, other)
    local = other.declare_subscriber("k/**", ArrowBatches())
    publisher = other.declare_publisher("k/p", allowed_destination=where)
    publisher.put_batch(batch(payload=[b"1"]))
    other.put_batch(batch(key=["k/end"], payload=[b"end"]))
    assert received(remote, there + 1).column("payload").to_pylist() == [b"1"] * there + [b"end"]
    assert received(local, here + 1).column("payload").to_pylist() == [b"1"] * here + [b"end"]


def test_subscribers_of_this_session_get_samples(peer: Session) -> None:
    samples: list[zenspark.Sample] = []
    done = threading.Event()

    def note(sample: zenspark.Sample) -> None:
        samples.append(sample)
        if len(samples) == 2:
            done.set()

    peer.declare_subscriber("k/*", note)
    peer.put_batch(batch(key=["k/a", "x", "k/b"], kind=["PUT", "PUT", "DELETE"], payload=[b"1", b"2", None]))
    assert done.wait(RECEIVE_TIMEOUT_SECONDS)
    assert [(str(one.key_expr), one.kind, one.payload.to_bytes()) for one in samples] == [
        ("k/a", SampleKind.PUT, b"1"),
        ("k/b", SampleKind.DELETE, b""),
    ]


@pytest.mark.slow
def test_rows_of_a_publisher_have_its_settings(both: tuple[Session, Session]) -> None:
    one, other = both
    subscriber = subscribed(one, other)
    publisher = other.declare_publisher(
        "k/p",
        encoding="text/plain",
        priority=zenspark.Priority.DATA_HIGH,
        congestion_control=zenspark.CongestionControl.BLOCK,
        express=True,
        reliability=zenspark.Reliability.BEST_EFFORT,
    )
    assert publisher.put_batch(batch(payload=[b"1", b"2"])) == 0
    for row in received(subscriber, 2).to_pylist():
        assert (row["key"], row["encoding"], row["priority"]) == ("k/p", "text/plain", "DATA_HIGH")
        assert (row["congestion"], row["express"], row["reliable"]) == ("BLOCK", True, False)


@pytest.mark.slow
def test_rows_without_qos_columns_are_published_like_puts(both: tuple[Session, Session]) -> None:
    one, other = both
    subscriber = subscribed(one, other)
    other.put("k/put", b"")
    other.put_batch(batch(key=["k/batch"], payload=[b""]))
    put, row = received(subscriber, 2).drop(["key", "received_at"]).to_pylist()
    assert put == row
    assert (row["congestion"], row["priority"], row["express"]) == ("DROP", "DATA", False)


@pytest.mark.slow
def test_rows_get_timestamps_when_timestamping_is_enabled() -> None:
    with listening("peer", timestamping__enabled=True) as one:
        subscriber = one.declare_subscriber("k", ArrowBatches())
        one.put_batch(batch(key=["k"] * 3, payload=[b"1", b"2", b"3"], timestamp_ntp64=[None, 5, None]))
        rows = received(subscriber, 3).to_pylist()
        assert {row["timestamp_id"] for row in rows} == {str(one.zid())}
        assert rows[1]["timestamp_ntp64"] == 5
        assert rows[0]["timestamp_ntp64"] < rows[2]["timestamp_ntp64"]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown column": ({"payload": [b"1"], "keys": ["k/a"]}, "'keys': did you mean 'key'"),
    "no key": ({"payload": [b"1"]}, "needs a column 'key'"),
    "null key": ({"key": ["k/a", None], "payload": [b"1", b"2"]}, "row 1 has no key"),
    "bad key": ({"key": ["k/a", "k//b"], "payload": [b"1", b"2"]}, "row 1 has the key 'k//b'"),
    "wrong type": ({"key": ["k/a"], "payload": [1.0]}, "column 'payload': expected binary"),
    "no payload": ({"key": ["k/a", "k/b"], "payload": [b"1", None]}, "row 1 is a PUT without a payload"),
    "bad zid": ({"key": ["k/a"], "payload": [b"1"], "source_zid": ["zzz"]}, "row 0 has the source_zid 'zzz'"),
    "bad priority": ({"key": ["k/a", "k/a"], "payload": [b"1", b"2"], "priority": ["DATA", "LOW"]}, "row 1 has the"),
    "bad number": (
        {"key": ["k/a"], "payload": [b"1"], "source_zid": ["a"], "source_sn": [-1]},
        "row 0 has the source_sn -1",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_invalid_batch_sends_nothing(both: tuple[Session, Session], name: str) -> None:
    one, other = both
    subscriber = subscribed(one, other)
    columns, words = BAD[name]
    with pytest.raises(UsageError) as caught:
        other.put_batch(batch(**columns))
    assert words in str(caught.value)
    other.put_batch(batch(key=["k/end"], payload=[b"end"]))
    assert received(subscriber, 1).column("payload").to_pylist() == [b"end"]


@pytest.mark.slow
def test_table_with_an_invalid_last_chunk_sends_nothing(both: tuple[Session, Session]) -> None:
    one, other = both
    subscriber = subscribed(one, other)
    good, bad = (batch(key=[key], payload=[b"1"]) for key in ("k/a", "k/a/"))
    with pytest.raises(UsageError, match="row 0 has the key 'k/a/'"):
        other.put_batch(pa.Table.from_batches([good, bad]))
    other.put_batch(batch(key=["k/end"], payload=[b"end"]))
    assert received(subscriber, 1).column("payload").to_pylist() == [b"end"]


@pytest.mark.slow
def test_publisher_rejects_rows_with_another_key(both: tuple[Session, Session]) -> None:
    one, other = both
    subscriber = subscribed(one, other)
    publisher = other.declare_publisher("k/p")
    with pytest.raises(UsageError, match=r"row 1 has the key 'k/q': this publisher publishes on k/p"):
        publisher.put_batch(batch(key=["k/p", "k/q"], payload=[b"1", b"2"]))
    publisher.put_batch(batch(key=["k/p"], payload=[b"3"]))
    assert received(subscriber, 1).column("payload").to_pylist() == [b"3"]


@pytest.mark.parametrize("what", [{"key": ["k"]}, [b"1"], None])
def test_only_batches_and_tables_are_taken(peer: Session, what: object) -> None:
    with pytest.raises(TypeError, match=r"expected a pyarrow.RecordBatch or Table"):
        peer.put_batch(what)


@pytest.mark.slow
def test_rows_dropped_by_congestion_are_counted() -> None:
    release = threading.Event()
    with pair("peer", "peer") as (one, other):
        waiting = zenspark.handlers.Callback[zenspark.Sample](
            lambda _: release.wait(RECEIVE_TIMEOUT_SECONDS), indirect=False
        )
        subscriber = one.declare_subscriber("k", waiting)
        publisher = other.declare_publisher("k", congestion_control=zenspark.CongestionControl.DROP)
        until(lambda: publisher.matching_status.matching)
        large = batch(payload=[bytes(60_000)] * 1000)
        dropped = publisher.put_batch(large) + publisher.put_batch(large)
        assert 0 < dropped <= 2000
        release.set()
        subscriber.undeclare()


@pytest.mark.slow
def test_rows_denied_by_egress_access_control_are_not_sent() -> None:
    rule = {"id": "r", "permission": "deny", "key_exprs": ["k/shut"], "messages": ["put"], "flows": ["egress"]}
    policies = [{"rules": ["r"], "subjects": ["s"]}]
    control = {"enabled": True, "default_permission": "allow", "rules": [rule], "policies": policies}
    with (
        listening("peer") as one,
        connected("peer", one, access_control={**control, "subjects": [{"id": "s"}]}) as other,
    ):
        subscriber = subscribed(one, other)
        keys = ["k/open", "k/shut", "k/shut", "k/open"]
        assert other.put_batch(batch(key=keys, payload=[b"1", b"2", b"3", b"4"])) == 0
        assert received(subscriber, 2).column("payload").to_pylist() == [b"1", b"4"]


class CountingLock:
    """The node's lock, with a count of calls for each time that it was held: the last of `counts` while it is held."""

    def __init__(self, lock: Any) -> None:  # noqa: ANN401
        self.lock = lock
        self.counts: list[int] = []

    def __enter__(self) -> None:
        self.lock.acquire()
        self.counts.append(0)

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_put_batch_waits_for_every_local_receiver_that_was_full_at_any_row(
    peer: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for one that gets nothing of the last row."""
    waited: list[object] = []

    def wait_for_capacity(sink: object) -> bool:
        waited.append(sink)
        return True

    monkeypatch.setattr(peer._runtime.backpressure, "wait_for_capacity", wait_for_capacity)
    full = peer.declare_subscriber("full", FifoChannel(2))
    peer.declare_subscriber("free", lambda _: None)
    peer.put_batch(batch(key=["full"] * 5 + ["free"], payload=[b""] * 6))
    assert waited == [full.handler]


def test_put_batch_waits_for_a_slow_local_receiver_after_each_slice(
    peer: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_publisher, "DELIVERY_SLICE_ROWS", 20)
    subscriber = peer.declare_subscriber("a", FifoChannel(10))
    backlogs: list[int] = []

    def receive() -> None:
        for _ in range(2000):
            backlogs.append(subscriber.handler.backlog)
            subscriber.recv(RECEIVE_TIMEOUT_SECONDS)

    thread = threading.Thread(target=receive)
    thread.start()
    for _ in range(4):
        peer.put_batch(batch(key=["a"] * 500, payload=[b""] * 500))
        backlogs.append(subscriber.handler.backlog - 20)
    thread.join(RECEIVE_TIMEOUT_SECONDS)
    assert len(backlogs) == 2004
    assert max(backlogs) < 10 + 20


def test_put_batch_loses_nothing_for_a_receiver_that_reads_later_in_the_same_thread(
    peer: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second batch would be over the backlog limit: only that is dropped."""
    monkeypatch.setattr(receive_backpressure, "STALL_TIMEOUT_SECONDS", 0.01)
    subscriber = peer.declare_subscriber("a", FifoChannel(2))
    peer.put_batch(batch(key=["a"] * 1000, payload=[b"1"] * 1000))
    assert subscriber.handler.is_stalled
    peer.put_batch(batch(key=["a"], payload=[b"2"]))
    assert subscriber.handler.backlog == 1000


@pytest.mark.parametrize("chunks", [1, 3])
def test_put_batch_queues_the_rest_of_all_chunks_for_a_receiver_that_reads_later(
    peer: Session, monkeypatch: pytest.MonkeyPatch, chunks: int
) -> None:
    """The rows of one call are never dropped, also where there are several chunks, or runs of equal QoS."""
    monkeypatch.setattr(receive_backpressure, "STALL_TIMEOUT_SECONDS", 0.01)
    subscriber = peer.declare_subscriber("a", FifoChannel(2))
    rows = batch(key=["a"] * 600, payload=[b""] * 600)
    peer.put_batch(pa.Table.from_batches([rows] * chunks))
    assert subscriber.handler.backlog == 600 * chunks
    assert subscriber.handler.is_stalled


def test_put_batch_waits_again_for_a_receiver_that_paused_once(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes nothing for a while, and then every item: it is not stalled, and later rows are not dropped."""
    monkeypatch.setattr(receive_backpressure, "STALL_TIMEOUT_SECONDS", 0.02)
    subscriber = peer.declare_subscriber("a", FifoChannel(4))
    backpressure = peer._runtime.backpressure
    wait_for_capacity = backpressure.wait_for_capacity
    waits: list[bool] = []

    def read_after_the_first_wait(sink: Any) -> bool:  # noqa: ANN401
        if waits:
            found.extend(sink.try_recv() for _ in range(sink.backlog))
        waits.append(wait_for_capacity(sink))
        return waits[-1]

    found: list[Sample] = []
    monkeypatch.setattr(backpressure, "wait_for_capacity", read_after_the_first_wait)
    peer.put_batch(batch(key=["a"] * 2000, payload=[b""] * 2000))
    assert waits == [False, True]
    assert not subscriber.handler.is_stalled
    assert len(found) == 2000


def test_put_batch_sends_to_neighbours_before_it_waits_for_local_receivers(
    both: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = both
    remote = subscribed(other, one, "k/**")
    local = one.declare_subscriber("k/**", FifoChannel(1))
    rows_before_wait: list[int] = []

    def receive_remote_rows(_: object) -> bool:
        if not rows_before_wait:
            rows_before_wait.append(received(remote, 900).num_rows)
        return True

    monkeypatch.setattr(one._runtime.backpressure, "wait_for_capacity", receive_remote_rows)
    rows = batch(key=["k/a"] * 300, payload=[b""] * 300)
    assert one.put_batch(pa.Table.from_batches([rows] * 3)) == 0
    assert rows_before_wait == [900]
    assert local.handler.backlog == 900


def test_put_batch_releases_the_lock_between_slices_of_rows(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_publisher, "DELIVERY_SLICE_ROWS", 10)
    deliver = Subscriptions.deliver

    def count(self: Subscriptions, sample: Sample, is_local: bool, cache_matches: bool = True) -> object:
        lock.counts[-1] += 1
        return deliver(self, sample, is_local, cache_matches)

    subscriber = peer.declare_subscriber("a", FifoChannel(100))
    lock = CountingLock(peer._runtime.lock)
    monkeypatch.setattr(peer._runtime, "lock", lock)
    monkeypatch.setattr(Subscriptions, "deliver", count)
    payloads = [bytes([number]) for number in range(25)]
    peer.put_batch(batch(key=["a"] * 25, payload=payloads))
    assert [rows for rows in lock.counts if rows] == [10, 10, 5]
    assert [bytes(subscriber.recv(RECEIVE_TIMEOUT_SECONDS).payload) for _ in range(25)] == payloads


@pytest.mark.parametrize("lookup", ["remote", "local"])
def test_put_batch_releases_the_lock_between_slices_of_keys(
    peer: Session, monkeypatch: pytest.MonkeyPatch, lookup: str
) -> None:
    monkeypatch.setattr(batch_publisher, "LOOKUP_SLICE_KEYS", 10)
    lock = CountingLock(peer._runtime.lock)
    matching = Subscriptions.matching

    def count_remote(*args: Any) -> Any:  # noqa: ANN401
        lock.counts[-1] += 1
        return publish_targets(*args)

    def count_local(self: Subscriptions, key: str, is_local: bool) -> object:
        lock.counts[-1] += 1
        return matching(self, key, is_local)

    monkeypatch.setattr(peer._runtime, "lock", lock)
    if lookup == "remote":
        monkeypatch.setattr(batch_publisher, "publish_targets", count_remote)
    else:
        monkeypatch.setattr(Subscriptions, "matching", count_local)
    peer.put_batch(batch(key=[f"k/{number}" for number in range(25)], payload=[b""] * 25))
    assert [keys for keys in lock.counts if keys] == [10, 10, 5]
