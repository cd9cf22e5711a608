"""Liveliness tokens of two sessions."""

from __future__ import annotations

import pytest

from tests.unit.api.handler_loops import FailingHandler
from tests.unit.api.sessions import PAIRS, connected, pair, replies_of
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.handlers.arrow import ArrowBatches
from zenspark.types.enums import (
    SampleKind,
)


@pytest.mark.parametrize(("listener", "caller"), PAIRS)
def test_token_is_delivered_when_declared_and_undeclared(listener: str, caller: str) -> None:
    with pair(listener, caller) as (one, other):
        for here, there in [(one, other), (other, one)]:
            token = here.liveliness().declare_token("live/first")
            until(lambda: replies_of(there.liveliness().get("live/**")) == ["live/first"])  # noqa: B023 - at once
            with (
                there.liveliness().declare_subscriber("live/**", history=True) as old,
                there.liveliness().declare_subscriber("live/**") as new,
            ):
                assert old.recv(TIMEOUT_SECONDS).kind is SampleKind.PUT
                second = here.liveliness().declare_token("live/second")
                for subscriber in (old, new):
                    sample = subscriber.recv(TIMEOUT_SECONDS)
                    assert (sample.key_expr, sample.kind, sample.payload) == ("live/second", SampleKind.PUT, b"")  # type: ignore[comparison-overlap]  # equal by design
                second.undeclare()
                sample = new.recv(TIMEOUT_SECONDS)
                assert (sample.key_expr, sample.kind) == ("live/second", SampleKind.DELETE)  # type: ignore[comparison-overlap]  # equal by design
            token.undeclare()
            until(lambda: replies_of(there.liveliness().get("live/**")) == [])  # noqa: B023 - at once


def test_tokens_disappear_when_their_session_closes(router: Session, client: Session) -> None:
    with connected("client", router) as other:
        token = other.liveliness().declare_token("live/a")
        subscriber = client.liveliness().declare_subscriber("live/*", history=True)
        assert subscriber.recv(TIMEOUT_SECONDS).kind is SampleKind.PUT
        assert token.id.zid == other.zid()
    assert subscriber.recv(TIMEOUT_SECONDS).kind is SampleKind.DELETE


def test_tokens_are_delivered_as_record_batches(router: Session, client: Session) -> None:
    with (
        router.liveliness().declare_token("live/a"),
        client.liveliness().declare_subscriber("live/*", ArrowBatches(max_delay=0), history=True) as subscriber,
    ):
        assert subscriber.recv(TIMEOUT_SECONDS).column("key").to_pylist() == ["live/a"]


def test_failing_sink_of_tokens_does_not_close_the_session_with_the_neighbour(
    router: Session, client: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        client.liveliness().declare_subscriber("live/*", FailingHandler(), history=True),
        router.liveliness().declare_token("live/a"),
    ):
        until(lambda: "handler of the subscriber of live/* failed" in caplog.text)
        assert replies_of(client.liveliness().get("live/*")) == ["live/a"]
    assert [transport.zid for transport in client.info.transports()] == [router.zid()]
