"""Callbacks that raise what usually ends a program: it is logged, the next call comes, and the end is quick."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tests.unit.api.sessions import listening, pair
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.handlers.handler import Callback
from zenspark.types.query import Query

ERRORS = [SystemExit, KeyboardInterrupt]


class RaisingCallback:
    """A callback that raises each time, and so does its drop."""

    def __init__(self, error: type[BaseException]) -> None:
        self.count = 0
        self.dropped = threading.Event()
        self._error = error

    def __call__(self, _: object) -> None:
        self.count += 1
        raise self._error

    def drop(self) -> None:
        self.dropped.set()
        raise self._error

    @property
    def handler(self) -> Callback[object]:
        return Callback(self, self.drop)


@pytest.mark.parametrize("error", ERRORS)
def test_subscriber_is_called_again_after_its_callback_raised(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    calls = RaisingCallback(error)
    with listening("peer") as session:
        subscriber = session.declare_subscriber("a", calls.handler)
        for number in range(3):
            session.put("a", b"")
            until(lambda: calls.count == number + 1)  # noqa: B023
        subscriber.undeclare()
        assert calls.dropped.wait(TIMEOUT_SECONDS)
    assert [record.levelname for record in caplog.records if record.name == "zenspark.handlers"] == ["ERROR"] * 4


@pytest.mark.parametrize("error", ERRORS)
def test_a_query_ends_although_its_queryable_raises(error: type[BaseException]) -> None:
    def reply_to(query: Query) -> None:
        query.reply("a", b"before")
        raise error

    with pair("peer", "peer") as (one, other):
        one.declare_queryable("a", reply_to)
        until(lambda: list(other.get("a", timeout=TIMEOUT_SECONDS)))
        assert [reply.ok is not None for reply in other.get("a", timeout=TIMEOUT_SECONDS)] == [True]
        assert [reply.ok is not None for reply in one.get("a", timeout=TIMEOUT_SECONDS)] == [True]


@pytest.mark.parametrize("error", ERRORS)
def test_reply_matching_and_liveliness_callbacks_are_called_again_after_they_raised(error: type[BaseException]) -> None:
    replies, matching, tokens = RaisingCallback(error), RaisingCallback(error), RaisingCallback(error)
    with listening("peer") as session:
        session.declare_queryable("a", lambda query: query.reply("a", b""))
        for _ in range(2):
            session.get("a", replies.handler)
        publisher = session.declare_publisher("b")
        publisher.declare_matching_listener(matching.handler)
        session.liveliness().declare_subscriber("c/*", tokens.handler)
        for number in range(2):
            with session.declare_subscriber("b"), session.liveliness().declare_token("c/d"):
                until(lambda: matching.count == tokens.count == 2 * number + 1)  # noqa: B023
            until(lambda: matching.count == tokens.count == 2 * number + 2)  # noqa: B023
        until(lambda: replies.count == 2)


PROGRAM = """
import sys, threading, zenspark
config = zenspark.Config()
config.insert_json5("scouting/multicast/enabled", "false")
config.insert_json5("listen/endpoints", "[]")
session = zenspark.open(config)
called = threading.Semaphore(0)
def callback(sample):
    called.release()
    sys.exit(3)
subscriber = session.declare_subscriber("a", callback)
for _ in range(2):
    session.put("a", "1")
    assert called.acquire(timeout=30)
subscriber.undeclare()
session.close()
print("closed")
"""


def test_a_program_whose_callbacks_exit_ends_at_once() -> None:
    """The thread that ended without a word made closing wait for 30 s."""
    ended: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run
    result = ended([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=TIMEOUT_SECONDS - 5)
    assert (result.stdout, result.returncode) == ("closed\n", 0), result.stderr
