"""Sessions joined over loopback: matching status, declarations, callbacks, and the end of a session."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.api.sessions import address, config, connected, listening, replies_of
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.cancellation import CancellationToken
from zenspark.api.open import open
from zenspark.api.scouting import scout
from zenspark.api.session import Session, runtime_of
from zenspark.errors import SessionClosed, UsageError, ZError
from zenspark.handlers.arrow import ArrowBatches
from zenspark.handlers.handler import Callback, FifoChannel
from zenspark.key import KeyExpr
from zenspark.types.enums import CongestionControl, QueryTarget
from zenspark.types.sample import Sample
from zenspark.types.selector import Selector

# --- matching ---


def test_matching_listener_receives_changes(router: Session, client: Session) -> None:
    publisher = client.declare_publisher("demo/a")
    listener = publisher.declare_matching_listener()
    assert not publisher.matching_status
    subscriber = router.declare_subscriber("demo/**")
    assert listener.recv(TIMEOUT_SECONDS).matching is True
    assert publisher.matching_status
    second = publisher.declare_matching_listener()
    assert second.recv(TIMEOUT_SECONDS).matching is True
    subscriber.undeclare()
    assert listener.recv(TIMEOUT_SECONDS).matching is False
    own = client.declare_subscriber("demo/a")
    assert listener.recv(TIMEOUT_SECONDS).matching is True
    own.undeclare()
    assert listener.recv(TIMEOUT_SECONDS).matching is False
    publisher.undeclare()
    assert list(listener.handler) == []


def test_matching_status_of_all_complete_counts_complete_queryables_only(router: Session, client: Session) -> None:
    querier = client.declare_querier("q/a", target=QueryTarget.ALL_COMPLETE)
    other = client.declare_querier("q/a")
    router.declare_queryable("q/**", lambda _: None)
    until(lambda: other.matching_status)
    assert not querier.matching_status
    router.declare_queryable("q/*", lambda _: None, complete=True)
    until(lambda: querier.matching_status)


def test_matching_status_is_current_for_a_publisher_declared_later(router: Session, client: Session) -> None:
    first = client.declare_publisher("a")
    subscriber = router.declare_subscriber("a")
    until(lambda: first.matching_status)
    first.undeclare()
    subscriber.undeclare()
    second = client.declare_publisher("a")
    listener = second.declare_matching_listener()
    assert not second.matching_status
    router.declare_subscriber("a", lambda _: None)
    assert listener.recv(TIMEOUT_SECONDS)


# --- life ---


def test_closed_session_rejects_every_call(router: Session, client: Session) -> None:
    subscriber = client.declare_subscriber("a")
    publisher = client.declare_publisher("a")
    querier = client.declare_querier("a")
    waiting = router.declare_queryable("slow")
    found = client.get("slow", timeout=TIMEOUT_SECONDS)
    query = waiting.recv(TIMEOUT_SECONDS)
    client.close()
    client.close()
    assert client.is_closed()
    assert list(found) == []
    assert list(subscriber) == []
    calls: list[Callable[[], object]] = [
        lambda: client.put("a", b""),
        lambda: client.delete("a"),
        lambda: client.get("a"),
        lambda: client.declare_subscriber("a"),
        lambda: client.declare_queryable("a"),
        lambda: client.declare_publisher("a"),
        lambda: client.declare_querier("a"),
        lambda: client.declare_keyexpr("a"),
        lambda: client.liveliness().declare_token("a"),
        lambda: client.liveliness().declare_subscriber("a"),
        lambda: client.liveliness().get("a"),
        lambda: client.info.declare_link_events_listener(),
        lambda: publisher.put(b""),
        lambda: publisher.delete(),
        lambda: querier.get(),
    ]
    for call in calls:
        with pytest.raises(SessionClosed):
            call()
    assert client.info.links() == []
    assert not publisher.matching_status
    subscriber.undeclare()
    publisher.undeclare()
    query.drop()


@pytest.mark.slow
def test_publications_before_close_are_delivered(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("a", FifoChannel(100_000))
    for _ in range(50):
        client.put("a", b"x" * 1_000_000, congestion_control=CongestionControl.BLOCK)
    client.close()
    assert all(len(subscriber.recv(TIMEOUT_SECONDS).payload) == 1_000_000 for _ in range(50))


def test_unreferenced_session_closes(router: Session) -> None:
    session = connected("client", router)
    gone = weakref.ref(session)
    subscriber = session.declare_subscriber("a")
    session.declare_subscriber("b", lambda _: None)
    publisher = session.declare_publisher("c")
    del session
    assert gone() is None
    assert list(subscriber) == []
    until(lambda: not router.info.transports())
    with pytest.raises(SessionClosed):
        publisher.put(b"")


@pytest.mark.parametrize("indirect", [True, False])
def test_session_methods_can_be_called_from_callbacks(router: Session, client: Session, indirect: bool) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    echo = router.declare_subscriber("echo")
    done = threading.Event()
    trouble: list[BaseException] = []

    def act(sample: Sample) -> None:
        try:
            client.put("echo", sample.payload, congestion_control=CongestionControl.BLOCK)
            client.get("q", lambda _: None)
            client.declare_subscriber("other").undeclare()
            client.declare_publisher("other").undeclare()
            client.declare_queryable("other").undeclare()
            client.liveliness().declare_token("other").undeclare()
            list(client.info.links())
            client.close()
        except BaseException as error:
            trouble.append(error)
        done.set()

    client.declare_subscriber("go", Callback(act, indirect=indirect))
    publisher = router.declare_publisher("go")
    until(lambda: publisher.matching_status)
    publisher.put(b"ping")
    assert done.wait(TIMEOUT_SECONDS)
    assert trouble == []
    assert echo.recv(TIMEOUT_SECONDS).payload == b"ping"
    until(lambda: not router.info.transports())
    client.close()


def test_callback_runs_without_the_session_lock(peer: Session) -> None:
    """A callback that waits for a thread that uses the session must not wait for ever."""
    done = threading.Event()

    def act(_: Sample) -> None:
        helper = threading.Thread(target=lambda: peer.declare_subscriber("other").undeclare())
        helper.start()
        helper.join(TIMEOUT_SECONDS)
        if not helper.is_alive():
            done.set()

    peer.declare_subscriber("a", Callback(act, indirect=False))
    peer.put("a", b"")
    assert done.wait(TIMEOUT_SECONDS)


@pytest.mark.slow
def test_session_is_thread_safe(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("t/*", FifoChannel(100_000))
    router.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    trouble: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for count in range(50):
                client.put(f"t/{number}", str(count), congestion_control=CongestionControl.BLOCK)
                client.declare_subscriber(f"x/{number}").undeclare()
                assert len(list(client.get("q", timeout=TIMEOUT_SECONDS))) == 1
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * TIMEOUT_SECONDS)
    assert trouble == []
    assert len([subscriber.recv(TIMEOUT_SECONDS) for _ in range(400)]) == 400


def test_declare_keyexpr_returns_a_key_expression(router: Session, client: Session) -> None:
    key = client.declare_keyexpr("demo/a")
    subscriber = router.declare_subscriber(key)
    client.put(key, b"1")
    assert subscriber.recv(TIMEOUT_SECONDS).key_expr == key
    router.declare_queryable(key, lambda query: query.reply(key, b"2"))
    assert replies_of(client.get(key, timeout=TIMEOUT_SECONDS)) == ["demo/a"]
    assert replies_of(client.get(Selector(key, "x=1"), timeout=TIMEOUT_SECONDS)) == ["demo/a"]
    client.liveliness().declare_token(key).undeclare()
    client.undeclare(key)
    assert isinstance(key, KeyExpr)
    client.put(key, b"3")
    assert subscriber.recv(TIMEOUT_SECONDS).payload == b"3"


def test_declarations_wait_for_backlogged_links_first(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    entities, waits = peer._runtime.entities, []
    monkeypatch.setattr(peer._runtime, "wait_for_links", lambda: waits.append(len(entities)))
    before, liveliness = len(entities), peer.liveliness()
    declarations: list[Callable[[str], object]] = [
        peer.declare_publisher,
        peer.declare_subscriber,
        peer.declare_queryable,
        peer.declare_querier,
        liveliness.declare_token,
        liveliness.declare_subscriber,
    ]
    held = [declare("a") for declare in declarations]
    assert waits == list(range(before, before + len(held)))


def test_session_undeclare_ends_every_kind_of_entity(peer: Session) -> None:
    publisher = peer.declare_publisher("a")
    peer.undeclare(publisher)
    with pytest.raises(UsageError, match="publisher was undeclared"):
        publisher.put(b"")
    with pytest.raises(TypeError, match="expected a KeyExpr"):
        peer.undeclare("a")  # type: ignore[arg-type]  # that is the point


def test_ids_and_timestamps_of_a_session(peer: Session) -> None:
    assert peer.id.zid == peer.zid() == peer.info.zid()
    first, second = peer.new_timestamp(), peer.new_timestamp()
    assert first < second
    assert peer.declare_subscriber("a").id != peer.declare_subscriber("a").id


def test_invalid_key_expression_is_rejected(peer: Session) -> None:
    for call in (peer.put, peer.declare_subscriber):
        with pytest.raises(ZError):
            call("a//b", b"")  # type: ignore[call-overload]


def test_entities_work_again_after_reconnection() -> None:
    with listening("router") as first:
        where = address(first)
        client = connected("client", first)
        subscriber = client.declare_subscriber("down/*")
        publisher = client.declare_publisher("up/a")
        client.declare_queryable("q", lambda query: query.reply("q", b"yes"))
        token = client.liveliness().declare_token("live/client")
        port = int(where.rpartition(":")[2])
    until(lambda: not client.info.transports())
    with client, open(config("router", [f"tcp/127.0.0.1:{port}"])) as second:
        up = second.declare_subscriber("up/*")
        until(lambda: publisher.matching_status)
        publisher.put(b"again")
        assert up.recv(TIMEOUT_SECONDS).payload == b"again"
        until(lambda: second.declare_publisher("down/a").matching_status)
        second.put("down/a", b"back")
        assert subscriber.recv(TIMEOUT_SECONDS).payload == b"back"
        assert replies_of(second.get("q", timeout=TIMEOUT_SECONDS)) == ["q"]
        assert replies_of(second.liveliness().get("live/*")) == ["live/client"]
        token.undeclare()


def test_undeclared_key_expression_can_be_undeclared_again(router: Session) -> None:
    key = router.declare_keyexpr("a/b")
    router.undeclare(key)
    router.undeclare(key)
    router.put(key, b"1")


def test_undeclare_of_a_key_expression_that_was_not_declared_is_rejected(router: Session) -> None:
    with pytest.raises(UsageError, match="was not declared"):
        router.undeclare(KeyExpr("a/c"))
    with pytest.raises(TypeError):
        router.undeclare(3)  # type: ignore[arg-type]


def test_undeclare_of_a_key_expression_after_close_raises(peer: Session) -> None:
    key = peer.declare_keyexpr("a")
    peer.close()
    with pytest.raises(SessionClosed):
        peer.undeclare(key)


def test_repr_of_a_session_has_its_zid(router: Session) -> None:
    assert repr(router) == f"Session {{ zid: {router.zid()}, closed: false }}"


def test_recv_of_an_entity_with_callback_raises(router: Session) -> None:
    plain = router.declare_subscriber("a", print)
    filled = router.declare_subscriber("a", (print, ["mine"]))
    for error in (UsageError, AttributeError):
        with pytest.raises(error, match="no channel"):
            plain.recv()  # type: ignore[misc]
        with pytest.raises(error, match="no channel"):
            filled.try_recv()  # type: ignore[misc]
    with pytest.raises(TypeError, match="no channel"):
        iter(plain)
    assert list(filled) == ["mine"]


def test_runtime_of_a_session_belongs_to_its_node() -> None:
    with listening("peer") as session:
        assert str(runtime_of(session).node.identity.zid) == str(session.zid())


@pytest.mark.parametrize(
    "declare",
    [
        lambda session, handler: session.declare_queryable("k", handler),
        lambda session, handler: session.get("k", handler),
        lambda session, handler: session.get("k", handler, cancellation_token=CancellationToken()),
        lambda session, handler: session.declare_querier("k").get(handler),
        lambda session, handler: session.declare_querier("k").declare_matching_listener(handler),
        lambda session, handler: session.declare_publisher("k").declare_matching_listener(handler),
        lambda session, handler: session.liveliness().get("k", handler),
        lambda session, handler: session.info.declare_neighbour_events_listener(handler),
        lambda session, handler: session.info.declare_transport_events_listener(handler),
        lambda session, handler: session.info.declare_link_events_listener(handler),
        lambda _, handler: scout(handler),
    ],
)
def test_record_batches_are_rejected_where_items_are_no_samples(
    peer: Session, declare: Callable[[Session, Any], object]
) -> None:
    with pytest.raises(ValueError, match="expected a channel, a function or a pair"):
        declare(peer, ArrowBatches())


def test_coroutine_function_is_rejected_also_with_a_cancellation_token(peer: Session) -> None:
    async def on_reply(_: object) -> None: ...

    for token in (None, CancellationToken()):
        with pytest.raises(TypeError, match=r"zenspark\.aio"):
            peer.get("k", on_reply, cancellation_token=token)
    with pytest.raises(TypeError, match=r"zenspark\.aio"):
        peer.declare_subscriber("k", on_reply)
