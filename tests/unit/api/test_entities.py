"""What is declared lives as long as it should, and no longer."""

from __future__ import annotations

import gc
import math
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.optional import some
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.entities import Entity, Subscriber
from zenspark.api.session import Session
from zenspark.errors import UsageError
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout
from zenspark.handlers.handler import Callback, FifoChannel

DECLARE: dict[str, Callable[[Session], Entity]] = {
    "subscriber": lambda session: session.declare_subscriber("a"),
    "queryable": lambda session: session.declare_queryable("a"),
    "publisher": lambda session: session.declare_publisher("a"),
    "querier": lambda session: session.declare_querier("a"),
    "token": lambda session: session.liveliness().declare_token("a"),
    "liveliness subscriber": lambda session: session.liveliness().declare_subscriber("a"),
    "transport listener": lambda session: session.info.declare_transport_events_listener(),
    "link listener": lambda session: session.info.declare_link_events_listener(),
}


@pytest.mark.parametrize("kind", DECLARE)
def test_unreferenced_entity_ends(peer: Session, kind: str) -> None:
    before = len(peer._runtime.entities)
    entity = DECLARE[kind](peer)
    gone = weakref.ref(entity)
    assert len(peer._runtime.entities) == before + 1
    del entity
    assert gone() is None
    until(lambda: len(peer._runtime.entities) == before)


@pytest.mark.parametrize("kind", DECLARE)
def test_use_of_an_undeclared_entity_raises(peer: Session, kind: str) -> None:
    with DECLARE[kind](peer) as entity:
        assert entity.id.zid == peer.zid()
    for use in (entity.undeclare, lambda: entity.id, entity.__enter__):
        with pytest.raises(UsageError, match="was undeclared"):
            use()


@pytest.mark.parametrize("kind", ["subscriber", "queryable", "publisher", "querier", "liveliness subscriber"])
def test_error_after_undeclare_names_the_kind_of_entity(peer: Session, kind: str) -> None:
    entity = DECLARE[kind](peer)
    entity.undeclare()
    with pytest.raises(UsageError, match=f"^this {kind} was undeclared"):
        entity.undeclare()


@pytest.mark.parametrize("end", ["undeclare", "with"])
def test_queries_left_in_the_channel_of_an_undeclared_queryable_end(peer: Session, end: str) -> None:
    """The querier does not wait for the timeout."""
    queryable = peer.declare_queryable("q")
    replies = peer.get("q", timeout=TIMEOUT_SECONDS)
    until(lambda: queryable.handler.backlog == 1)
    if end == "with":
        with queryable:
            pass
    else:
        queryable.undeclare()
    assert list(replies) == []


def test_queries_of_an_undeclared_queryable_are_received_by_a_loop_that_runs(peer: Session) -> None:
    queryable = peer.declare_queryable("q")
    received = iter(queryable)
    replies = peer.get("q", timeout=TIMEOUT_SECONDS)
    until(lambda: queryable.handler.backlog == 1)
    queryable.undeclare()
    for query in received:
        with query:
            query.reply("q", "late")
    assert [some(reply.ok).payload.to_string() for reply in replies] == ["late"]


def test_undeclare_inside_the_with_block_is_allowed(peer: Session) -> None:
    with peer.declare_subscriber("a") as subscriber:
        subscriber.undeclare()
    for use in (subscriber.recv, subscriber.try_recv, subscriber.__iter__, lambda: subscriber.key_expr):
        with pytest.raises(UsageError, match="was undeclared"):
            use()


def test_unreferenced_entity_with_callback_stays(peer: Session) -> None:
    found: list[object] = []
    dropped = threading.Event()
    peer.declare_subscriber("a", Callback(found.append, dropped.set))
    peer.declare_queryable("a", lambda query: query.reply("a", b""))
    peer.liveliness().declare_subscriber("a", found.append)
    gc.collect()
    peer.put("a", b"")
    token = peer.liveliness().declare_token("a")
    until(lambda: len(found) == 2)
    assert len(list(peer.get("a", timeout=TIMEOUT_SECONDS))) == 1
    assert not dropped.is_set()
    peer.close()
    assert dropped.wait(TIMEOUT_SECONDS)
    token.undeclare()


def test_a_pair_of_callback_and_object_ends_with_its_subscriber(peer: Session) -> None:
    waiting: queue.Queue[Any] = queue.Queue()
    dropped = threading.Event()
    subscriber = peer.declare_subscriber("a", (Callback(waiting.put, dropped.set), waiting))
    assert subscriber.handler is waiting
    peer.put("a", b"1")
    assert waiting.get(timeout=TIMEOUT_SECONDS).payload == b"1"
    with pytest.raises(UsageError, match="no channel"):
        subscriber.recv()  # type: ignore[misc]
    del subscriber
    assert dropped.wait(TIMEOUT_SECONDS)


def test_recv_uses_a_custom_handler_with_recv(peer: Session) -> None:
    class Last:
        def __init__(self) -> None:
            self.item: Any = None

        def recv(self) -> Any:  # noqa: ANN401 - whatever came
            return self.item

        def try_recv(self) -> Any:  # noqa: ANN401 - whatever came
            return self.item

    last = Last()
    subscriber = peer.declare_subscriber("a", (lambda sample: setattr(last, "item", sample), last))
    peer.put("a", b"1")
    until(lambda: last.item)
    receiver: Any = subscriber  # type checkers know no channel there
    assert receiver.recv().payload == receiver.try_recv().payload == b"1"


def test_recv_raises_after_timeout_and_after_close(peer: Session) -> None:
    subscriber = peer.declare_subscriber("a")
    with pytest.raises(ReceiveTimeout):
        subscriber.recv(timeout=0.01)
    peer.put("a", b"1")
    peer.put("a", b"2")
    handler = subscriber.handler
    subscriber.undeclare()
    assert [sample.payload.to_bytes() for sample in handler] == [b"1", b"2"]
    with pytest.raises(ChannelClosed):
        handler.recv()


def test_a_liveliness_subscriber_is_a_subscriber(peer: Session) -> None:
    subscriber = peer.liveliness().declare_subscriber("a/*")
    assert isinstance(subscriber, Subscriber)
    assert subscriber.key_expr == "a/*"


def test_undeclaring_a_full_liveliness_subscriber_resumes_its_link(router: Session, client: Session) -> None:
    subscriber = client.liveliness().declare_subscriber("a", FifoChannel(1), history=True)
    (link,) = client._runtime.node.drivers.values()
    with router.liveliness().declare_token("a"):
        until(lambda: link._paused)
        subscriber.undeclare()
        assert not link._paused


def test_tokens_of_the_same_session_are_delivered(peer: Session) -> None:
    with peer.liveliness().declare_subscriber("a") as subscriber, peer.liveliness().declare_token("a"):
        assert subscriber.recv(TIMEOUT_SECONDS).key_expr == "a"


def test_recv_with_a_timeout_that_is_no_number_raises(peer: Session) -> None:
    with peer.declare_subscriber("k") as subscriber:
        with pytest.raises(ValueError, match=r"NaN|nan"):
            subscriber.recv(math.nan)
        with pytest.raises(TypeError):
            subscriber.recv("1")  # type: ignore[arg-type]
