"""A process with many sessions of one library that come and go, half of them by a reset of their connection.

    python -m tests.hostile.churn zenoh tcp/127.0.0.1:7447 --sessions 50 --seed 1

`zenoh` and `zenspark` are used by the very same lines. It prints a line when all sessions are there, goes on until
there is something on its standard input, leaves with all sessions, and prints what it has done as JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import select
import socket
import sys
from collections import Counter
from random import Random
from typing import Any

import psutil

ROLES = ["client", "client", "peer", "router"]
KEY = "churn"
PAYLOAD = bytes(200)
QUERY_SECONDS = 5.0
STAY = 25
"""A session leaves after so many actions, on average."""


class Churn:
    """Sessions of one library with one router."""

    def __init__(self, library: str, locator: str, sessions: int, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self._library: Any = importlib.import_module(library)
        self._locator = locator
        self._random = Random(seed)
        self._sessions: list[Any] = [None] * sessions
        self._sockets: list[int] = [-1] * sessions

    def step(self) -> None:
        """One session comes, does something, or goes."""
        at = self._random.randrange(len(self._sessions))
        if self._sessions[at] is None:
            self._join(at)
        elif self._random.randrange(STAY):
            self._act(self._sessions[at])
        else:
            self._leave(at, by_reset=self._random.random() < 0.5)

    def join_all(self) -> None:
        for at in range(len(self._sessions)):
            self._join(at)

    def leave_all(self) -> None:
        for at, session in enumerate(self._sessions):
            if session is not None:
                self._leave(at, by_reset=False)

    def _join(self, at: int) -> None:
        mode = self._random.choice(ROLES)
        config = self._library.Config()
        settings = {
            "mode": mode,
            "connect/endpoints": [self._locator],
            "listen/endpoints": [],
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": False,
            "transport/shared_memory/enabled": False,
        }
        for key, value in settings.items():
            config.insert_json5(key, json.dumps(value))
        before = connections(self._locator)
        try:
            session = self._library.open(config)
        except self._library.ZError:
            self.done["refused"] += 1
            return
        self._sessions[at] = session
        self._sockets[at] = next(iter(connections(self._locator) - before), -1)
        self.done[f"sessions as {mode}"] += 1
        session.declare_subscriber(f"{KEY}/**", lambda sample: None).undeclare()
        self._declare(session, at)

    def _declare(self, session: Any, at: int) -> None:  # noqa: ANN401 - of either library
        """Declare something that stays as long as the session."""
        kind = self._random.randrange(3)
        if kind == 0:
            session.declare_subscriber(f"{KEY}/{self._random.randrange(8)}/*", lambda sample: None)
        elif kind == 1:
            session.declare_queryable(f"{KEY}/{at}", lambda query: query.reply(query.key_expr, b"here"))
        else:
            session.liveliness().declare_token(f"{KEY}/{at}")

    def _act(self, session: Any) -> None:  # noqa: ANN401 - of either library
        key = f"{KEY}/{self._random.randrange(8)}"
        try:
            if self._random.random() < 0.8:
                session.put(f"{key}/a", PAYLOAD)
                self.done["publications"] += 1
            else:
                list(session.get(key, timeout=QUERY_SECONDS))
                self.done["queries"] += 1
        except self._library.ZError:
            self.done["failures"] += 1

    def _leave(self, at: int, by_reset: bool) -> None:
        if by_reset and self._sockets[at] >= 0:
            reset(self._sockets[at])
            self.done["resets"] += 1
        self._sessions[at].close()
        self._sessions[at], self._sockets[at] = None, -1


def connections(locator: str) -> set[int]:
    """The descriptors of this process that are connected to a router."""
    port = int(locator.rpartition(":")[2])
    found = psutil.Process().net_connections("tcp")
    return {each.fd for each in found if each.raddr[1:] == (port,)}


def reset(descriptor: int) -> None:
    """Abort a connection, whichever process holds its socket: on Linux, to connect it to nothing does so by an RST."""
    nothing = socket.AF_UNSPEC.to_bytes(2, sys.byteorder) + bytes(14)
    ctypes.CDLL(None).connect(descriptor, nothing, len(nothing))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["zenoh", "zenspark"])
    parser.add_argument("locator")
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    churn = Churn(given.library, given.locator, given.sessions, given.seed)
    churn.join_all()
    print("joined", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        churn.step()
    churn.leave_all()
    print(json.dumps(churn.done), flush=True)
    os._exit(0)  # sessions that were reset may still be trying to come back


if __name__ == "__main__":
    main()
