"""How fast does a router forward publications, beside eclipse-zenoh's router in the same place in the same run?

    make bench                                                  this and all others, compiled
    python bench/bench_forward.py --json new.json               this one alone; --only "8 B" runs some of it
    python bench/bench_forward.py --beside OTHER/src              beside another tree of zenspark, compiled there

A good result: a ratio of at least 0.5 in every line with a rate, and nothing lost.

Three processes on loopback TCP, shared memory off: a publisher and a subscriber, both clients, and between them a
router of either package, in turns. The fast clients ("ends") are zenspark's (`put_batch`, and a subscriber into Arrow);
to show that these do not favour zenspark's router, the same is measured with clients of eclipse-zenoh (`put`, and a
callback). Everything is published with CongestionControl.BLOCK, so every message counts: the rate is that of the
subscriber, over all but the first tenth. "cpu" is the processor time of the router, in seconds per million messages.
"distinct keys": each message is on a key that none before it had.
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
    declare_publisher,
    free_port,
    open_session,
    send_report,
    wait_for_line,
)
from bench.command import OURS, THEIRS, Line, run
from bench.compare import Result

TURNS = 5
COUNTS = {(OURS, 8): 2_000_000, (OURS, 1024): 400_000, (THEIRS, 8): 500_000, (THEIRS, 1024): 200_000}
"""Messages in a turn, by the package of the clients and the payload size."""
MAX_SILENCE_SECONDS = 3.0
"""Time without a message after which all that were not received count as lost."""

Package = Any


# --- roles, each in a child process ---------------------------------------------------------------------------------


def role_router(package: Package, locator: str, size: int, count: int) -> None:
    """Forward messages; report the processor time used so far for every input line."""
    with open_session(package, "router", [locator], []):
        send_report(ready=True)
        for _ in sys.stdin:
            send_report(cpu=cpu())


def role_publish(package: Package, locator: str, size: int, count: int) -> None:
    """Publish `count` messages as fast as possible, in record batches if the package has them."""
    with open_session(package, "client", [], [locator]) as session:
        publisher = declare_publisher(package, session)
        if package.__name__ == OURS:
            batch = batch_of(size, count)
            for _ in range(count // batch.num_rows):
                publisher.put_batch(batch)
        else:
            payload = bytes(size)
            for _ in range(count):
                publisher.put(payload)
        send_report(done=True)
        wait_for_line()


def role_publish_keys(package: Package, locator: str, size: int, count: int) -> None:
    """Publish once on each of `count` keys, from record batches."""
    with open_session(package, "client", [], [locator]) as session:
        declare_publisher(package, session, KEYS)
        for batch in batches_of_keys(size, count):
            session.put_batch(batch, congestion_control=package.CongestionControl.BLOCK)
        send_report(done=True)
        wait_for_line()


class Arrivals:
    """Counts messages, and measures how long all but the first tenth of them took."""

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
        """Wait until all were received, or none for `MAX_SILENCE_SECONDS`."""
        seen = -1
        while not self.over.wait(MAX_SILENCE_SECONDS) and seen != self.seen:
            seen = self.seen

    def report(self) -> None:
        seconds = self.ended - self.began
        send_report(rate=(self.seen - self.skipped) / seconds if seconds > 0 else 0.0, lost=self.expected - self.seen)


def role_receive(package: Package, locator: str, size: int, count: int, key: str = KEY) -> None:
    """Receive until all messages were received or are lost: into Arrow if the package has it, else in a callback."""
    arrivals = Arrivals(count)
    with open_session(package, "client", [], [locator]) as session:
        if package.__name__ == OURS:
            subscriber = session.declare_subscriber(key, package.ArrowBatches())
            threading.Thread(target=count_batches, args=(subscriber, arrivals), daemon=True).start()
        else:
            _kept = session.declare_subscriber(key, lambda _: arrivals.add(1))
        send_report(ready=True)
        wait_for_line()
        arrivals.wait()
        arrivals.report()
        wait_for_line()


def role_receive_keys(package: Package, locator: str, size: int, count: int) -> None:
    """Receive messages of many keys."""
    role_receive(package, locator, size, count, KEYS)


def count_batches(subscriber: Any, arrivals: Arrivals) -> None:  # noqa: ANN401
    for batch in subscriber:
        arrivals.add(batch.num_rows)


ROLES = {name[5:]: role for name, role in list(globals().items()) if name.startswith("role_")}


# --- the parent process ---------------------------------------------------------------------------------------------


def run_turn(router: str, clients: str, size: int, count: int, suffix: str = "") -> Measured:
    """Measure the received messages and the processor time of the router. `suffix` ends the roles of the clients."""
    locator = f"tcp/127.0.0.1:{free_port()}"
    arguments = (locator, size, count)
    processes = []
    try:
        for package, role in ((router, "router"), (clients, "receive" + suffix), (clients, "publish" + suffix)):
            processes.append(Process(package, role, *arguments, module="bench.bench_forward"))
            if role == "router":
                processes[0].receive()
                before = processes[0].request()["cpu"]
            else:
                processes[-1].receive()
        arrived = processes[1].request()
        used = processes[0].request()["cpu"] - before
        return {**arrived, "cpu": used / count * 1e6}
    finally:
        for process in reversed(processes):
            process.end()


Turn = Callable[[str], Measured]


def between_clients(clients: str, size: int) -> tuple[str, Turn]:
    count = COUNTS[clients, size]
    if clients == OURS:
        count -= count % batch_of(size, count).num_rows
    return f"{size} B between {clients}'s ends", partial(run_turn, clients=clients, size=size, count=count)


def comparisons() -> Iterator[tuple[str, Turn]]:
    for clients, size in COUNTS:
        yield between_clients(clients, size)
    yield "8 B on distinct keys", partial(run_turn, clients=OURS, size=8, count=DISTINCT_KEYS, suffix="_keys")


def compare_routers(name: str, turn: Turn, turns: int, package: str = THEIRS) -> Iterator[Result]:
    """Yield the results of all turns with either router."""
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
    """Yield the lines that compare zenspark's router with that of another package."""
    for name, turn in comparisons():
        yield name, partial(compare_routers, name, turn, turns, package)


def run_role(role: str, package: str, locator: str, size: int, count: int) -> None:
    ROLES[role](importlib.import_module(package), locator, size, count)


if __name__ == "__main__":
    run("forward", __doc__, lines, TURNS, run_role, lines_beside)
