"""eclipse-zenoh in processes of its own: a session that runs commands, line by line."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from tests.ports import free_port
from tests.wait import TIMEOUT_SECONDS
from zenspark.config.config import Config

PROGRAM = """
import json, sys, threading, zenoh
output_lock = threading.Lock()
def write_line(*words):
    with output_lock:
        print(*words, flush=True)
config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
try:
    session = zenoh.open(config)
except zenoh.ZError as error:
    write_line("refused")
    sys.exit(0)
kept = []
def on_sample(sample):
    size = len(sample.payload)
    write_line("received", sample.key_expr, sample.payload.to_string() if size < 1000 else f"{size} bytes")
def on_query(query):
    with query:
        query.reply(query.key_expr, "answer")
write_line("open", session.info.zid())
for line in sys.stdin:
    command, _, rest = line.strip().partition(" ")
    if command == "put":
        key, _, value = rest.partition(" ")
        session.put(key, value, congestion_control=zenoh.CongestionControl.BLOCK)
    elif command == "sub":
        kept.append(session.declare_subscriber(rest, on_sample))
    elif command == "queryable":
        kept.append(session.declare_queryable(rest, on_query))
    elif command == "token":
        kept.append(session.liveliness().declare_token(rest))
    elif command == "get":
        for reply in session.get(rest, timeout=2):
            if reply.ok:
                write_line("reply", reply.ok.payload.to_string())
    elif command == "live":
        for reply in session.liveliness().get(rest, timeout=2):
            write_line("alive", reply.ok.key_expr)
    elif command == "advanced_pub":
        publisher = zenoh.ext.declare_advanced_publisher(
            session, rest, cache=zenoh.ext.CacheConfig(10), publisher_detection=True,
            sample_miss_detection=zenoh.ext.MissDetectionConfig(heartbeat=0.1))
    elif command == "advanced_put":
        publisher.put(rest)
    elif command == "advanced_sub":
        kept.append(zenoh.ext.declare_advanced_subscriber(
            session, rest, on_sample, history=zenoh.ext.HistoryConfig(detect_late_publishers=True),
            recovery=zenoh.ext.RecoveryConfig(heartbeat=True), subscriber_detection=True))
        kept[-1].sample_miss_listener(lambda miss: write_line("missed", miss.nb))
    elif command == "peers":
        write_line("peers", *sorted(str(each) for each in session.info.peers_zid()))
    write_line("done", command)
session.close()
"""


class Reference:
    """One process, and the lines it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        self.first = self.line()
        self.zid = self.first.removeprefix("open ")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def line(self) -> str:
        """The next line."""
        return self.lines.get(timeout=2 * TIMEOUT_SECONDS)

    def execute(self, command: str) -> list[str]:
        """Run a command. Returns the lines that are printed until it is done, those of received samples included."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        found: list[str] = []
        while not (line := self.line()).startswith("done"):
            found.append(line)
        return found

    def kill(self) -> None:
        """End it as if the machine had failed."""
        self.process.kill()
        self.process.communicate()
        self.reader.join(TIMEOUT_SECONDS)


@contextlib.contextmanager
def reference(**config: object) -> Iterator[Reference]:
    """A process with a session; `__` in a name stands for `/`. Scouting is off unless `config` sets it."""
    settings = {"scouting/multicast/enabled": False, "transport/shared_memory/enabled": False}
    settings.update({name.replace("__", "/"): value for name, value in config.items()})  # type: ignore[misc]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    node = None
    try:
        node = Reference(process)
        yield node
    finally:
        process.kill()
        process.communicate()
        if node is not None:
            node.reader.join(TIMEOUT_SECONDS)


def ours(**config: object) -> Config:
    """The same for a session of ours."""
    made = Config()
    made.insert_json5("scouting/multicast/enabled", "false")
    if "listen__endpoints" not in config:
        made.insert_json5("listen/endpoints", "[]")
    for name, value in config.items():
        made.insert_json5(name.replace("__", "/"), json.dumps(value))
    return made


def unused(protocol: str = "tcp", host: str = "127.0.0.1") -> str:
    """An endpoint that is not in use yet."""
    return f"{protocol}/{host}:{free_port()}"


def eventually(is_so: Callable[[], object], timeout: float = 2 * TIMEOUT_SECONDS) -> bool:
    """Try until it is so."""
    deadline = time.monotonic() + timeout
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
