"""Honest clients beside hostile ones: eclipse-zenoh and zenspark ask each other without end, and count the answers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import zenoh

import zenspark
from tests.waiting import PATIENCE

KEY = "honest"
ANSWER = "an honest answer"


class Client:
    """A session that asks in a thread of its own."""

    def __init__(self, name: str, ask: Callable[[], bool]) -> None:
        self.name = name
        self.answered = 0
        self.unanswered = 0
        self.slowest = 0.0
        """Seconds the slowest answer took."""
        self._ask = ask
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self.once()

    def once(self) -> None:
        """Ask, and wait for the answer."""
        started = time.monotonic()
        if self._ask():
            self.answered += 1
            self.slowest = max(self.slowest, time.monotonic() - started)
        else:
            self.unanswered += 1

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(2 * PATIENCE)


@contextlib.contextmanager
def honest_clients(locator: str) -> Iterator[list[Client]]:
    """Two clients of a router, each of which asks what the other answers, until this ends."""
    with reference(locator) as theirs, ours(locator) as mine:
        clients = [
            Client("eclipse-zenoh", lambda: ask_by_reference(theirs, f"{KEY}/zenspark")),
            Client("zenspark", lambda: ask_by_zenspark(mine, f"{KEY}/eclipse")),
        ]
        with (
            theirs.declare_queryable(f"{KEY}/eclipse", lambda query: query.reply(query.key_expr, ANSWER)),
            mine.declare_queryable(f"{KEY}/zenspark", lambda query: query.reply(query.key_expr, ANSWER)),
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
    """Until the queryables are known everywhere; only then an unanswered query is the fault of the router."""
    for client in clients:
        deadline = time.monotonic() + PATIENCE
        while not client.answered:
            assert time.monotonic() < deadline, f"{client.name} is not answered at all"
            client.once()
        client.answered, client.unanswered, client.slowest = 0, 0, 0.0


@contextlib.contextmanager
def reference(locator: str) -> Iterator[zenoh.Session]:
    config = zenoh.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["{locator}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    with zenoh.open(config) as session:
        yield session


@contextlib.contextmanager
def ours(locator: str) -> Iterator[zenspark.Session]:
    config = zenspark.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["{locator}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    with zenspark.open(config) as session:
        yield session


def ask_by_reference(session: zenoh.Session, key: str) -> bool:
    """Whether the answer is among those that come: hostile queryables may answer, or never, as well."""
    replies = session.get(
        key, target=zenoh.QueryTarget.ALL, consolidation=zenoh.ConsolidationMode.NONE, timeout=PATIENCE
    )
    return any(reply.ok is not None and reply.ok.payload.to_bytes() == ANSWER.encode() for reply in replies)


def ask_by_zenspark(session: zenspark.Session, key: str) -> bool:
    replies = session.get(
        key, target=zenspark.QueryTarget.ALL, consolidation=zenspark.ConsolidationMode.NONE, timeout=PATIENCE
    )
    return any(reply.ok is not None and reply.ok.payload.to_bytes() == ANSWER.encode() for reply in replies)
