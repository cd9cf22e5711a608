"""`zenspark top` on a real terminal, beside a router of this package."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.tmux import zenspark_on_terminal
from tests.unit.api.sessions import address, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.types.enums import CongestionControl


@contextmanager
def publishing(session: Session, *keys: str) -> Iterator[None]:
    """Publish on these keys, on the first most often, until the test ends."""
    is_over = threading.Event()

    def publish() -> None:
        number = 0
        while not is_over.wait(0.01):
            for place, key in enumerate(keys):
                if number % (1 + 4 * place) == 0:
                    session.put(key, f"value {number}")
            number += 1

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(TIMEOUT_SECONDS)


@pytest.mark.slow
def test_top_sorts_filters_pauses_lists_sessions_and_quits() -> None:
    with (
        listening("router") as router,
        publishing(router, "fleet/a/pose", "fleet/b/battery"),
        zenspark_on_terminal("top", "fleet/**", "-e", address(router), "--no-multicast-scouting") as terminal,
    ):
        terminal.wait_for("fleet/b/battery")
        terminal.wait_for("connected 1 of 1")
        assert "value " in terminal.wait_for("2 keys")
        until(lambda: terminal.lines[3].startswith("fleet/a/pose"))
        for order in ("bytes", "messages", "age", "key"):
            terminal.type("s")
            terminal.wait_for(f"sort: {order}")
        terminal.type("/")
        terminal.wait_for("Enter keeps it")
        terminal.type("battery", "Enter")
        terminal.wait_for("filter: battery")
        until(lambda: "fleet/a/pose" not in terminal.screen)
        terminal.type("/", "Escape")
        terminal.wait_for("fleet/a/pose")
        terminal.type("Space")
        paused = terminal.wait_for("PAUSED")
        assert "fleet/a/pose" in paused
        terminal.type("Space")
        until(lambda: "PAUSED" not in terminal.screen)
        terminal.type("Tab")
        terminal.wait_for(str(router.zid()))
        terminal.type("q")
        terminal.wait_for("EXIT CODE 0")


@pytest.mark.slow
def test_a_lost_router_is_shown_and_ctrl_c_ends_it() -> None:
    with listening("router") as router:
        command = ["top", "-m", "peer", "-e", address(router), "-l", "tcp/127.0.0.1:0", "--no-multicast-scouting"]
        with zenspark_on_terminal(*command) as terminal:
            terminal.wait_for("connected 1 of 1")
            router.close()
            terminal.wait_for("connected 0 of 1")
            terminal.type("C-c")
            terminal.wait_for("EXIT CODE 0")


@pytest.mark.slow
def test_top_shows_and_filters_ten_thousand_keys() -> None:
    with (
        listening("router") as router,
        zenspark_on_terminal("top", "-e", address(router), "--no-multicast-scouting") as terminal,
    ):
        terminal.wait_for("connected 1 of 1")
        for number in range(10_000):
            router.put(f"fleet/robot{number}/pose", str(number), congestion_control=CongestionControl.BLOCK)
        terminal.wait_for("10000 keys")
        terminal.type("/")
        terminal.type("fleet/robot9999/*", "Enter")
        terminal.wait_for("filter: fleet/robot9999/*")
        until(lambda: terminal.lines[3].startswith("fleet/robot9999/pose"))
        terminal.type("q")
        terminal.wait_for("EXIT CODE 0")
