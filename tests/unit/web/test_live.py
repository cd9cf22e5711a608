"""A page over its WebSocket: what it subscribes to, in batches."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.unit.web.served import context_of, netloc, opened, serving
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.web import key_monitor, limits
from zenspark.web.live import MAX_BATCH_SAMPLES
from zenspark.web.server import HttpServer


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened() as made:
        yield made


@pytest.fixture
def server(session: Session) -> Iterator[HttpServer]:
    with serving(session) as made:
        yield made


@pytest.fixture
def page(server: HttpServer) -> Iterator[ClientConnection]:
    with connect(f"ws://{netloc(server)}/_api/live", open_timeout=TIMEOUT_SECONDS, max_size=None) as made:
        yield made


def select_feeds(page: ClientConnection, **wanted: object) -> None:
    page.send(json.dumps({"subscribe": wanted}))


def receive(page: ClientConnection, name: str, accept: Callable[[Any], object] = bool) -> Any:  # noqa: ANN401 - JSON
    """The first message of a kind that is accepted."""
    while True:
        message = json.loads(page.recv(TIMEOUT_SECONDS))
        if name in message and accept(message[name]):
            return message[name] if name != "samples" else message


@pytest.mark.slow
def test_page_receives_changed_keys_of_its_key_expression(
    session: Session, server: HttpServer, page: ClientConnection
) -> None:
    select_feeds(page, keys="demo/**")
    assert receive(page, "keys")["rows"] == []
    session.put("demo/a", b"one")
    session.put("other", b"")
    found = receive(page, "keys", lambda keys: keys["rows"])
    assert [(row["key"], row["count"], row["value"]) for row in found["rows"]] == [("demo/a", 1, "one")]
    assert (found["total"], found["truncated"]) == (1, False)
    session.put("demo/b", b"two")
    assert "demo/b" in [row["key"] for row in receive(page, "keys", lambda keys: keys["total"] == 2)["rows"]]
    select_feeds(page, keys="other")
    assert receive(page, "keys", lambda keys: keys["total"] == 0)


@pytest.mark.slow
def test_first_batch_has_the_first_keys(
    session: Session, page: ClientConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_monitor, "WARM_UP_SECONDS", TIMEOUT_SECONDS)
    publisher = session.declare_publisher("first/a")
    select_feeds(page, keys="first/**")
    assert until(lambda: publisher.matching_status.matching)
    publisher.put(b"one")
    assert [row["key"] for row in receive(page, "keys")["rows"]] == ["first/a"]


@pytest.mark.slow
def test_page_receives_followed_samples_and_the_number_of_skipped_ones(
    session: Session, page: ClientConnection, server: HttpServer
) -> None:
    publisher = session.declare_publisher("demo/a", encoding="application/json")
    select_feeds(page, follow="demo/*")
    assert until(lambda: publisher.matching_status.matching)
    publisher.put('{"x":1}')
    found = receive(page, "samples")
    (sample,) = found["samples"]
    assert (sample["key"], sample["kind"], sample["value"]["json"], found["skipped"]) == ("demo/a", "PUT", {"x": 1}, 0)
    for _ in range(3 * MAX_BATCH_SAMPLES):
        publisher.put("{}")
    seen = skipped = 0
    while seen + skipped < 3 * MAX_BATCH_SAMPLES:
        found = receive(page, "samples")
        assert len(found["samples"]) <= MAX_BATCH_SAMPLES
        seen, skipped = seen + len(found["samples"]), skipped + found["skipped"]
    select_feeds(page)
    assert until(lambda: not publisher.matching_status.matching)


@pytest.mark.slow
def test_page_receives_overview_and_network(session: Session, page: ClientConnection) -> None:
    select_feeds(page, overview=True, network=True)
    network = receive(page, "network", lambda network: network["nodes"])
    assert [node["zid"] for node in network["nodes"] if node["self"]] == [str(session.zid())]
    overview = receive(page, "overview")
    assert (overview["sessions"], overview["recorded"], overview["problems"]) == (0, None, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "error"),
    [
        ('{"subscribe": {"keys": "a//b"}}', "expected a chunk that is not empty"),
        ('{"subscribe": {"follow": 1}}', "Expected `str | null`"),
        ("nonsense", "JSON is malformed"),
    ],
)
def test_invalid_subscription_gets_an_error_message(
    sent: str, error: str, page: ClientConnection, session: Session
) -> None:
    page.send(sent)
    assert error in receive(page, "error")
    select_feeds(page, keys="demo/**")
    assert receive(page, "keys")


def test_subscribers_of_a_closed_page_are_undeclared(session: Session, server: HttpServer) -> None:
    publisher = session.declare_publisher("demo/left")
    with connect(f"ws://{netloc(server)}/_api/live") as page:
        select_feeds(page, follow="demo/left", network=True)
        assert until(lambda: publisher.matching_status.matching)
        assert context_of(server).counts.sockets == 1
    assert until(lambda: not publisher.matching_status.matching)
    assert until(lambda: context_of(server).counts.sockets == 0)


@pytest.mark.slow
def test_a_page_that_does_not_read_is_dropped(
    session: Session, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CLIENT_STALL_TIMEOUT_SECONDS", 0.05)
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.connect(server.address)
    # it does not read the end of the connection either, which closing it would wait for
    with connect(f"ws://{netloc(server)}/_api/live", sock=link, max_size=None, max_queue=1, close_timeout=0) as page:
        select_feeds(page, follow="demo/**")
        counts = context_of(server).counts

        def put() -> bool:
            session.put("demo/a", bytes(200_000))
            return counts.disconnected == {"stalled": 1}

        assert until(put)
        assert until(lambda: counts.sockets == 0)


def test_closing_the_server_closes_pages(session: Session) -> None:
    with serving(session) as server:
        address = f"ws://{netloc(server)}/_api/live"
        with connect(address) as page:
            assert until(lambda: context_of(server).counts.sockets == 1)
            server.close()
            with pytest.raises(ConnectionClosed):
                receive(page, "nothing")


def test_websocket_over_the_limit_is_rejected(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_STREAMS", 0)
    with pytest.raises(InvalidStatus), connect(f"ws://{netloc(server)}/_api/live"):
        pass


@pytest.mark.slow
def test_access_control_applies_to_live_keys() -> None:
    rule = {
        **{"id": "no", "permission": "deny", "key_exprs": ["shut/**"], "flows": ["ingress", "egress"]},
        "messages": ["put", "delete", "query", "declare_subscriber", "reply"],
    }
    control = {
        **{"enabled": True, "default_permission": "allow", "rules": [rule]},
        "subjects": [{"id": "web", "usernames": ["ann"], "link_protocols": ["http"]}],
        "policies": [{"rules": ["no"], "subjects": ["web"]}],
    }
    with opened(access_control=control) as session, serving(session, user="ann", password="p") as server:
        token = context_of(server).auth.make_cookie()
        headers = {"Cookie": f"zenspark_login={token}"}
        with connect(f"ws://{netloc(server)}/_api/live", additional_headers=headers) as page:
            select_feeds(page, keys="shut/a")
            assert receive(page, "error") == "access control denies declare_subscriber on 'shut/a'"
            select_feeds(page, keys="**")
            receive(page, "keys")
            session.put("shut/a", b"")
            session.put("open/a", b"")
            found = receive(page, "keys", lambda keys: keys["total"] == 2)
            assert [row["key"] for row in found["rows"]] == ["open/a"]
