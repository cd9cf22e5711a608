"""What does a router need for 500 clients, and are they all alive after a minute of traffic?

    make bench                                                  this and all others, compiled
    python bench/bench_crowd.py --json new.json                 this one alone; --seconds 10 for less traffic
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: no thread for a session and one descriptor; nothing lost; at the end every session receives the last
message and replies to a query. Memory for a session should be of the order of what eclipse-zenoh's router needs in the
same place.

The router is a process of its own on loopback TCP, first ours, then eclipse-zenoh's. 480 of its clients are zenspark
sessions, in four processes, and 20 are eclipse-zenoh's, in one; each subscribes to a key of its own, and to one for
all, and replies to queries. Each publishes, ten times a second, to the keys of ten others, with
CongestionControl.BLOCK.
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

from bench.bench_session import TIMEOUT_SECONDS, Process, free_port, open_session, send_report, wait_for_line
from bench.command import OURS, THEIRS, parser, report
from bench.compare import Result

CROWDS = [(OURS, 120)] * 4 + [(THEIRS, 20)]
TOTAL = sum(count for _, count in CROWDS)
PERIOD = 0.1
"""Seconds between two messages of one session."""
KEYS = 10
"""Number of other sessions that a session publishes to."""
PAYLOAD = bytes(64)

Package = Any
State = dict[str, float]


# --- roles, each in a child process ---------------------------------------------------------------------------------


def role_router(package: Package, locator: str, first: int, count: int) -> None:
    """Forward messages until stopped."""
    with open_session(package, "router", [locator], []):
        send_report(ready=True)
        wait_for_line()


class Client:
    """One session with counts of sent and received samples."""

    def __init__(self, package: Package, locator: str, number: int) -> None:
        self.number = number
        self.sent = self.received = 0
        self.received_last = False
        self.block = package.CongestionControl.BLOCK
        self.session = open_session(package, "client", [], [locator])
        self.kept = [
            self.session.declare_subscriber(f"crowd/to/{number}", self.receive),
            self.session.declare_subscriber("crowd/last", self.receive_last),
            self.session.declare_queryable(f"crowd/alive/{number}", self.reply),
        ]

    def receive(self, _: object) -> None:
        self.received += 1

    def receive_last(self, _: object) -> None:
        self.received_last = True

    def reply(self, query: Any) -> None:  # noqa: ANN401
        with query:
            query.reply(f"crowd/alive/{self.number}", str(self.number))

    def publish(self, step: int) -> None:
        other = (self.number + 1 + step % KEYS) % TOTAL
        self.session.put(f"crowd/to/{other}", PAYLOAD, congestion_control=self.block)
        self.sent += 1


def role_crowd(package: Package, locator: str, first: int, count: int) -> None:
    """Publish from many sessions between the first two input lines, then report the received messages for each line."""
    clients = [Client(package, locator, number) for number in range(first, first + count)]
    over = threading.Event()
    send_report(ready=True)
    wait_for_line()
    publishing = threading.Thread(target=publish_periodically, args=(clients, over))
    publishing.start()
    send_report(started=True)
    wait_for_line()
    over.set()
    publishing.join()
    send_report(sent=sum(client.sent for client in clients))
    for _ in sys.stdin:
        received = sum(client.received for client in clients)
        send_report(received=received, last=sum(client.received_last for client in clients))
    for client in clients:
        client.session.close()


def publish_periodically(clients: list[Client], over: threading.Event) -> None:
    due, step = time.monotonic(), 0
    while not over.is_set():
        for client in clients:
            client.publish(step)
        step += 1
        due += PERIOD
        over.wait(max(0.0, due - time.monotonic()))


ROLES = {name[5:]: role for name, role in list(globals().items()) if name.startswith("role_")}


# --- the parent process ---------------------------------------------------------------------------------------------


def state_of(pid: int) -> State:
    """Read what a process uses: memory in KiB, threads, descriptors."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return {
        "memory": float(fields["VmRSS"].split()[0]),
        "threads": float(fields["Threads"]),
        "descriptors": float(descriptors),
    }


def wait_until(is_met: Callable[[], bool]) -> None:
    """Poll a condition until it is met or the timeout is over: then the results show what is missing."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_met() and time.monotonic() < deadline:
        time.sleep(0.2)


def count_repliers(locator: str) -> int:
    """Publish the last sample to all sessions and query them. Returns the number of sessions that reply."""
    package = importlib.import_module(OURS)
    with open_session(package, "client", [], [locator]) as session:
        session.put("crowd/last", b"", congestion_control=package.CongestionControl.BLOCK)
        replies = session.get("crowd/alive/*", target=package.QueryTarget.ALL, timeout=TIMEOUT_SECONDS)
        return len({reply.ok.payload.to_string() for reply in replies if reply.ok})


def run_turn(router: str, seconds: float) -> dict[str, float]:
    """Run the router of one package with all clients. Returns the results by name."""
    locator = f"tcp/127.0.0.1:{free_port()}"
    timeout = seconds + 5 * TIMEOUT_SECONDS
    node = Process(router, "router", locator, 0, 0, module="bench.bench_crowd", timeout=timeout)
    crowds: list[Process] = []
    try:
        node.receive()
        alone, first = state_of(node.pid), 0
        for package, count in CROWDS:
            crowds.append(Process(package, "crowd", locator, first, count, module="bench.bench_crowd", timeout=timeout))
            first += count
        for crowd in crowds:
            crowd.receive()
        together = state_of(node.pid)
        for crowd in crowds:
            crowd.request()
        time.sleep(seconds)
        sent = sum(crowd.request()["sent"] for crowd in crowds)
        wait_until(lambda: sum(crowd.request()["received"] for crowd in crowds) >= sent)
        busy = state_of(node.pid)
        repliers = count_repliers(locator)
        wait_until(lambda: sum(crowd.request()["last"] for crowd in crowds) >= TOTAL)
        reports = [crowd.request() for crowd in crowds]
    finally:
        for process in [*crowds, node]:
            process.end()
    return {
        "memory a session, idle, KiB": (together["memory"] - alone["memory"]) / TOTAL,
        "memory a session, after the traffic, KiB": (busy["memory"] - alone["memory"]) / TOTAL,
        "threads for all sessions": together["threads"] - alone["threads"],
        "descriptors a session": (together["descriptors"] - alone["descriptors"]) / TOTAL,
        "messages a second": sent / seconds,
        "messages lost": sent - sum(crowd_report["received"] for crowd_report in reports),
        "sessions that received the last message": sum(crowd_report["last"] for crowd_report in reports),
        "sessions that answered": float(repliers),
    }


def results(seconds: float) -> Iterator[Result]:
    for router in (OURS, THEIRS):
        for name, value in run_turn(router, seconds).items():
            yield Result(f"{router}: {name}", value, "", (value, value))


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--seconds", type=float, default=60.0, help="seconds of traffic")
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
