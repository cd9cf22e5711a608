"""Liveliness tokens of two sessions."""

from __future__ import annotations

import pytest

from tests.unit.api.sessions import PAIRS, connected, pair, replies_of
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
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
