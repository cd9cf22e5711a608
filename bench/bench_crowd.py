"""What does a router need for 500 clients, and are they all alive after a minute of traffic?

    make bench                                                  this and all others, compiled
    python bench/bench_crowd.py --json new.json                 this one alone; --seconds 10 for less traffic
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good answer: no thread for a session and one descriptor; nothing lost; at the end every session hears the last message
and answers a query. Memory for a session should be of the order of what eclipse-zenoh's router needs in the same place.

The router is a process of its own on loopback TCP, first ours, then eclipse-zenoh's. 480 of its clients are zenspark
sessions, in four processes, and 20 are eclipse-zenoh's, in one; each subscribes to a key of its own, and to one for
all, and answers queries. Each publishes, ten times a second, to the keys of ten others, with CongestionControl.BLOCK.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.bench_session import Process, free_port, opened, tell, wait_for_word
from bench.compare import Result
from bench.running import OURS, THEIRS, parser, report

CROWDS = [(OURS, 120)] * 4 + [(THEIRS, 20)]
TOTAL = sum(count for _, count in CROWDS)
PERIOD = 0.1
"""Seconds between two messages of one session."""
KEYS = 10
"""How many others a session publishes to."""
PATIENCE = 60.0
PAYLOAD = bytes(64)

Package = Any
State = dict[str, float]


# --- the processes --------------------------------------------------------------------------------------------------


def role_router(package: Package, locator: str, first: int, count: int) -> None:
    """Forward messages until stopped."""
    with opened(package, "router", [locator], []):
        tell(ready=True)
        wait_for_word()


class Client:
    """One session with counts of sent and received samples."""

    def __init__(self, package: Package, locator: str, number: int) -> None:
        self.number = number
        self.sent = self.received = 0
        self.heard_last = False
        self.block = package.CongestionControl.BLOCK
        self.session = opened(package, "client", [], [locator])
        self.kept = [
            self.session.declare_subscriber(f"crowd/to/{number}", self.receive),
            self.session.declare_subscriber("crowd/last", self.receive_last),
            self.session.declare_queryable(f"crowd/alive/{number}", self.answer),
        ]

    def receive(self, _: object) -> None:
        self.received += 1

    def receive_last(self, _: object) -> None:
        self.heard_last = True

    def answer(self, query: Any) -> None:  # noqa: ANN401
        with query:
            query.reply(f"crowd/alive/{self.number}", str(self.number))

    def publish(self, step: int) -> None:
        other = (self.number + 1 + step % KEYS) % TOTAL
        self.session.put(f"crowd/to/{other}", PAYLOAD, congestion_control=self.block)
        self.sent += 1


def role_crowd(package: Package, locator: str, first: int, count: int) -> None:
    """Many sessions: they publish from the first input line to the second, then print received counts per line."""
    clients = [Client(package, locator, number) for number in range(first, first + count)]
    over = threading.Event()
    tell(ready=True)
    wait_for_word()
    talking = threading.Thread(target=talk, args=(clients, over))
    talking.start()
    tell(started=True)
    wait_for_word()
    over.set()
    talking.join()
    tell(sent=sum(client.sent for client in clients))
    for _ in sys.stdin:
        received = sum(client.received for client in clients)
        tell(received=received, last=sum(client.heard_last for client in clients))
    for client in clients:
        client.session.close()


def talk(clients: list[Client], over: threading.Event) -> None:
    due, step = time.monotonic(), 0
    while not over.is_set():
        for client in clients:
            client.publish(step)
        step += 1
        due += PERIOD
        over.wait(max(0.0, due - time.monotonic()))


ROLES = {name[5:]: role for name, role in list(globals().items()) if name.startswith("role_")}


# --- the one that starts them ---------------------------------------------------------------------------------------


def state_of(pid: int) -> State:
    """What a process uses: memory in KiB, threads, descriptors."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return {
        "memory": float(fields["VmRSS"].split()[0]),
        "threads": float(fields["Threads"]),
        "descriptors": float(descriptors),
    }


def until(is_so: Callable[[], bool]) -> None:
    """Look again and again, but not for ever: what is not so by then is reported as it is."""
    deadline = time.monotonic() + PATIENCE
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.2)


def alive(locator: str) -> int:
    """Publish the last sample to all sessions and query them. Returns the number of replies."""
    package = importlib.import_module(OURS)
    with opened(package, "client", [], [locator]) as session:
        session.put("crowd/last", b"", congestion_control=package.CongestionControl.BLOCK)
        replies = session.get("crowd/alive/*", target=package.QueryTarget.ALL, timeout=PATIENCE)
        return len({reply.ok.payload.to_string() for reply in replies if reply.ok})


def play(router: str, seconds: float) -> dict[str, float]:
    locator = f"tcp/127.0.0.1:{free_port()}"
    patience = seconds + 5 * PATIENCE
    node = Process(router, "router", locator, 0, 0, module="bench.bench_crowd", patience=patience)
    crowds: list[Process] = []
    try:
        node.hear()
        alone, first = state_of(node.pid), 0
        for package, count in CROWDS:
            crowds.append(
                Process(package, "crowd", locator, first, count, module="bench.bench_crowd", patience=patience)
            )
            first += count
        for crowd in crowds:
            crowd.hear()
        together = state_of(node.pid)
        for crowd in crowds:
            crowd.ask()
        time.sleep(seconds)
        sent = sum(crowd.ask()["sent"] for crowd in crowds)
        until(lambda: sum(crowd.ask()["received"] for crowd in crowds) >= sent)
        busy = state_of(node.pid)
        answered = alive(locator)
        until(lambda: sum(crowd.ask()["last"] for crowd in crowds) >= TOTAL)
        told = [crowd.ask() for crowd in crowds]
    finally:
        for process in [*crowds, node]:
            process.end()
    return {
        "memory a session, idle, KiB": (together["memory"] - alone["memory"]) / TOTAL,
        "memory a session, after the traffic, KiB": (busy["memory"] - alone["memory"]) / TOTAL,
        "threads for all sessions": together["threads"] - alone["threads"],
        "descriptors a session": (together["descriptors"] - alone["descriptors"]) / TOTAL,
        "messages a second": sent / seconds,
        "messages lost": sent - sum(one["received"] for one in told),
        "sessions that heard the last message": sum(one["last"] for one in told),
        "sessions that answered": float(answered),
    }


def results(seconds: float) -> Iterator[Result]:
    for router in (OURS, THEIRS):
        for name, value in play(router, seconds).items():
            yield Result(f"{router}: {name}", value, "", (value, value))


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--seconds", type=float, default=60.0, help="of traffic")
    command.add_argument("--role", nargs=5, help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.role:
        role, package, locator, first, count = options.role
        ROLES[role](importlib.import_module(package), locator, int(first), int(count))
        return
    print(f"{TOTAL} sessions, {options.seconds:g} s of traffic")
    report("crowd", results(options.seconds), options.json)


if __name__ == "__main__":
    main()
