"""Sessions for tests, joined over loopback; every wait is for something to happen, and bounded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import zenspark.api.open
from tests.wait import until
from zenspark.api.session import Session
from zenspark.config.config import Config

PAIRS = [("router", "client"), ("peer", "client"), ("peer", "peer"), ("router", "peer")]
"""Modes of two connected sessions: that of the listener, and that of the other."""


def config(mode: str, listen: Iterable[str] = (), connect: Iterable[str] = (), **others: object) -> Config:
    """A configuration without scouting; `others` are keys with `__` for each slash."""
    made = Config()
    settings = {
        "mode": mode,
        "listen/endpoints": list(listen),
        "connect/endpoints": list(connect),
        "scouting/multicast/enabled": False,
        "connect/retry": {"period_init_ms": 20, "period_max_ms": 100, "period_increase_factor": 2},
        **{name.replace("__", "/"): value for name, value in others.items()},
    }
    for name, value in settings.items():
        made.insert_json5(name, json.dumps(value))
    return made


def address(session: Session) -> str:
    """Where a session listens."""
    return session._runtime.node.listeners[0].locator.text


def listening(mode: str, **others: object) -> Session:
    """A session others can connect to."""
    return zenspark.api.open.open(config(mode, ["tcp/127.0.0.1:0"], (), **others))


def connected(mode: str, other: Session, **others: object) -> Session:
    """A session with another one, known to both."""
    session = zenspark.api.open.open(config(mode, (), [address(other)], **others))
    until(lambda: has_neighbour(session, other) and has_neighbour(other, session))
    return session


def has_neighbour(session: Session, other: Session) -> bool:
    return any(transport.zid == other.zid() for transport in session.info.transports())


@contextmanager
def pair(listener: str, caller: str) -> Iterator[tuple[Session, Session]]:
    """Two sessions, joined: the one that listens and the one that called."""
    with listening(listener) as one, connected(caller, one) as other:
        yield one, other


def replies_of(found: Iterable[Any]) -> list[str]:
    """Return the key of each reply, or its error."""
    return [str(reply.ok.key_expr) if reply.ok else "error " + reply.err.payload.to_string() for reply in found]
