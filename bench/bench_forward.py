"""How fast does a router pass publications on, beside eclipse-zenoh's router in the same place in the same run?

    make bench                                                  this and all others, compiled
    python bench/bench_forward.py --json new.json               this one alone; --only "8 B" runs some of it
    python bench/bench_forward.py --beside OTHER/src              beside another tree of zenspark, compiled there

A good answer: a ratio of at least 0.5 in every line with a rate, and nothing lost.

Three processes on loopback TCP, shared memory off: a publisher and a subscriber, both clients, and between them a
router of either package, in turns. The fast ends are zenspark's (`put_batch`, and a subscriber into Arrow); to show
that these do not favour their own kind, the same once more with the ends of eclipse-zenoh (`put`, and a callback).
Everything is published with CongestionControl.BLOCK, so every message counts: the rate is taken where they arrive, over
all but the first tenth. "cpu" is the processor time of the router, in seconds per million messages. "distinct keys":
each message is on a key that none before it had.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench.bench_session import (
    DISTINCT_KEYS,
    KEY,
    KEYS,
    Measured,
    Process,
    batch_of,
    batches_of_keys,
    cpu,
    free_port,
    opened,
    publisher_of,
    tell,
    wait_for_word,
)
from bench.compare import Result
from bench.running import OURS, THEIRS, Line, run

TURNS = 5
COUNTS = {(OURS, 8): 2_000_000, (OURS, 1024): 400_000, (THEIRS, 8): 500_000, (THEIRS, 1024): 200_000}
"""Messages in a turn, by the package of the ends and the size."""
SILENCE = 3.0
"""Seconds without a message, after the last was sent, until what has not come counts as lost."""

Package = Any


# --- the processes --------------------------------------------------------------------------------------------------


def role_router(package: Package, locator: str, size: int, count: int) -> None:
    """Forward messages; print the processor time used so far for every input line."""
    with opened(package, "router", [locator], []):
        tell(ready=True)
        for _ in sys.stdin:
            tell(cpu=cpu())


def role_publish(package: Package, locator: str, size: int, count: int) -> None:
    """Publish so many as fast as it goes: record batches where there are any."""
    with opened(package, "client", [], [locator]) as session:
        publisher = publisher_of(package, session)
        if package.__name__ == OURS:
            batch = batch_of(size, count)
            for _ in range(count // batch.num_rows):
                publisher.put_batch(batch)
        else:
            payload = bytes(size)
            for _ in range(count):
                publisher.put(payload)
        tell(done=True)
        wait_for_word()


def role_publish_keys(package: Package, locator: str, size: int, count: int) -> None:
    """Publish once on each of so many keys, from record batches."""
    with opened(package, "client", [], [locator]) as session:
        publisher_of(package, session, KEYS)
        for batch in batches_of_keys(size, count):
            session.put_batch(batch, congestion_control=package.CongestionControl.BLOCK)
        tell(done=True)
        wait_for_word()


class Arrivals:
    """Counts messages, and how long all but the first tenth of them took."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.seen = 0
        self.began = self.ended = 0.0
        self.skipped = 0
        self.over = threading.Event()

    def add(self, number: int) -> None:
        self.seen += number
        self.ended = time.perf_counter()
        if not self.began and self.seen * 10 >= self.expected:
            self.began, self.skipped = self.ended, self.seen
        if self.seen >= self.expected:
            self.over.set()

    def wait(self) -> None:
        """Wait until all are there, or nothing has come for a while."""
        seen = -1
        while not self.over.wait(SILENCE) and seen != self.seen:
            seen = self.seen

    def tell(self) -> None:
        seconds = self.ended - self.began
        tell(rate=(self.seen - self.skipped) / seconds if seconds > 0 else 0.0, lost=self.expected - self.seen)


def role_receive(package: Package, locator: str, size: int, count: int, key: str = KEY) -> None:
    """Receive until all was sent: into Arrow where available, else in a callback."""
    arrivals = Arrivals(count)
    with opened(package, "client", [], [locator]) as session:
        if package.__name__ == OURS:
            subscriber = session.declare_subscriber(key, package.ArrowBatches())
            threading.Thread(target=count_batches, args=(subscriber, arrivals), daemon=True).start()
        else:
            _kept = session.declare_subscriber(key, lambda _: arrivals.add(1))
        tell(ready=True)
        wait_for_word()
        arrivals.wait()
        arrivals.tell()
        wait_for_word()


def role_receive_keys(package: Package, locator: str, size: int, count: int) -> None:
    """The same of many keys."""
    role_receive(package, locator, size, count, KEYS)


def count_batches(subscriber: Any, arrivals: Arrivals) -> None:  # noqa: ANN401
    for batch in subscriber:
        arrivals.add(batch.num_rows)


ROLES = {name[5:]: role for name, role in list(globals().items()) if name.startswith("role_")}


# --- the one that starts them ---------------------------------------------------------------------------------------


def play(router: str, ends: str, size: int, count: int, suffix: str = "") -> Measured:
    """One turn: what arrived, and what it cost the router. `suffix` ends the names of the roles at the ends."""
    locator = f"tcp/127.0.0.1:{free_port()}"
    arguments = (locator, size, count)
    processes = []
    try:
        for package, role in ((router, "router"), (ends, "receive" + suffix), (ends, "publish" + suffix)):
            processes.append(Process(package, role, *arguments, module="bench.bench_forward"))
            if role == "router":
                processes[0].hear()
                before = processes[0].ask()["cpu"]
            else:
                processes[-1].hear()
        arrived = processes[1].ask()
        used = processes[0].ask()["cpu"] - before
        return {**arrived, "cpu": used / count * 1e6}
    finally:
        for process in reversed(processes):
            process.end()


Turn = Callable[[str], Measured]


def between_ends(ends: str, size: int) -> tuple[str, Turn]:
    count = COUNTS[ends, size]
    if ends == OURS:
        count -= count % batch_of(size, count).num_rows
    return f"{size} B between {ends}'s ends", partial(play, ends=ends, size=size, count=count)


def comparisons() -> Iterator[tuple[str, Turn]]:
    for ends, size in COUNTS:
        yield between_ends(ends, size)
    yield "8 B on distinct keys", partial(play, ends=OURS, size=8, count=DISTINCT_KEYS, suffix="_keys")


def compared(name: str, turn: Turn, turns: int, package: str = THEIRS) -> Iterator[Result]:
    """What turns give with either router."""
    label = "other" if "@" in package else package
    pairs = [(turn(OURS), turn(package)) for _ in range(turns)]
    for figure, unit in (("rate", "/s"), ("cpu", "s/M")):
        ratios = [one[figure] / other[figure] for one, other in pairs]
        yield Result.of(f"{name}: {figure}, zenspark / {label}", ratios, "x")
        yield Result.of(f"{name}: {figure}, zenspark", [one[figure] for one, _ in pairs], unit)
        yield Result.of(f"{name}: {figure}, {label}", [other[figure] for _, other in pairs], unit)
    yield Result.of(f"{name}: lost, zenspark", [one["lost"] for one, _ in pairs], "")
    yield Result.of(f"{name}: lost, {label}", [other["lost"] for _, other in pairs], "")


def lines(turns: int) -> Iterator[Line]:
    return lines_beside(turns, THEIRS)


def lines_beside(turns: int, package: str) -> Iterator[Line]:
    """The lines with our router and the one of another package."""
    for name, turn in comparisons():
        yield name, partial(compared, name, turn, turns, package)


def be(role: str, package: str, locator: str, size: int, count: int) -> None:
    ROLES[role](importlib.import_module(package), locator, size, count)


if __name__ == "__main__":
    run("forward", __doc__, lines, TURNS, be, lines_beside)
