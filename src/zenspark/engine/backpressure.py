"""Room: which receivers of a session have none left, which links are not read because of that, and who waits for it.

A receiver that is full answers no when something is delivered. What came from a neighbour is slowed down by not
reading that link until the receiver has room again. What this session published, asked or answered itself is slowed
down by making that thread wait, as eclipse-zenoh does; but never without end, because the thread that waits may be the
very one that is to receive, now or later. When nothing was taken for a while it goes on, and what comes on top is
kept up to a limit and then dropped with a warning.

Replies come over the same links as publications. So while this session waits for replies, receivers may borrow: links
are read although somebody is full, up to a limit. Otherwise a callback that asks something would wait for a reply
behind what it has not received yet. A receiver of replies borrows only for other questions than its own. The same goes
for a callback that waits for room on a link: its peer may be waiting for us to read.

All of this is guarded by the node's lock, except that nobody waits with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, TypeAlias

from zenspark.handlers.channel import Caller, Channel
from zenspark.handlers.handler import Inlet
from zenspark.net.io.driver import Pump
from zenspark.net.io.writer import hurry
from zenspark.net.node.node import Node
from zenspark.router.face import Face

logger = logging.getLogger("zenspark")

Queue: TypeAlias = Channel | Caller
"""The receivers that may be full."""

STALLED = 1.0
"""Seconds in which nothing is taken, after which nobody waits for that any more."""
OVERDRAFT = 64
"""How many times what it has room for a receiver may hold where the alternative is that nothing goes on."""
MAX_OVERDRAFT = 1 << 14
"""How many items more than it has room for a receiver may hold at most: a query that waits takes about 1 kB."""
LOAN = 1 << 25
"""Bytes that are read at most from a link for somebody who is full."""
LOOK_AGAIN = 0.01
"""Seconds between looks at whether anything was taken: only much room is announced."""


class Room:
    """The room that the receivers of one session have."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._full: dict[Queue, set[Pump]] = {}
        """Who has no room, and the links that are not read for that."""
        self._loans: dict[Queue, dict[Pump, int]] = {}
        """Who borrows, and how much each link had brought before."""
        self._questions = 0
        node.on_block = self._blocked

    # -- what comes from neighbours

    def missing(self, inlet: Inlet[Any], face: Face, own_questions: int = 0) -> None:
        """A receiver is full of what a neighbour said; `own_questions` are those whose replies it receives."""
        driver = self._node.driver(face)
        if driver is None or not isinstance(inlet, Channel | Caller):
            return
        if self._questions > own_questions and self._lends(inlet, driver):
            return
        self._full.setdefault(inlet, set()).add(driver)
        driver.pause(inlet)

    def _lends(self, inlet: Queue, driver: Pump) -> bool:
        """Whether a link may be read although a receiver is full."""
        before = self._loans.setdefault(inlet, {}).setdefault(driver, driver.received)
        return not _is_overdrawn(inlet) and driver.received - before < LOAN

    def regained(self, inlet: Queue) -> None:
        """A receiver has room again, or is gone."""
        with self._node.lock:
            for driver in self._full.pop(inlet, ()):
                driver.resume(inlet)
            self._loans.pop(inlet, None)
            inlet.is_stalled = False
            self._node.wake()

    def forget(self, inlet: Inlet[Any]) -> None:
        """Nothing more is delivered there."""
        if isinstance(inlet, Channel | Caller) and (inlet in self._full or inlet in self._loans):
            self.regained(inlet)

    def asked(self) -> None:
        """A question is in flight, or something else for which links must be read."""
        self._questions += 1
        for inlet, drivers in self._full.items():
            for driver in [one for one in drivers if self._lends(inlet, one)]:
                drivers.discard(driver)
                driver.resume(inlet)

    def answered(self) -> None:
        """It is over."""
        self._questions -= 1

    def _blocked(self, waits: bool) -> None:
        """A callback begins or ends to wait for room on a link."""
        with self._node.lock:
            if waits:
                self.asked()
            else:
                self.answered()

    # -- what this session says to itself

    def refuses(self, inlet: Inlet[Any]) -> bool:
        """Whether a receiver is to get no more, because nobody takes what it has."""
        return isinstance(inlet, Channel | Caller) and inlet.is_stalled and _is_overdrawn(inlet)

    def wait(self, inlets: Iterable[Inlet[Any]]) -> None:
        """Wait until each of these has got rid of something; never with the lock."""
        is_busy = hurry.on or self._node.loop.is_current
        for inlet in inlets:
            if not isinstance(inlet, Channel | Caller) or inlet.is_stalled:
                continue
            if not (is_busy or inlet.is_received_here):
                self._wait(inlet)
            elif _is_overdrawn(inlet):
                self._give_up(inlet)

    def _wait(self, inlet: Queue) -> None:
        # All may have been taken since it was full: then there is nothing left that could become less.
        limit, deadline = max(inlet.backlog, inlet.capacity, 1), time.monotonic() + STALLED
        while inlet.backlog >= limit and not self._node.is_closed:
            self._node.wait(lambda: inlet.backlog < limit, LOOK_AGAIN)
            if inlet.backlog >= limit and time.monotonic() > deadline:
                self._give_up(inlet)
                return

    def _give_up(self, inlet: Queue) -> None:
        """Wait for somebody no more, until they receive again."""
        inlet.is_stalled = True
        logger.warning("nobody receives what this session says to itself: it goes on, and drops what becomes too much")


def _is_overdrawn(inlet: Queue) -> bool:
    """Whether it holds so much more than it has room for that nothing is a reason for more."""
    return inlet.backlog >= min(inlet.capacity * OVERDRAFT, inlet.capacity + MAX_OVERDRAFT)
