"""How fast do sessions publish, receive, echo and ask, beside eclipse-zenoh's own Python package in the same run?

    make bench                                                  this and all others, compiled
    python bench/bench_session.py --json new.json               this one alone; --only put,ping runs some of it
    python bench/bench_session.py --beside OTHER/src              beside another tree of zenspark, compiled there

A good answer: a ratio of at least 1 in every line (how much more of it zenspark does in a second), at most 0.8 for the
median latency (how long it takes), at least 10 for `put_batch` and for receiving into Arrow at 8 bytes.

Each measurement has two processes on loopback TCP, shared memory off, and the two packages take turns, so a busy
machine disturbs both alike. Whoever publishes is measured with the same receiver (zenspark, into Arrow); whoever
receives, with the same sender (zenspark's `put_batch`), which is faster than any of them. A latency is half of the way
there and back, as both packages' `ping` examples count it. "distinct keys": each publication is on a key that none
before it had, as where there are ids or numbers in keys. "cpu" is the processor time of the measured process in seconds
per million messages: it tells what is left of a machine with little to spare.
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

from bench.compare import Result
from bench.running import OURS, THEIRS, Line, run

TURNS = 7
KEY = "bench/session"
KEYS = KEY + "/keys/**"
SIZES = {8: 1_000_000, 1024: 300_000, 65536: 30_000}
"""Payload sizes, and how many messages of them one by one a turn has;"""
IN_BATCHES = {8: 10_000_000, 1024: 1_000_000, 65536: 30_000}
"""and how many in batches: so that either takes long enough to be measured."""
DISTINCT_KEYS = 200_000
PINGS = 4_000
GETS = 3_000
ROWS = 16_384
PATIENCE = 60.0

Package = Any
Measured = dict[str, float]


# --- the processes --------------------------------------------------------------------------------------------------


def opened(package: Package, mode: str, listen: list[str], connect: list[str]) -> Any:  # noqa: ANN401
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


def tell(**what: object) -> None:
    """Say something to the process that started this one."""
    print(json.dumps(what), flush=True)


def wait_for_word() -> None:
    """Wait for a line from that process."""
    sys.stdin.readline()


def wait_matched(publisher: Any) -> None:  # noqa: ANN401
    deadline = time.monotonic() + PATIENCE
    while not publisher.matching_status.matching:
        if time.monotonic() > deadline:
            raise TimeoutError("nobody subscribed")
        time.sleep(0.01)


def measured(count: int, work: Callable[[], object]) -> None:
    """Tell how long some work took, and what it cost."""
    used, began = cpu(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    tell(rate=count / seconds, cpu=(cpu() - used) / count * 1e6)


def publisher_of(package: Package, session: Any, key: str = KEY) -> Any:  # noqa: ANN401
    publisher = session.declare_publisher(key, congestion_control=package.CongestionControl.BLOCK)
    wait_matched(publisher)
    return publisher


def role_put(package: Package, locator: str, size: int, count: int) -> None:
    """Publish one by one, as fast as it goes."""
    with opened(package, "peer", [], [locator]) as session:
        publisher, payload = publisher_of(package, session), bytes(size)

        def work() -> None:
            for _ in range(count):
                publisher.put(payload)

        work()  # once to get going
        measured(count, work)
        wait_for_word()


def role_put_batch(package: Package, locator: str, size: int, count: int) -> None:
    """Publish record batches, as fast as it goes."""
    with opened(package, "peer", [], [locator]) as session:
        publisher, batch = publisher_of(package, session), batch_of(size, count)
        turns = max(1, count // batch.num_rows)

        def work() -> None:
            for _ in range(turns):
                publisher.put_batch(batch)

        work()
        measured(turns * batch.num_rows, work)
        wait_for_word()


def batch_of(size: int, count: int) -> Any:  # noqa: ANN401
    import pyarrow as pa

    rows = min(count, ROWS, max(1, (1 << 26) // size))
    return pa.record_batch({"payload": pa.array([bytes(size)] * rows, pa.binary())})


def role_sink(package: Package, locator: str, size: int, count: int) -> None:
    """Receive everything into Arrow, and forget it."""
    with opened(package, "peer", [locator], []) as session:
        subscriber = session.declare_subscriber(KEY, package.ArrowBatches())
        threading.Thread(target=forget_all, args=(subscriber,), daemon=True).start()
        tell(ready=True)
        wait_for_word()


def forget_all(subscriber: Any) -> None:  # noqa: ANN401
    for _ in subscriber:
        pass


def role_feed(package: Package, locator: str, size: int, count: int) -> None:
    """Publish record batches until stopped."""
    with opened(package, "peer", [], [locator]) as session:
        publisher, batch = publisher_of(package, session), batch_of(size, count)
        over = threading.Event()

        def listen() -> None:
            wait_for_word()
            over.set()

        threading.Thread(target=listen, daemon=True).start()
        while not over.is_set():
            publisher.put_batch(batch)


def role_feed_keys(package: Package, locator: str, size: int, count: int) -> None:
    """Publish once on each of many keys, from record batches."""
    with opened(package, "peer", [], [locator]) as session:
        publisher_of(package, session, KEYS)
        for batch in batches_of_keys(size, DISTINCT_KEYS):
            session.put_batch(batch, congestion_control=package.CongestionControl.BLOCK)
        wait_for_word()


def batches_of_keys(size: int, count: int) -> Iterator[Any]:
    """Rows that have each a key of its own, all of them below KEY."""
    import pyarrow as pa

    for start in range(0, count, ROWS):
        keys = [f"{KEY}/keys/{number}/state" for number in range(start, min(start + ROWS, count))]
        yield pa.record_batch({"key": keys, "payload": pa.array([bytes(size)] * len(keys), pa.binary())})


class Counter:
    """Measures from the first message on until there were enough."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seen = 0
        self.began = self.used = 0.0
        self.over = threading.Event()

    def add(self, number: int) -> bool:
        """Count messages; whether it goes on."""
        if not self.seen:
            self.began, self.used = time.perf_counter(), cpu()
            number = 0
            self.seen = 1
        self.seen += number
        if self.seen >= self.count and not self.over.is_set():
            seconds = time.perf_counter() - self.began
            tell(rate=self.seen / seconds, cpu=(cpu() - self.used) / self.seen * 1e6)
            self.over.set()
        return not self.over.is_set()


def role_callback(package: Package, locator: str, size: int, count: int, key: str = KEY) -> None:
    """Receive with a callback that looks at every payload."""
    counter = Counter(count)
    steps = 0

    def on_sample(sample: Any) -> None:  # noqa: ANN401
        nonlocal steps
        len(sample.payload)
        steps += 1
        if steps % 100 == 1:
            counter.add(100)

    with opened(package, "peer", [locator], []) as session:
        _kept = session.declare_subscriber(key, on_sample)
        tell(ready=True)
        counter.over.wait(PATIENCE)
        wait_for_word()


def role_callback_keys(package: Package, locator: str, size: int, count: int) -> None:
    """The same on many keys."""
    role_callback(package, locator, size, count, KEYS)


def role_channel(package: Package, locator: str, size: int, count: int) -> None:
    """Receive from a channel, looking at every payload."""
    counter = Counter(count)
    with opened(package, "peer", [locator], []) as session:
        subscriber = session.declare_subscriber(KEY, package.handlers.FifoChannel(256))
        tell(ready=True)
        for steps, sample in enumerate(subscriber):
            len(sample.payload)
            if steps % 100 == 0 and not counter.add(100):
                break
        wait_for_word()


def role_arrow(package: Package, locator: str, size: int, count: int, key: str = KEY) -> None:
    """Receive record batches."""
    counter = Counter(count)
    with opened(package, "peer", [locator], []) as session:
        subscriber = session.declare_subscriber(key, package.ArrowBatches())
        tell(ready=True)
        for batch in subscriber:
            if not counter.add(batch.num_rows):
                break
        wait_for_word()


def role_arrow_keys(package: Package, locator: str, size: int, count: int) -> None:
    """The same of many keys."""
    role_arrow(package, locator, size, count, KEYS)


def role_pong(package: Package, locator: str, size: int, count: int) -> None:
    """Send back whatever comes, from the callback."""
    with opened(package, "peer", [locator], []) as session:
        publisher = session.declare_publisher(KEY + "/pong", express=True)
        _kept = session.declare_subscriber(KEY + "/ping", lambda sample: publisher.put(sample.payload))
        tell(ready=True)
        wait_for_word()


def role_ping(package: Package, locator: str, size: int, count: int) -> None:
    """Send, wait for the echo, and again."""
    with opened(package, "peer", [], [locator]) as session:
        publisher = session.declare_publisher(KEY + "/ping", express=True)
        echoes = session.declare_subscriber(KEY + "/pong")
        wait_matched(publisher)
        payload, times = bytes(size), []
        for _ in range(count + count // 10):
            began = time.perf_counter()
            publisher.put(payload)
            echoes.recv()
            times.append((time.perf_counter() - began) / 2e-6)
        ranked = sorted(times[count // 10 :])
        tell(p50=statistics.median(ranked), p99=ranked[len(ranked) * 99 // 100])
        wait_for_word()


def role_queryable(package: Package, locator: str, size: int, count: int) -> None:
    """Answer queries, from the callback."""
    with opened(package, "peer", [locator], []) as session:
        payload = bytes(size)
        _kept = session.declare_queryable(KEY, lambda query: query.reply(KEY, payload))
        tell(ready=True)
        wait_for_word()


def role_get(package: Package, locator: str, size: int, count: int) -> None:
    """Ask, read the answers, and again."""
    with opened(package, "peer", [], [locator]) as session:
        querier = session.declare_querier(KEY)
        wait_matched(querier)

        def work() -> None:
            for _ in range(count):
                for reply in querier.get():
                    if reply.ok is None:
                        raise RuntimeError("a query was not answered")

        work()
        measured(count, work)
        wait_for_word()


ROLES = {name[5:]: role for name, role in list(globals().items()) if name.startswith("role_")}


# --- the one that starts them ---------------------------------------------------------------------------------------


class Process:
    """One role, played by one package; it is in `module`, and has an end after `patience` seconds.

    The package `zenspark@SRC` is the zenspark in the directory SRC.
    """

    def __init__(
        self,
        package: str,
        role: str,
        *arguments: object,
        module: str = "bench.bench_session",
        patience: float = PATIENCE,
    ) -> None:
        name, _, source = package.partition("@")
        command = [sys.executable, "-m", module, "--role", role, name, *map(str, arguments)]
        paths = [*filter(None, [source, os.environ.get("PYTHONPATH", "")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._timer = threading.Timer(patience, self._process.kill)
        self._timer.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self) -> Measured:
        """Say a word, and hear what it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.hear()

    def hear(self) -> Measured:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"it ended without a result: {self._process.args!r}")
        heard: Measured = json.loads(line)
        return heard

    def end(self) -> None:
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


def play(listener: tuple[str, str], caller: tuple[str, str], size: int, count: int, measure: str) -> Measured:
    """Run two roles in two processes. Returns the report of the measured one."""
    locator = f"tcp/127.0.0.1:{free_port()}"
    one = Process(*listener, locator, size, count)
    one.hear()
    other = Process(*caller, locator, size, count)
    first, second = (one, other) if measure == "listener" else (other, one)
    try:
        return first.hear()
    finally:
        first.end()  # or the other may wait for it
        second.end()


class Side(NamedTuple):
    """What is measured beside zenspark: a package, and a name for it."""

    package: str = THEIRS
    label: str = "zenoh"

    def role(self, role: str) -> str:
        """The role that it plays for one of ours: eclipse-zenoh has nothing for Arrow."""
        return NO_ARROW.get(role, role) if self.package == THEIRS else role

    def counts(self, role: str) -> dict[int, int]:
        """Messages by size for a role of ours."""
        return IN_BATCHES if self.role(role) in ("put_batch", "arrow") else SIZES


NO_ARROW = {"put_batch": "put", "arrow": "callback", "arrow_keys": "callback_keys"}
US, ECLIPSE = Side(OURS, "zenspark"), Side()
Comparison = tuple[str, Callable[[Side], Measured]]


def sending(role: str, size: int) -> Comparison:
    def turn(side: Side) -> Measured:
        return play((OURS, "sink"), (side.package, side.role(role)), size, side.counts(role)[size], "caller")

    return f"{role} {size} B", turn


def receiving(role: str, size: int) -> Comparison:
    def turn(side: Side) -> Measured:
        return play((side.package, side.role(role)), (OURS, "feed"), size, side.counts(role)[size], "listener")

    return f"receive into {role} {size} B", turn


def receiving_keys(role: str) -> Comparison:
    """Counts a tenth less than are sent: the last of them may come late."""

    def turn(side: Side) -> Measured:
        measured = side.package, side.role(f"{role}_keys")
        return play(measured, (OURS, "feed_keys"), 8, DISTINCT_KEYS * 9 // 10, "listener")

    return f"receive distinct keys into {role} 8 B", turn


def between(name: str, listener: str, caller: str, size: int, count: int) -> Comparison:
    def turn(side: Side) -> Measured:
        return play((side.package, listener), (side.package, caller), size, count, "caller")

    return name, turn


def comparisons() -> Iterator[Comparison]:
    for size in SIZES:
        yield sending("put", size)
        yield sending("put_batch", size)
    for size in SIZES:
        for role in ("callback", "channel", "arrow"):
            yield receiving(role, size)
    for role in ("callback", "arrow"):
        yield receiving_keys(role)
    yield between("ping 8 B", "pong", "ping", 8, PINGS)
    yield between("get 8 B", "queryable", "get", 8, GETS)


def results(line: Comparison, turns: int, side: Side = ECLIPSE) -> Iterator[Result]:
    """Ratios of the turns of one line, and what was measured."""
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
    """The same beside another zenspark."""
    for line in comparisons():
        yield line[0], partial(results, line, turns, Side(package, "other"))


def be(role: str, package: str, locator: str, size: int, count: int) -> None:
    ROLES[role](importlib.import_module(package), locator, size, count)


if __name__ == "__main__":
    run("session", __doc__, lines, TURNS, be, lines_beside)
