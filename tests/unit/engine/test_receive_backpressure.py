"""Receivers that are full: which links are paused, which are not, and that no sender waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.optional import some
from tests.unit.api.sessions import connected, listening
from tests.unit.net.ends import meanwhile
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.engine import receive_backpressure
from zenspark.handlers.callback import CallbackRunner
from zenspark.handlers.channel import Channel
from zenspark.handlers.handler import FifoChannel, Handler
from zenspark.net.io.link_driver import ConnectionDriver
from zenspark.types.enums import CongestionControl, ConsolidationMode, Locality
from zenspark.types.query import Query
from zenspark.types.sample import Sample

BLOCK = CongestionControl.BLOCK


@pytest.fixture(autouse=True)
def short_stall_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_backpressure, "STALL_TIMEOUT_SECONDS", 0.05)


@pytest.fixture
def other(router: Session) -> Iterator[Session]:
    with connected("client", router) as session:
        yield session


def link(session: Session) -> ConnectionDriver:
    (driver,) = session._runtime.node.drivers.values()
    return driver


class Idle:
    """Runs nothing yet."""

    is_loop_thread = False

    def run_callback_soon(self, work: Callable[[], object]) -> None:
        """Run something later."""


def wait_for_queryable(session: Session, key: str) -> None:
    with session.declare_querier(key) as querier:
        until(lambda: querier.matching_status.matching)


# --- links ----------------------------------------------------------------------------------------


def test_link_resumes_when_every_full_receiver_has_drained(router: Session, client: Session) -> None:
    """One that reads fast must not make one that reads slowly grow."""
    one, two = client.declare_subscriber("k", FifoChannel(2)), client.declare_subscriber("k", FifoChannel(2))
    publisher = router.declare_publisher("k", congestion_control=BLOCK)
    until(lambda: publisher.matching_status.matching)
    for number in range(2):
        publisher.put(str(number))
    until(lambda: len(link(client)._paused) == 2)
    assert [one.recv(TIMEOUT_SECONDS).payload.to_string() for _ in range(2)] == ["0", "1"]
    assert link(client)._paused == {two.handler}
    publisher.put("2")
    assert two.recv(TIMEOUT_SECONDS).payload.to_string() == "0"
    assert one.recv(TIMEOUT_SECONDS).payload.to_string() == "2"


def test_drained_receiver_does_not_resume_links_paused_by_others(router: Session, client: Session) -> None:
    subscriber = client.declare_subscriber("k", FifoChannel(1))
    publisher = router.declare_publisher("k", congestion_control=BLOCK)
    until(lambda: publisher.matching_status.matching)
    link(client).pause("held back for another")
    publisher.put("1")
    client._runtime.backpressure.on_drained(subscriber.handler)
    assert link(client)._paused == {"held back for another"}
    link(client).resume("held back for another")
    assert subscriber.recv(TIMEOUT_SECONDS).payload.to_string() == "1"


@pytest.mark.parametrize("kind", ["subscriber", "queryable"])
def test_undeclaring_a_full_receiver_resumes_its_link(router: Session, client: Session, kind: str) -> None:
    receiver: Any
    if kind == "subscriber":
        receiver = client.declare_subscriber("k", FifoChannel(1))
        publisher = router.declare_publisher("k", congestion_control=BLOCK)
        until(lambda: publisher.matching_status.matching)
        publisher.put("1")
    else:
        receiver = client.declare_queryable("k", FifoChannel(1))
        wait_for_queryable(router, "k")
        router.get("k", timeout=TIMEOUT_SECONDS)
    until(lambda: link(client)._paused)
    receiver.undeclare()
    assert not link(client)._paused


@pytest.mark.slow
def test_unread_replies_pause_their_link_until_the_query_finishes(router: Session, client: Session) -> None:
    given: list[int] = []

    def reply_to(query: Query) -> None:
        for number in range(3000):
            query.reply("q", bytes(10_000))
            given.append(number)

    router.declare_queryable("q", reply_to)
    wait_for_queryable(client, "q")
    replies = client.get("q", FifoChannel(2), consolidation=ConsolidationMode.NONE, timeout=2 * TIMEOUT_SECONDS)
    until(lambda: link(client)._paused)
    assert len(given) < 3000
    assert sum(1 for _ in replies) == 3000
    unread = client.get("q", FifoChannel(2), consolidation=ConsolidationMode.NONE, timeout=0.2)
    until(lambda: not client._runtime.queries._collectors)
    assert not link(client)._paused
    assert unread.recv(TIMEOUT_SECONDS).ok


@pytest.mark.slow
def test_callback_with_a_full_queue_receives_the_reply_to_its_query(router: Session, client: Session) -> None:
    """Its reply stands behind what it has not received yet."""
    found: list[str] = []
    go = threading.Event()

    def query_in_callback(sample: Sample) -> None:
        go.wait(TIMEOUT_SECONDS)
        if len(found) == 10:
            return
        (reply,) = client.get("q", timeout=2 * TIMEOUT_SECONDS)
        found.append(some(reply.ok).payload.to_string())

    router.declare_queryable("q", lambda query: query.reply("q", "yes"))
    wait_for_queryable(client, "q")
    client.declare_subscriber("k", query_in_callback)
    publisher = router.declare_publisher("k", congestion_control=BLOCK)
    until(lambda: publisher.matching_status.matching)
    for number in range(5000):
        publisher.put(str(number))
    until(lambda: link(client)._paused)
    go.set()
    until(lambda: len(found) == 10)
    assert found == ["yes"] * 10


def test_receiver_of_a_full_channel_receives_the_reply_to_its_query(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", query.payload or b""))
    wait_for_queryable(client, "q")
    subscriber = client.declare_subscriber("k", FifoChannel(1))
    publisher = router.declare_publisher("k", congestion_control=BLOCK)
    until(lambda: publisher.matching_status.matching)
    for number in range(20):
        publisher.put(str(number))
    until(lambda: link(client)._paused)
    for number in range(20):
        sample = subscriber.recv(TIMEOUT_SECONDS)
        (reply,) = client.get("q", payload=sample.payload, timeout=TIMEOUT_SECONDS)
        assert some(reply.ok).payload.to_string() == str(number)


def test_read_credit_is_limited_by_the_backlog_of_the_receiver(
    router: Session, client: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive_backpressure, "MAX_BACKLOG_FACTOR", 4)
    held: list[Query] = []
    router.declare_queryable("q", held.append)
    wait_for_queryable(client, "q")
    subscriber = client.declare_subscriber("k", FifoChannel(2))
    publisher = router.declare_publisher("k", congestion_control=BLOCK, express=True)
    until(lambda: publisher.matching_status.matching)
    client.get("q", timeout=TIMEOUT_SECONDS)
    until(lambda: held)
    for _ in range(7):
        publisher.put("")
    until(lambda: subscriber.handler.backlog == 7)
    assert not link(client)._paused
    publisher.put("")
    until(lambda: link(client)._paused)
    client.get("q", timeout=TIMEOUT_SECONDS)
    assert link(client)._paused
    held.clear()


def test_read_credit_is_limited_in_bytes(router: Session, client: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_backpressure, "READ_CREDIT_BYTES", 100_000)
    held: list[Query] = []
    router.declare_queryable("q", held.append)
    wait_for_queryable(client, "q")
    subscriber = client.declare_subscriber("k", FifoChannel(1))
    publisher = router.declare_publisher("k", congestion_control=BLOCK)
    until(lambda: publisher.matching_status.matching)
    client.get("q", timeout=TIMEOUT_SECONDS)
    until(lambda: held)
    publisher.put(b"")
    until(lambda: subscriber.handler.backlog == 1)
    assert not link(client)._paused
    publisher.put(bytes(150_000))
    until(lambda: link(client)._paused)
    subscriber.recv(TIMEOUT_SECONDS)
    subscriber.recv(TIMEOUT_SECONDS)
    assert not link(client)._paused
    held.clear()


@pytest.mark.slow
def test_callbacks_that_publish_to_each_other_do_not_deadlock() -> None:
    """Each side reads only when its callback has taken something, and each callback waits for the other to read."""
    # Not below loopback's maximum segment of 65,483 bytes: there TCP may send one receive buffer every 200 ms.
    narrow = {"transport__link__tcp": {"so_rcvbuf": 131_072, "so_sndbuf": 131_072}}
    found: list[int] = []
    go, done = threading.Event(), threading.Event()
    with listening("router", **narrow) as router, connected("client", router, **narrow) as client:

        def pass_on(sample: Sample) -> None:
            go.wait(TIMEOUT_SECONDS)
            client.put("log", sample.payload, congestion_control=BLOCK)

        def publish() -> None:
            for _ in range(8000):
                client.put("up", bytes(1000), congestion_control=BLOCK)
            done.set()

        def is_jammed() -> bool:
            return bool(link(client)._paused and link(router)._paused and link(client)._unsent)

        client.declare_subscriber("down", pass_on)
        router.declare_subscriber("up", lambda sample: router.put("down", sample.payload, congestion_control=BLOCK))
        router.declare_subscriber("log", lambda sample: found.append(len(sample.payload)))
        for session, key in ((client, "up"), (client, "log"), (router, "down")):
            with session.declare_publisher(key) as publisher:
                until(lambda: publisher.matching_status.matching)
        with meanwhile(publish):
            until(lambda: done.is_set() or is_jammed())
            go.set()
        until(lambda: len(found) == 8000)
        assert len(list(client.info.transports())) == 1


def test_a_response_waits_only_for_the_link_it_goes_to(router: Session, client: Session, other: Session) -> None:
    """Another client takes nothing for the moment, and has much to take."""
    subscriber = other.declare_subscriber("k")
    publisher = router.declare_publisher("k")
    until(lambda: publisher.matching_status.matching)
    link(other).pause()
    slow = next(
        driver for face, driver in router._runtime.node.drivers.items() if face.zid == other._runtime.node.identity.zid
    )

    def is_backlogged() -> bool:
        publisher.put(bytes(1 << 20))
        return bool(slow._unsent)

    until(is_backlogged)
    router.declare_queryable("q", lambda query: query.reply("q", "yes"))
    wait_for_queryable(client, "q")
    (reply,) = client.get("q", timeout=TIMEOUT_SECONDS)
    assert some(reply.ok).payload.to_string() == "yes"
    assert slow._unsent
    router.declare_queryable("r", lambda query: query.drop())
    assert list(router.get("r", timeout=TIMEOUT_SECONDS)) == []
    assert slow._unsent
    link(other).resume()
    assert subscriber.recv(TIMEOUT_SECONDS).key_expr == "k"


# --- a session and itself -------------------------------------------------------------------------


def test_put_waits_for_a_slow_local_callback(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_backpressure, "STALL_TIMEOUT_SECONDS", TIMEOUT_SECONDS)
    found: list[int] = []
    sent = [0]
    go = threading.Event()

    def slow(sample: Sample) -> None:
        go.wait(TIMEOUT_SECONDS)
        found.append(int(sample.payload.to_string()))

    def publish() -> None:
        for number in range(3000):
            peer.put("k", str(number))
            sent[0] += 1

    peer.declare_subscriber("k", slow)
    with meanwhile(publish) as result:
        try:
            until(lambda: sent[0] > 1000)
            assert sent[0] < 2000
        finally:
            go.set()
        result()
    until(lambda: len(found) == 3000)
    assert found == list(range(3000))


def test_put_waits_for_a_full_local_channel(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_backpressure, "STALL_TIMEOUT_SECONDS", TIMEOUT_SECONDS)
    subscriber = peer.declare_subscriber("k", FifoChannel(2))
    done = threading.Event()

    def publish() -> None:
        for number in range(4):
            peer.put("k", str(number))
        done.set()

    thread = threading.Thread(target=publish)
    thread.start()
    until(lambda: subscriber.handler.backlog == 2)
    assert not done.wait(0.05)
    assert [subscriber.recv(TIMEOUT_SECONDS).payload.to_string() for _ in range(4)] == list("0123")
    assert done.wait(TIMEOUT_SECONDS)
    thread.join(TIMEOUT_SECONDS)


def test_receiver_over_its_capacity_is_waited_for_while_it_takes_items(
    peer: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def consume_slowly(_: Callable[[], bool], timeout: float) -> bool:
        nonlocal now
        now += 0.04  # less than the timeout of a stall
        sink.try_recv()
        return False

    sink = Channel(2, lambda _: None)
    sink.push_many(range(100))
    monkeypatch.setattr(receive_backpressure, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(peer._runtime.node, "wait", consume_slowly)
    assert peer._runtime.backpressure.wait_for_capacity(sink)
    assert sink.backlog == 1


def test_receiver_that_takes_items_is_waited_for_while_others_add_more(
    peer: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its backlog need not fall below what it was before: another publisher may have added as much."""
    now = 0.0
    rounds = iter(range(20))

    def consume_and_add(_: Callable[[], bool], timeout: float) -> bool:
        nonlocal now
        now += 0.04  # less than the timeout of a stall
        sink.try_recv()
        if next(rounds, 20) in (2, 8):
            sink.push_many(range(50))
        return False

    sink = Channel(2, lambda _: None)
    sink.push_many(range(10))
    monkeypatch.setattr(receive_backpressure, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(peer._runtime.node, "wait", consume_and_add)
    assert peer._runtime.backpressure.wait_for_capacity(sink)
    assert sink.backlog == 1


def test_receiver_that_is_undeclared_is_no_longer_waited_for(
    peer: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(receive_backpressure, "STALL_TIMEOUT_SECONDS", TIMEOUT_SECONDS)
    subscriber = peer.declare_subscriber("k", FifoChannel(1))
    sink = subscriber.handler

    def undeclare(_: Callable[[], bool], timeout: float) -> bool:
        subscriber.undeclare()
        return False

    monkeypatch.setattr(peer._runtime.node, "wait", undeclare)
    peer.put("k", "unread")
    assert sink.backlog == 1
    assert not sink.is_stalled
    assert not caplog.records


def test_receiver_that_takes_no_items_is_not_waited_for_without_end(
    peer: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def consume_nothing(_: Callable[[], bool], timeout: float) -> bool:
        nonlocal now
        now += 0.04
        return False

    sink = Channel(2, lambda _: None)
    sink.push_many(range(2))
    monkeypatch.setattr(receive_backpressure, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(peer._runtime.node, "wait", consume_nothing)
    assert not peer._runtime.backpressure.wait_for_capacity(sink)
    assert not sink.is_stalled
    peer._runtime.backpressure.mark_stalled(sink)
    assert sink.is_stalled
    assert peer._runtime.backpressure.wait_for_capacity(sink)


def test_receiver_that_has_drained_meanwhile_is_not_waited_for(peer: Session, caplog: pytest.LogCaptureFixture) -> None:
    """It cannot have less than nothing: a publisher waited for that until the receiver counted as stalled."""
    subscriber = peer.declare_subscriber("k", FifoChannel(2))
    peer._runtime.backpressure.wait([subscriber.handler])
    assert not subscriber.handler.is_stalled
    assert not caplog.records


def test_callback_that_has_not_started_has_a_limited_capacity(peer: Session) -> None:
    """The loop may be busy elsewhere; what another thread publishes meanwhile is limited all the same."""
    caller = CallbackRunner(lambda _: None, None, Idle(), lambda _: None)
    assert all(caller.push(number) for number in range(caller.capacity - 1))
    assert not caller.push("one more")


def test_put_to_a_channel_of_the_same_thread_stalls_only_once(
    peer: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """eclipse-zenoh 1.10.2 waits for ever here."""
    monkeypatch.setattr(receive_backpressure, "MAX_BACKLOG_FACTOR", 10)
    subscriber = peer.declare_subscriber("k", FifoChannel(10))
    for number in range(200):
        peer.put("k", str(number))
    assert caplog.messages.count(caplog.messages[0]) == 1
    assert "is stalled (subscriber on k): took no item for 0.05 s" in caplog.messages[0]
    assert [subscriber.recv(0).payload.to_string() for _ in range(100)] == [str(number) for number in range(100)]
    assert subscriber.try_recv() is None
    peer.put("k", "again")
    assert subscriber.recv(0).payload.to_string() == "again"


def test_callback_can_publish_to_its_own_subscriber(peer: Session, caplog: pytest.LogCaptureFixture) -> None:
    found: list[int] = []

    def twice(sample: Sample) -> None:
        depth = int(sample.payload.to_string())
        found.append(depth)
        for _ in range(2 if depth < 11 else 0):
            peer.put("k", str(depth + 1))

    peer.declare_subscriber("k", twice)
    peer.put("k", "0")
    until(lambda: len(found) == 4095)
    assert not caplog.records


def test_local_reply_waits_for_the_querier(peer: Session) -> None:
    given: list[int] = []

    def reply_to(query: Query) -> None:
        for number in range(100):
            query.reply("q", str(number))
            given.append(number)

    peer.declare_queryable("q", reply_to)
    replies: Handler[Any] = peer.get(
        "q", FifoChannel(2), consolidation=ConsolidationMode.NONE, allowed_destination=Locality.SESSION_LOCAL
    )
    assert [reply.ok.payload.to_string() for reply in replies] == [str(number) for number in range(100)]


def test_unread_local_replies_are_limited(
    peer: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(receive_backpressure, "MAX_BACKLOG_FACTOR", 3)
    done = threading.Event()

    def reply_to(query: Query) -> None:
        for number in range(100):
            query.reply("q", str(number))
        done.set()

    peer.declare_queryable("q", reply_to)
    replies: Handler[Any] = peer.get("q", FifoChannel(2), consolidation=ConsolidationMode.NONE, timeout=TIMEOUT_SECONDS)
    assert done.wait(TIMEOUT_SECONDS)
    assert replies.backlog <= 7
    assert "is stalled (replies to a query): " in caplog.messages[0]


def test_query_waits_for_a_slow_local_queryable(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_backpressure, "STALL_TIMEOUT_SECONDS", TIMEOUT_SECONDS)
    queryable = peer.declare_queryable("q", FifoChannel(2))
    done = threading.Event()

    def query_four_times() -> None:
        for _ in range(4):
            peer.get("q", timeout=TIMEOUT_SECONDS)
        done.set()

    thread = threading.Thread(target=query_four_times)
    thread.start()
    until(lambda: queryable.handler.backlog == 2)
    assert not done.wait(0.05)
    for _ in range(4):
        queryable.recv(TIMEOUT_SECONDS).drop()
    assert done.wait(TIMEOUT_SECONDS)
    thread.join(TIMEOUT_SECONDS)


def test_put_in_the_loop_thread_never_waits(peer: Session) -> None:
    subscriber = peer.declare_subscriber("k", FifoChannel(1))
    done = threading.Event()

    def publish() -> None:
        for _ in range(5):
            peer.put("k", "")
        done.set()

    peer._runtime.call_soon(publish)
    assert done.wait(TIMEOUT_SECONDS)
    assert subscriber.handler.backlog == 5
    assert not subscriber.handler.is_stalled
