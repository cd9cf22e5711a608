"""What do pages and event streams cost a router that forwards publications?

    python bench/bench_http.py --json new.json      --only unpaced runs some of it

A good result: a ratio of at least 0.9 in both lines with a rate, and no client dropped.

A publisher and a subscriber, both clients, and between them a router that serves HTTP. In every second turn 50 clients
read the events of a key that changes once in a while, and five pages watch all keys, the overview and the network over
their WebSockets. "paced": 100,000 messages/s on 100 keys; "unpaced": as fast as possible. "cpu" is the processor time
of the router, in seconds per million messages.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from bench.bench_forward import role_receive
from bench.bench_session import KEY, Measured, Process, cpu, free_port, open_session, send_report, wait_for_line
from bench.command import OURS, Line, run
from bench.compare import Result
from zenspark.web.server import HttpServer
from zenspark.web.settings import HttpSettings

TURNS = 5
STREAMS, PAGES = 50, 5
PACED_RATE = 100_000
"""Messages per second in paced turns."""
COUNTS = {"paced": 500_000, "unpaced": 2_000_000}
TIMEOUT_SECONDS = 300.0
"""Until a process is killed: longer than in other benchmarks, for five pages are slow on a busy machine."""
KEYS, BATCH_ROWS, SIZE = 100, 1000, 64
ALL_KEYS = f"{KEY}/**"

Package = Any


def role_router(package: Package, locator: str, size: int, count: int) -> None:
    """Forward and serve HTTP; report the processor time and the dropped clients for every input line."""
    with (
        open_session(package, "router", [locator], []) as session,
        HttpServer(session, HttpSettings(address=("127.0.0.1", size))) as server,
    ):
        send_report(ready=True)
        for _ in sys.stdin:
            send_report(cpu=cpu(), dropped=sum(server._context.counts.disconnected.values()))


def role_publish(package: Package, locator: str, size: int, count: int) -> None:
    """Publish `count` messages on some keys, `size` per second, or as fast as possible if that is 0."""
    keys = pa.array([f"{KEY}/{row % KEYS}" for row in range(BATCH_ROWS)])
    batch = pa.record_batch({"key": keys, "payload": pa.array([bytes(SIZE)] * BATCH_ROWS)})
    with open_session(package, "client", [], [locator]) as session:
        slow = session.declare_publisher("slow/a")
        began = time.perf_counter()
        for number in range(count // BATCH_ROWS):
            session.put_batch(batch, congestion_control=package.CongestionControl.BLOCK)
            if number % 10 == 0:
                slow.put('{"number": 1}')
            if size:
                time.sleep(max(0.0, began + (number + 1) * BATCH_ROWS / size - time.perf_counter()))
        send_report(done=True)
        wait_for_line()


def role_receive_all(package: Package, locator: str, size: int, count: int) -> None:
    """Receive messages of all keys."""
    role_receive(package, locator, size, count, ALL_KEYS)


def role_watch(package: Package, locator: str, size: int, count: int) -> None:
    """Read event streams and live data of the server at port `size`."""
    for _ in range(PAGES):
        threading.Thread(target=watch_page, args=(size,), daemon=True).start()
    threading.Thread(target=read_streams, args=(size,), daemon=True).start()
    send_report(ready=True)
    wait_for_line()


def watch_page(port: int) -> None:
    address = f"ws://127.0.0.1:{port}/_api/live"
    with contextlib.suppress(ConnectionClosed), connect(address, max_size=None) as page:
        page.send(json.dumps({"subscribe": {"overview": True, "keys": "**", "network": True}}))
        for _ in page:
            pass


def read_streams(port: int) -> None:
    with selectors.DefaultSelector() as selector:
        for _ in range(STREAMS):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(b"GET /slow/** HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
            selector.register(client, selectors.EVENT_READ, client)
        while True:
            for ready, _ in selector.select():
                ready.data.recv(1 << 16)


ROLES = {
    name[5:]: role for name, role in list(globals().items()) if name.startswith("role_") and name != "role_receive"
}


def run_turn(pace: str, *, watched: bool) -> Measured:
    """Measure the received messages and the processor time of the router."""
    count, port, locator = COUNTS[pace], free_port(), f"tcp/127.0.0.1:{free_port()}"
    processes: list[Process] = []

    def start(role: str, size: int) -> Process:
        processes.append(Process(OURS, role, locator, size, count, module="bench.bench_http", timeout=TIMEOUT_SECONDS))
        processes[-1].receive()
        return processes[-1]

    try:
        router = start("router", port)
        if watched:
            start("watch", port)
        receiver = start("receive_all", 0)
        before = router.request()["cpu"]
        start("publish", PACED_RATE if pace == "paced" else 0)
        arrived = receiver.request()
        after = router.request()
        return {**arrived, "cpu": (after["cpu"] - before) / count * 1e6, "dropped": after["dropped"]}
    finally:
        for process in reversed(processes):
            process.end()


def results(pace: str, turns: int) -> Iterator[Result]:
    """Compare turns with HTTP clients and without."""
    pairs = [(run_turn(pace, watched=True), run_turn(pace, watched=False)) for _ in range(turns)]
    for figure, unit in (("rate", "/s"), ("cpu", "s/M")):
        yield Result.of(
            f"{pace}: {figure}, watched / alone", [one[figure] / other[figure] for one, other in pairs], "x"
        )
        yield Result.of(f"{pace}: {figure}, watched", [one[figure] for one, _ in pairs], unit)
        yield Result.of(f"{pace}: {figure}, alone", [other[figure] for _, other in pairs], unit)
    yield Result.of(f"{pace}: lost", [one["lost"] for one, _ in pairs], "")
    yield Result.of(f"{pace}: clients dropped", [one["dropped"] for one, _ in pairs], "")


def lines(turns: int) -> Iterator[Line]:
    for pace in COUNTS:
        yield pace, partial(results, pace, turns)


def run_role(role: str, package: str, locator: str, size: int, count: int) -> None:
    ROLES[role](importlib.import_module(package), locator, size, count)


if __name__ == "__main__":
    run("http", __doc__, lines, TURNS, run_role)
