"""Honest clients beside hostile ones: eclipse-zenoh and zenspark query each other without end, and count replies."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import zenoh

import zenspark
from tests.wait import TIMEOUT_SECONDS

KEY = "honest"
REPLY = "an honest reply"


class Client:
    """A session that queries in a thread of its own."""

    def __init__(self, name: str, query: Callable[[], bool]) -> None:
        self.name = name
        self.replied = 0
        self.unreplied = 0
        self.slowest = 0.0
        """Seconds of the slowest reply."""
        self._query = query
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self.once()

    def once(self) -> None:
        """Query, and wait for the reply."""
        started = time.monotonic()
        if self._query():
            self.replied += 1
            self.slowest = max(self.slowest, time.monotonic() - started)
        else:
            self.unreplied += 1

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(2 * TIMEOUT_SECONDS)


@contextlib.contextmanager
def honest_clients(locator: str) -> Iterator[list[Client]]:
    """Two clients of a router, each of which queries the queryable of the other, until this ends."""
    with eclipse_session(locator) as theirs, zenspark_session(locator) as mine:
        clients = [
            Client("eclipse-zenoh", lambda: query_with_eclipse(theirs, f"{KEY}/zenspark")),
            Client("zenspark", lambda: query_with_zenspark(mine, f"{KEY}/eclipse")),
        ]
        with (
            theirs.declare_queryable(f"{KEY}/eclipse", lambda query: query.reply(query.key_expr, REPLY)),
            mine.declare_queryable(f"{KEY}/zenspark", lambda query: query.reply(query.key_expr, REPLY)),
        ):
            wait_for_each_other(clients)
            for client in clients:
                client.start()
            try:
                yield clients
            finally:
                for client in clients:
                    client.stop()


def wait_for_each_other(clients: list[Client]) -> None:
    """Until the queryables are known everywhere; only then a query without a reply is the fault of the router."""
    for client in clients:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not client.replied:
            assert time.monotonic() < deadline, f"{client.name} gets no reply at all"
            client.once()
        client.replied, client.unreplied, client.slowest = 0, 0, 0.0


@contextlib.contextmanager
def eclipse_session(locator: str) -> Iterator[zenoh.Session]:
    config = zenoh.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["{locator}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    with zenoh.open(config) as session:
        yield session


@contextlib.contextmanager
def zenspark_session(locator: str) -> Iterator[zenspark.Session]:
    config = zenspark.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["{locator}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    with zenspark.open(config) as session:
        yield session


def query_with_eclipse(session: zenoh.Session, key: str) -> bool:
    """Whether the expected reply is received: hostile queryables may reply, or never, as well."""
    replies = session.get(
        key, target=zenoh.QueryTarget.ALL, consolidation=zenoh.ConsolidationMode.NONE, timeout=TIMEOUT_SECONDS
    )
    return any(reply.ok is not None and reply.ok.payload.to_bytes() == REPLY.encode() for reply in replies)


def query_with_zenspark(session: zenspark.Session, key: str) -> bool:
    replies = session.get(
        key, target=zenspark.QueryTarget.ALL, consolidation=zenspark.ConsolidationMode.NONE, timeout=TIMEOUT_SECONDS
    )
    return any(reply.ok is not None and reply.ok.payload.to_bytes() == REPLY.encode() for reply in replies)
