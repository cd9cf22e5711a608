"""Every example, run as people run it: processes on loopback, alone or with eclipse-zenoh at the other end.

The other end is the same file with its import line changed, which also shows that nothing else ties it to us.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.unit.net.ends import free_group
from zenspark.net.links.interfaces import find_interface

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
IMPORT = "import zenspark as zenoh\n"
TIMEOUT_SECONDS = 60.0
READY = "Press CTRL-C"

ZENSPARK, ECLIPSE_ZENOH = "zenspark", "zenoh"
INTEROP = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("zenoh") is None, reason="eclipse-zenoh is not installed"),
]
library_pairs = pytest.mark.parametrize(
    ("listening", "connecting"),
    [
        pytest.param(ZENSPARK, ZENSPARK, id="ours"),
        pytest.param(ZENSPARK, ECLIPSE_ZENOH, id="theirs-connects", marks=INTEROP),
        pytest.param(ECLIPSE_ZENOH, ZENSPARK, id="theirs-listens", marks=INTEROP),
    ],
)


class Running:
    """One example as a process, and what it has printed."""

    def __init__(self, file: Path, options: tuple[str, ...]) -> None:
        self.name = " ".join([file.name, *options])
        self.lines: list[str] = []
        self.is_over = False
        self.news = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, str(file), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.is_over = True
            self.news.notify_all()

    def found(self, *words: str) -> list[str]:
        """The lines so far that have all these words."""
        return [line for line in self.lines if all(word in line for word in words)]

    def wait_for(self, *words: str) -> str:
        """The first line with all these words."""
        with self.news:
            self.news.wait_for(lambda: self.is_over or self.found(*words), TIMEOUT_SECONDS)
            found = self.found(*words)
        assert found, f"{words} not printed by {self}"
        return found[0]

    def wait_end(self) -> None:
        """It ends by itself, and well."""
        try:
            code = self.process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(f"does not end: {self}")
        self.reader.join(TIMEOUT_SECONDS)
        assert code == 0, f"ended with {code}: {self}"
        assert not self.found("Traceback"), str(self)

    def interrupt(self) -> None:
        """Ctrl-C ends it, and well."""
        self.process.send_signal(signal.SIGINT)
        self.wait_end()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT_SECONDS)
        self.reader.join(TIMEOUT_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __str__(self) -> str:
        return "\n".join([self.name, *self.lines])


class Runner:
    """Starts examples with one library or the other, and ends them all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: list[Running] = []

    def __call__(self, library: str, name: str, *options: str) -> Running:
        example = Running(self.file(library, name), options)
        self.running.append(example)
        return example

    def file(self, library: str, name: str) -> Path:
        ours = EXAMPLES / f"{name}.py"
        if library == ZENSPARK:
            return ours
        theirs = self.directory / f"{name}_{library}.py"
        theirs.write_text(ours.read_text().replace(IMPORT, f"import {library}\n"))
        return theirs


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runner]:
    runner = Runner(tmp_path)
    try:
        yield runner
    finally:
        for example in runner.running:
            example.kill()


@pytest.fixture
def endpoint() -> str:
    return f"tcp/127.0.0.1:{free_port()}"


@pytest.fixture
def listen(endpoint: str) -> tuple[str, ...]:
    return ("-l", endpoint, "--no-multicast-scouting")


@pytest.fixture
def connect(endpoint: str) -> tuple[str, ...]:
    return ("-e", endpoint, "--no-multicast-scouting")


@pytest.fixture
def scouting() -> tuple[str, ...]:
    """Options to scout in a multicast group that no other process uses."""
    options = {"address": free_group(), "interface": find_interface("127.0.0.1").name}
    return tuple(word for key, value in options.items() for word in ("--cfg", f"scouting/multicast/{key}:'{value}'"))


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_example_is_tied_to_zenspark_only_by_its_import(file: Path) -> None:
    text = file.read_text()
    assert text.count(IMPORT) == 1
    assert "zenspark." not in text
    assert len(text.splitlines()) <= 60


@library_pairs
@pytest.mark.parametrize("mode", ["peer", "client"])
def test_put_to_sub(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str, mode: str
) -> None:
    sub = run(listening, "sub", *listen, "-k", "test/**", "-n", "1")
    sub.wait_for("Declaring Subscriber on 'test/**'")
    sub.wait_for(READY)
    put = run(connecting, "put", *connect, "-m", mode, "-k", "test/a", "-p", "one")
    sub.wait_for(">> [Subscriber] Received PUT ('test/a': 'one')")
    put.wait_end()
    sub.wait_end()


@pytest.mark.parametrize("library", [ZENSPARK, pytest.param(ECLIPSE_ZENOH, marks=INTEROP)])
def test_aio_sub_receives_samples_of_pub(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], library: str
) -> None:
    pub = run(library, "pub", *listen, "-k", "test/a", "-p", "x", "--interval", "0.02")
    pub.wait_for(READY)
    sub = run(ZENSPARK, "aio_sub", *connect, "-k", "test/*", "-n", "2")
    sub.wait_for(">> [Subscriber] Received PUT ('test/a': '[", "] x')")
    sub.wait_end()
    endless = run(ZENSPARK, "aio_sub", *connect, "-k", "test/*")
    endless.wait_for(">> [Subscriber] Received PUT ('test/a': '[", "] x')")
    endless.interrupt()
    pub.interrupt()


@library_pairs
def test_pub_to_sub(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str
) -> None:
    pub = run(listening, "pub", *listen, "-k", "test/a", "-p", "x", "--interval", "0.02", "--add-matching-listener")
    pub.wait_for(READY)
    sub = run(connecting, "sub", *connect, "-k", "test/*")
    pub.wait_for(">> [Publisher] Subscribers match")
    first = sub.wait_for(">> [Subscriber] Received PUT ('test/a': '[", "] x')")
    number = int(first.split("[")[2].split("]")[0])
    sub.wait_for(f"[{number + 1:4d}] x")
    sub.interrupt()
    pub.wait_for(">> [Publisher] No subscriber matches")
    pub.interrupt()


@library_pairs
def test_pub_to_pull(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str
) -> None:
    pull = run(listening, "pull", *listen, "-k", "test/**", "--size", "2", "--interval", "0.5")
    pull.wait_for(READY)
    pub = run(connecting, "pub", *connect, "-k", "test/a", "-p", "x", "-n", "20", "--interval", "0.01")
    pub.wait_end()
    pull.wait_for(">> [Subscriber] Pulled PUT ('test/a': '[  19] x')")
    assert 2 <= len(pull.found("Pulled")) < 15
    pull.interrupt()


@library_pairs
@pytest.mark.parametrize("mode", ["peer", "client"])
def test_get_from_queryable(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str, mode: str
) -> None:
    queryable = run(listening, "queryable", *listen, "-k", "test/a", "-p", "answer", "--complete", "-n", "1")
    queryable.wait_for(READY)
    get = run(connecting, "get", *connect, "-m", mode, "-s", "test/*?n=1", "-p", "why", "-t", "ALL", "-o", "5")
    get.wait_end()
    assert get.found(">> Received ('test/a': 'answer')"), str(get)
    queryable.wait_for(">> [Queryable] Received Query 'test/*?n=1' with payload 'why'")
    queryable.wait_end()


@library_pairs
def test_querier_receives_replies_of_queryable(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str
) -> None:
    querier = run(listening, "querier", *listen, "-s", "test/a?n=1", "-p", "why", "--interval", "0.05")
    querier.wait_for(READY)
    queryable = run(connecting, "queryable", *connect, "-k", "test/a", "-p", "answer")
    querier.wait_for(">> Received ('test/a': 'answer')")
    queryable.wait_for(">> [Queryable] Received Query 'test/a?n=1' with payload '[", "] why'")
    querier.interrupt()
    queryable.interrupt()


@library_pairs
def test_storage(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str
) -> None:
    storage = run(listening, "storage", *listen, "-k", "test/**")
    storage.wait_for(READY)
    run(connecting, "put", *connect, "-k", "test/a", "-p", "one").wait_end()
    run(connecting, "put", *connect, "-k", "test/b", "-p", "two").wait_end()
    storage.wait_for(">> [Subscriber] Received PUT ('test/a': 'one')")
    storage.wait_for(">> [Subscriber] Received PUT ('test/b': 'two')")
    get = run(connecting, "get", *connect, "-s", "test/*")
    get.wait_end()
    assert sorted(get.found(">> Received")) == [">> Received ('test/a': 'one')", ">> Received ('test/b': 'two')"]
    storage.interrupt()


@library_pairs
def test_liveliness_token_is_listed_and_its_drop_received(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str
) -> None:
    token = run(listening, "liveliness", *listen, "-k", "test/alive")
    token.wait_for(READY)
    watching = run(connecting, "liveliness", *connect, "--history", "-k", "test/*", "-n", "2")
    get = run(connecting, "liveliness", *connect, "--get", "-k", "test/*", "-o", "5")
    get.wait_end()
    assert get.found(">> ") == [">> Alive token ('test/alive')"], str(get)
    watching.wait_for(">> [LivelinessSubscriber] New alive token ('test/alive')")
    token.interrupt()
    watching.wait_for(">> [LivelinessSubscriber] Dropped token ('test/alive')")
    watching.wait_end()


@library_pairs
def test_liveliness_of_a_node_that_comes_later(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str
) -> None:
    watching = run(listening, "liveliness", *listen, "--sub", "-k", "test/*", "-n", "2")
    watching.wait_for(READY)
    token = run(connecting, "liveliness", *connect, "-k", "test/alive")
    watching.wait_for(">> [LivelinessSubscriber] New alive token ('test/alive')")
    token.kill()
    watching.wait_for(">> [LivelinessSubscriber] Dropped token ('test/alive')")
    watching.wait_end()


@library_pairs
def test_info(
    run: Runner, endpoint: str, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str
) -> None:
    run(listening, "sub", *listen, "--cfg", "id:'abc123'").wait_for(READY)
    info = run(connecting, "info", *connect)
    info.wait_end()
    assert info.found("peers: ['abc123']"), str(info)
    assert info.found("transport: peer abc123"), str(info)
    assert info.found("link: ", f"-> {endpoint}"), str(info)


@library_pairs
def test_scout(run: Runner, endpoint: str, scouting: tuple[str, ...], listening: str, connecting: str) -> None:
    run(listening, "sub", "-l", endpoint, "--cfg", "id:'abc123'", *scouting).wait_for(READY)
    scout = run(connecting, "scout", *scouting)
    scout.wait_for(">> Found peer abc123 at ", endpoint)
    scout.wait_end()
    scout.wait_for("Found 1 nodes.")


@library_pairs
def test_info_of_nodes_found(
    run: Runner, endpoint: str, scouting: tuple[str, ...], listening: str, connecting: str
) -> None:
    run(listening, "sub", "-l", endpoint, "--cfg", "id:'abc123'", *scouting).wait_for(READY)
    info = run(connecting, "info", *scouting, "-l", "tcp/127.0.0.1:0")
    info.wait_end()
    assert info.found("peers: ['abc123']"), str(info)


@library_pairs
def test_ping_pong(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str
) -> None:
    pong = run(listening, "pong", *listen)
    pong.wait_for(READY)
    ping = run(connecting, "ping", *connect, "65536", "-w", "0", "-n", "20")
    ping.wait_end()
    assert len(ping.found("65536 bytes: seq=", "rtt=")) == 20
    pong.interrupt()


@library_pairs
def test_throughput(
    run: Runner, listen: tuple[str, ...], connect: tuple[str, ...], listening: str, connecting: str
) -> None:
    sub = run(listening, "sub_thr", *listen, "-n", "1000", "-s", "3")
    sub.wait_for(READY)
    pub = run(connecting, "pub_thr", *connect, "8", "-n", "1000", "-t")
    sub.wait_end()
    assert len(sub.found("msg/s")) == 3
    pub.wait_for("msg/s")
    pub.interrupt()


@pytest.mark.parametrize("name", ["sub_thr", "ping", "liveliness"])
def test_idle_example_ends_with_ctrl_c(run: Runner, endpoint: str, name: str) -> None:
    example = run(ZENSPARK, name, "-l", endpoint, "--no-multicast-scouting")
    example.wait_for("Waiting for pong" if name == "ping" else READY)
    example.interrupt()


def test_put_connects_as_in_its_configuration_file(
    run: Runner, endpoint: str, listen: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "zenoh.json5"
    scouting = {"multicast": {"enabled": False}}
    file.write_text(json.dumps({"mode": "client", "connect": {"endpoints": [endpoint]}, "scouting": scouting}))
    sub = run(ZENSPARK, "sub", *listen, "-k", "test/**", "-n", "1")
    sub.wait_for(READY)
    run(ZENSPARK, "put", "-c", str(file), "-k", "test/a", "-p", "one").wait_end()
    sub.wait_for(">> [Subscriber] Received PUT ('test/a': 'one')")
    sub.wait_end()
