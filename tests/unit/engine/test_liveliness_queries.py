"""Queries for liveliness tokens."""

from __future__ import annotations

import pytest

from tests.optional import some
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session


def test_liveliness_query_without_final_declaration_times_out(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer._runtime.interests, "declare", lambda *_: None)
    (reply,) = peer.liveliness().get("live/*", timeout=0.01)
    assert some(reply.err).payload == b"Timeout"


def test_liveliness_query_finishes_when_the_session_closes(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer._runtime.interests, "declare", lambda *_: None)
    found = peer.liveliness().get("live/*", timeout=TIMEOUT_SECONDS)
    peer.close()
    assert list(found) == []


def test_each_token_that_is_alive_is_one_reply(router: Session, client: Session) -> None:
    tokens = [router.liveliness().declare_token(f"live/{number}") for number in range(3)]
    until(lambda: len(list(client.liveliness().get("live/*", timeout=TIMEOUT_SECONDS))) == len(tokens))
    tokens[0].undeclare()
    until(
        lambda: (
            sorted(str(some(reply.ok).key_expr) for reply in client.liveliness().get("live/*", timeout=TIMEOUT_SECONDS))
            == ["live/1", "live/2"]
        )
    )
