"""An eclipse-zenoh node is killed and started again: we come back, and nothing is declared anew by hand."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.interop.reference import eventually, ours, reference, unused
from zenspark.api.open import open as open_session
from zenspark.types.query import Query

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("zenoh") is None, reason="eclipse-zenoh is not installed"),
]
RETRY = {"period_init_ms": 50, "period_max_ms": 200, "period_increase_factor": 2}


def on_query(query: Query) -> None:
    with query:
        query.reply(query.key_expr, "ours")


@pytest.mark.parametrize(("mode", "theirs"), [("client", "router"), ("peer", "router"), ("peer", "peer")])
def test_everything_is_declared_again_after_reconnect(mode: str, theirs: str) -> None:
    there = unused()
    config = ours(mode=mode, connect__endpoints=[there], connect__retry=RETRY)
    received: list[str] = []
    with reference(mode=theirs, listen__endpoints=[there]) as first:
        session = open_session(config)
        subscriber = session.declare_subscriber("down/**", lambda sample: received.append(sample.payload.to_string()))
        queryable = session.declare_queryable("q/**", on_query)
        token = session.liveliness().declare_token("alive/us")
        publisher = session.declare_publisher("up/key")
        first.execute("sub up/**")
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put("before")
        assert first.line() == "received up/key before"
        first.kill()
        assert eventually(lambda: not list(session.info.transports()))
        publisher.put("lost, and nothing happens")
    with reference(mode=theirs, listen__endpoints=[there]) as second:
        assert eventually(lambda: list(session.info.transports())), "we did not come back"
        assert str(next(iter(session.info.transports())).zid) == second.zid

        def is_received() -> bool:
            second.execute("put down/x after")
            return "after" in received

        assert eventually(is_received), "the subscriber is not known there"
        assert eventually(lambda: second.execute("get q/x") == ["reply ours"])
        assert eventually(lambda: second.execute("live alive/**") == ["alive alive/us"])
        second.execute("sub up/**")
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put("again")
        assert second.line() == "received up/key again"
        assert subscriber is not None
        assert queryable is not None
        assert token is not None
        session.close()


def test_initially_unreachable_router_is_connected_later() -> None:
    there = unused()
    session = open_session(ours(mode="peer", connect__endpoints=[there], connect__retry=RETRY))
    received: list[str] = []
    session.declare_subscriber("down/**", lambda sample: received.append(sample.payload.to_string()))
    with reference(mode="router", listen__endpoints=[there]) as node:

        def is_received() -> bool:
            node.execute("put down/x hello")
            return bool(received)

        assert eventually(is_received)
        session.close()
