"""How fast do sessions publish, receive, echo and query, beside eclipse-zenoh's own Python package in the same run?

    make bench                                                  this and all others, compiled
    python bench/bench_session.py --json new.json               this one alone; --only put,ping runs some of it
    python bench/bench_session.py --beside OTHER/src              beside another tree of zenspark, compiled there

A good result: a ratio of at least 1 in every line (zenspark's rate over the other one's), at most 0.8 for the median
latency, at least 10 for `put_batch` and for receiving into Arrow at 8 bytes.

Each measurement has two processes on loopback TCP, shared memory off, and the two packages take turns, so a busy
machine disturbs both alike. A publisher is measured with the same receiver (zenspark, into Arrow); a receiver, with the
same publisher (zenspark's `put_batch`), which is faster than any of the receivers. A latency is half of a round trip,
as both packages' `ping` examples count it. "distinct keys": each publication is on a key that none before it had, as
where there are ids or numbers in keys. "cpu" is the processor time of the measured process in seconds per million
messages.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from bench.command import OURS, THEIRS, Line, run
from bench.compare import Result

TURNS = 7
KEY = "bench/session"
KEYS = KEY + "/keys/**"
SIZES = {8: 1_000_000, 1024: 300_000, 65536: 30_000}
"""Messages of a turn that are published or received one by one, by payload size in bytes."""
IN_BATCHES = {8: 10_000_000, 1024: 1_000_000, 65536: 30_000}
"""Messages of a turn in record batches, by payload size: more, or a turn would be too short to be measured."""
DISTINCT_KEYS = 200_000
PINGS = 4_000
GETS = 3_000
ROWS = 16_384
TIMEOUT_SECONDS = 60.0
"""Until a process of a turn is killed, or a wait for a match fails: a benchmark must not hang."""

Package = Any
Measured = dict[str, float]


# --- roles, each in a child process ---------------------------------------------------------------------------------


def open_session(package: Package, mode: str, listen: list[str], connect: list[str]) -> Any:  # noqa: ANN401
    config = package.Config()
    settings = {
        "mode": mode,
        "listen/endpoints": listen,
        "connect/endpoints": connect,
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
    }
    if package.__name__ == THEIRS:
        settings["transport/shared_memory/enabled"] = False
    for name, value in settings.items():
        config.insert_json5(name, json.dumps(value))
    return package.open(config)


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def send_report(**fields: object) -> None:
    """Send a report to the parent process, as a line of JSON."""
    print(json.dumps(fields), flush=True)


def wait_for_line() -> None:
    """Wait for a line from the parent process, or the end of standard input."""
    sys.stdin.readline()


def wait_for_match(publisher: Any) -> None:  # noqa: ANN401
    """Wait until a publisher or querier matches a subscriber or queryable."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not publisher.matching_status.matching:
        if time.monotonic() > deadline:
            raise TimeoutError("no subscriber or queryable matches")
        time.sleep(0.01)


def measure_work(count: int, work: Callable[[], object]) -> None:
    """Report the rate of some work, and its processor time in seconds per million."""
    used, began = cpu(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    send_report(rate=count / seconds, cpu=(cpu() - used) / count * 1e6)


def declare_publisher(package: Package, session: Any, key: str = KEY) -> Any:  # noqa: ANN401
    publisher = session.declare_publisher(key, congestion_control=package.CongestionControl.BLOCK)
    wait_for_match(publisher)
    return publisher


def role_put(package: Package, locator: str, size: int, count: int) -> None:
    """Publish one by one, as fast as possible."""
    with open_session(package, "peer", [], [locator]) as session:
        publisher, payload = declare_publisher(package, session), bytes(size)

        def work() -> None:
            for _ in range(count):
                publisher.put(payload)

        work()  # warms up
        measure_work(count, work)
        wait_for_line()


def role_put_batch(package: Package, locator: str, size: int, count: int) -> None:
    """Publish record batches, as fast as possible."""
    with open_session(package, "peer", [], [locator]) as session:
        publisher, batch = declare_publisher(package, session), batch_of(size, count)
        turns = max(1, count // batch.num_rows)

        def work() -> None:
            for _ in range(turns):
                publisher.put_batch(batch)

        work()
        measure_work(turns * batch.num_rows, work)
        wait_for_line()


def batch_of(size: int, count: int) -> Any:  # noqa: ANN401
    import pyarrow as pa

    rows = min(count, ROWS, max(1, (1 << 26) // size))
    return pa.record_batch({"payload": pa.array([bytes(size)] * rows, pa.binary())})


def role_sink(package: Package, locator: str, size: int, count: int) -> None:
    """Receive everything into Arrow, and discard it."""
    with open_session(package, "peer", [locator], []) as session:
        subscriber = session.declare_subscriber(KEY, package.ArrowBatches())
        threading.Thread(target=discard_all, args=(subscriber,), daemon=True).start()
        send_report(ready=True)
        wait_for_line()


def discard_all(subscriber: Any) -> None:  # noqa: ANN401
    for _ in subscriber:
        pass


def role_feed(package: Package, locator: str, size: int, count: int) -> None:
    """Publish record batches until stopped."""
    with open_session(package, "peer", [], [locator]) as session:
        publisher, batch = declare_publisher(package, session), batch_of(size, count)
        over = threading.Event()

        def listen() -> None:
            wait_for_line()
            over.set()

        threading.Thread(target=listen, daemon=True).start()
        while not over.is_set():
            publisher.put_batch(batch)


def role_feed_keys(package: Package, locator: str, size: int, count: int) -> None:
    """Publish once on each of many keys, from record batches."""
    with open_session(package, "peer", [], [locator]) as session:
        declare_publisher(package, session, KEYS)
        for batch in batches_of_keys(size, DISTINCT_KEYS):
            session.put_batch(batch, congestion_control=package.CongestionControl.BLOCK)
        wait_for_line()


def batches_of_keys(size: int, count: int) -> Iterator[Any]:
    """Yield rows with distinct keys, all of them below KEY."""
    import pyarrow as pa

    for start in range(0, count, ROWS):
        keys = [f"{KEY}/keys/{number}/state" for number in range(start, min(start + ROWS, count))]
        yield pa.record_batch({"key": keys, "payload": pa.array([bytes(size)] * len(keys), pa.binary())})


class Counter:
    """Measures from the first message until `count` messages were received."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seen = 0
        self.began = self.used = 0.0
        self.over = threading.Event()

    def add(self, number: int) -> bool:
        """Count messages, and report when there are enough. Returns whether more are needed."""
        if not self.seen:
            self.began, self.used = time.perf_counter(), cpu()
            number = 0
            self.seen = 1
        self.seen += number
        if self.seen >= self.count and not self.over.is_set():
            seconds = time.perf_counter() - self.began
            send_report(rate=self.seen / seconds, cpu=(cpu() - self.used) / self.seen * 1e6)
            self.over.set()
        return not self.over.is_set()


def role_callback(package: Package, locator: str, size: int, count: int, key: str = KEY) -> None:
    """Receive with a callback that reads the size of every payload."""
    counter = Counter(count)
    steps = 0

    def on_sample(sample: Any) -> None:  # noqa: ANN401
        nonlocal steps
        len(sample.payload)
        steps += 1
        if steps % 100 == 1:
            counter.add(100)

    with open_session(package, "peer", [locator], []) as session:
        _kept = session.declare_subscriber(key, on_sample)
        send_report(ready=True)
        counter.over.wait(TIMEOUT_SECONDS)
        wait_for_line()


def role_callback_keys(package: Package, locator: str, size: int, count: int) -> None:
    """Receive on many keys with a callback."""
    role_callback(package, locator, size, count, KEYS)


def role_channel(package: Package, locator: str, size: int, count: int) -> None:
    """Receive from a channel, and read the size of every payload."""
    counter = Counter(count)
    with open_session(package, "peer", [locator], []) as session:
        subscriber = session.declare_subscriber(KEY, package.handlers.FifoChannel(256))
        send_report(ready=True)
        for steps, sample in enumerate(subscriber):
            len(sample.payload)
            if steps % 100 == 0 and not counter.add(100):
                break
        wait_for_line()


def role_arrow(package: Package, locator: str, size: int, count: int, key: str = KEY) -> None:
    """Receive record batches."""
    counter = Counter(count)
    with open_session(package, "peer", [locator], []) as session:
        subscriber = session.declare_subscriber(key, package.ArrowBatches())
        send_report(ready=True)
        for batch in subscriber:
            if not counter.add(batch.num_rows):
                break
        wait_for_line()


def role_arrow_keys(package: Package, locator: str, size: int, count: int) -> None:
    """Receive record batches of many keys."""
    role_arrow(package, locator, size, count, KEYS)


def role_pong(package: Package, locator: str, size: int, count: int) -> None:
    """Send every payload back, from the callback."""
    with open_session(package, "peer", [locator], []) as session:
        publisher = session.declare_publisher(KEY + "/pong", express=True)
        _kept = session.declare_subscriber(KEY + "/ping", lambda sample: publisher.put(sample.payload))
        send_report(ready=True)
        wait_for_line()


def role_ping(package: Package, locator: str, size: int, count: int) -> None:
    """Send, wait for the echo, and repeat; report the latency in microseconds."""
    with open_session(package, "peer", [], [locator]) as session:
        publisher = session.declare_publisher(KEY + "/ping", express=True)
        echoes = session.declare_subscriber(KEY + "/pong")
        wait_for_match(publisher)
        payload, times = bytes(size), []
        for _ in range(count + count // 10):
            began = time.perf_counter()
            publisher.put(payload)
            echoes.recv()
            times.append((time.perf_counter() - began) / 2e-6)
        ranked = sorted(times[count // 10 :])
        send_report(p50=statistics.median(ranked), p99=ranked[len(ranked) * 99 // 100])
        wait_for_line()


def role_queryable(package: Package, locator: str, size: int, count: int) -> None:
    """Reply to queries, from the callback."""
    with open_session(package, "peer", [locator], []) as session:
        payload = bytes(size)
        _kept = session.declare_queryable(KEY, lambda query: query.reply(KEY, payload))
        send_report(ready=True)
        wait_for_line()


def role_get(package: Package, locator: str, size: int, count: int) -> None:
    """Query, read the replies, and repeat."""
    with open_session(package, "peer", [], [locator]) as session:
        querier = session.declare_querier(KEY)
        wait_for_match(querier)

        def work() -> None:
            for _ in range(count):
                for reply in querier.get():
                    if reply.ok is None:
                        raise RuntimeError("a query got an error reply")

        work()
        measure_work(count, work)
        wait_for_line()


ROLES = {name[5:]: role for name, role in list(globals().items()) if name.startswith("role_")}


# --- the parent process ---------------------------------------------------------------------------------------------


class Process:
    """A child process that runs one role of `module` with one package; it is killed after `timeout` seconds.

    The package `zenspark@SRC` is the zenspark in the directory SRC.
    """

    def __init__(
        self,
        package: str,
        role: str,
        *arguments: object,
        module: str = "bench.bench_session",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        name, _, source = package.partition("@")
        command = [sys.executable, "-m", module, "--role", role, name, *map(str, arguments)]
        paths = [*filter(None, [source, os.environ.get("PYTHONPATH", "")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._timer = threading.Timer(timeout, self._process.kill)
        self._timer.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def request(self) -> Measured:
        """Send a line, and return the report that the process sends then."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.receive()

    def receive(self) -> Measured:
        """Wait for the next report of the process."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended without a report: {self._process.args!r}")
        report: Measured = json.loads(line)
        return report

    def end(self) -> None:
        """Send a last line, and wait for the process to end; kill it after 10 s."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.close()
            self._process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
        self._process.wait()
        self._timer.cancel()


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def run_turn(listener: tuple[str, str], dialer: tuple[str, str], size: int, count: int, measure: str) -> Measured:
    """Run two roles in two processes. Returns the report of the measured one."""
    locator = f"tcp/127.0.0.1:{free_port()}"
    listening = Process(*listener, locator, size, count)
    listening.receive()
    dialing = Process(*dialer, locator, size, count)
    first, second = (listening, dialing) if measure == "listener" else (dialing, listening)
    try:
        return first.receive()
    finally:
        first.end()  # before the second, which may wait for it
        second.end()


class Side(NamedTuple):
    """A package that is measured beside zenspark, and its name in results."""

    package: str = THEIRS
    label: str = "zenoh"

    def role(self, role: str) -> str:
        """Return the role to compare with one of zenspark's: eclipse-zenoh has none for Arrow."""
        return NO_ARROW.get(role, role) if self.package == THEIRS else role

    def counts(self, role: str) -> dict[int, int]:
        """Return the messages of a turn by payload size, for a role of zenspark."""
        return IN_BATCHES if self.role(role) in ("put_batch", "arrow") else SIZES


NO_ARROW = {"put_batch": "put", "arrow": "callback", "arrow_keys": "callback_keys"}
US, ECLIPSE = Side(OURS, "zenspark"), Side()
Comparison = tuple[str, Callable[[Side], Measured]]


def compare_sending(role: str, size: int) -> Comparison:
    def turn(side: Side) -> Measured:
        return run_turn((OURS, "sink"), (side.package, side.role(role)), size, side.counts(role)[size], "dialer")

    return f"{role} {size} B", turn


def compare_receiving(role: str, size: int) -> Comparison:
    def turn(side: Side) -> Measured:
        return run_turn((side.package, side.role(role)), (OURS, "feed"), size, side.counts(role)[size], "listener")

    return f"receive into {role} {size} B", turn


def compare_receiving_keys(role: str) -> Comparison:
    """Compare receiving on distinct keys; a tenth less than is sent is counted: the last messages may come late."""

    def turn(side: Side) -> Measured:
        receiver = side.package, side.role(f"{role}_keys")
        return run_turn(receiver, (OURS, "feed_keys"), 8, DISTINCT_KEYS * 9 // 10, "listener")

    return f"receive distinct keys into {role} 8 B", turn


def compare_pair(name: str, listener: str, dialer: str, size: int, count: int) -> Comparison:
    def turn(side: Side) -> Measured:
        return run_turn((side.package, listener), (side.package, dialer), size, count, "dialer")

    return name, turn


def comparisons() -> Iterator[Comparison]:
    for size in SIZES:
        yield compare_sending("put", size)
        yield compare_sending("put_batch", size)
    for size in SIZES:
        for role in ("callback", "channel", "arrow"):
            yield compare_receiving(role, size)
    for role in ("callback", "arrow"):
        yield compare_receiving_keys(role)
    yield compare_pair("ping 8 B", "pong", "ping", 8, PINGS)
    yield compare_pair("get 8 B", "queryable", "get", 8, GETS)


def results(line: Comparison, turns: int, side: Side = ECLIPSE) -> Iterator[Result]:
    """Yield the ratios of the turns of one line, and the measured values of either side."""
    name, turn = line
    pairs = [(turn(US), turn(side)) for _ in range(turns)]
    for figure in pairs[0][0]:
        ratios = [one[figure] / other[figure] for one, other in pairs]
        yield Result.of(f"{name}: {figure}, {US.label} / {side.label}", ratios, "x")
        unit = {"rate": "/s", "cpu": "s/M"}.get(figure, "us")
        yield Result.of(f"{name}: {figure}, {US.label}", [one[figure] for one, _ in pairs], unit)
        yield Result.of(f"{name}: {figure}, {side.label}", [other[figure] for _, other in pairs], unit)


def lines(turns: int) -> Iterator[Line]:
    for line in comparisons():
        yield line[0], partial(results, line, turns)


def lines_beside(turns: int, package: str) -> Iterator[Line]:
    """Yield the lines that compare with another build of zenspark."""
    for line in comparisons():
        yield line[0], partial(results, line, turns, Side(package, "other"))


def run_role(role: str, package: str, locator: str, size: int, count: int) -> None:
    ROLES[role](importlib.import_module(package), locator, size, count)


if __name__ == "__main__":
    run("session", __doc__, lines, TURNS, run_role, lines_beside)
