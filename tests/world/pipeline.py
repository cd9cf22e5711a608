"""`zenspark up` and publishers of eclipse-zenoh in processes of their own, to be fed, killed and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc

from tests.world.mixture import Message, Mixture
from tests.world.publisher import FENCE, LANES
from zenspark.journal import Journal

TIMEOUT_SECONDS = 300.0
"""For what takes a few on a machine that has nothing else to do."""
FENCE_SECONDS = 2.0
"""After a crash, until another fence is sent: the one before may have been lost with the connection."""
INGEST_MODULE = "zenspark.spark.ingest.process"


def wait_until(is_so: Callable[[], object], what: str, seconds: float = TIMEOUT_SECONDS) -> None:
    """Wait for something, but not for ever."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Up:
    """The command, from its start until it is interrupted or killed."""

    def __init__(self, lake: Path, journal: Path, endpoint: str, *flags: str) -> None:
        self.journal = journal
        self.lines: list[str] = []
        command = [sys.executable, "-m", "zenspark", "up", "-l", endpoint, "--lake", str(lake)]
        self.process = psutil.Popen(
            [*command, "--journal", str(journal), "--master", "local[2]", "--no-multicast-scouting", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._family: set[psutil.Process] = set()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_for("listens on")

    def _read(self) -> None:
        self.lines.extend(line.rstrip() for line in self.process.stdout)

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str) -> None:
        """Wait until it has printed something."""
        wait_until(lambda: text in self.output or self.process.poll() is not None, f"no {text!r} in: {self.output}")
        assert text in self.output, self.output

    def ingest_process(self) -> list[psutil.Process]:
        """The ingest processes: Python's and Java's."""
        found = []
        for child in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                command = " ".join(child.cmdline())
                if INGEST_MODULE in command or "SparkSubmit" in command:
                    found.append(child)
        return found

    def family(self) -> list[psutil.Process]:
        """All processes that it started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._family.update(self.process.children(recursive=True))
        return [child for child in self._family if child.is_running()]

    def interrupt(self) -> int:
        """End it as Ctrl-C does; its exit code."""
        self.family()
        self.process.send_signal(signal.SIGINT)
        try:
            code: int = self.process.wait(2 * TIMEOUT_SECONDS)  # longer than its own --stop-timeout
        finally:
            self._close()
        return code

    def kill(self) -> pa.Table:
        """Kill the recorder; the rows of its journal that were acknowledged by then, as far as they are still there."""
        self.family()
        self.process.suspend()
        rows = acknowledged(self.journal)
        self.process.kill()
        self.process.wait()
        self._reader.join()
        return rows

    def close(self) -> None:
        """End whatever still runs."""
        self.family()
        with contextlib.suppress(psutil.NoSuchProcess):
            self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        for child in self._family:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self._reader.join()
        self.process.stdout.close()


@contextlib.contextmanager
def up(lake: Path, journal: Path, endpoint: str, *flags: str) -> Iterator[Up]:
    """The command as long as the context lasts."""
    running = Up(lake, journal, endpoint, *flags)
    try:
        yield running
    finally:
        running.close()


def acknowledged(journal: Path) -> pa.Table:
    """The rows of a journal that a crash of its recorder cannot take back."""
    source = Journal(journal)
    return pa.Table.from_batches(source.read(source.earliest(), source.latest()))


class Publisher:
    """A process of eclipse-zenoh that publishes a mixture."""

    def __init__(self, endpoint: str, seed: int, *kind: str) -> None:
        command = [sys.executable, "-m", "tests.world.publisher", endpoint, str(seed), *kind]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read_reply()

    def begin(self, rate: float, seconds: float) -> None:
        """Publish so many messages a second for a while; does not wait for the end of it."""
        self._order(f"pace {rate} {seconds}")

    def send(self, count: int) -> int:
        """Publish so many messages as fast as possible."""
        self._order(f"send {count}")
        return self.end()

    def end(self) -> int:
        """Wait until all messages are published; how many."""
        return int(self._read_reply().split()[1])

    def fence(self, number: int) -> None:
        """Publish a number behind all messages."""
        self._order(f"fence {number}")
        self._read_reply()

    def _order(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _read_reply(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the publisher has ended"
        return line

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def steady(endpoint: str, seed: int) -> contextlib.closing[Publisher]:
    """A publisher of a mixture that never needs more, as long as the context lasts."""
    return contextlib.closing(Publisher(endpoint, seed, "steady"))


class Feed:
    """A publisher, and what is known of each of its messages: whether it must have been recorded.

    Messages that were sent between two fences that both arrived, with no crash of the recorder in between, must be
    there. Of those around a crash any may be missing.
    """

    def __init__(self, endpoint: str, seed: int, journal: Path) -> None:
        self.journal = journal
        self.mixture = Mixture(seed)
        self.sent: list[tuple[Message, bool]] = []
        """Messages in their order, and whether each must be there."""
        self._publisher = Publisher(endpoint, seed)
        self._unconfirmed: list[Message] = []
        self._was_disturbed = False
        self._fences = 0
        self._searched = 0
        self._arrived: dict[str, int] = {}

    def send(self, count: int) -> None:
        """Have the next messages of the mixture published, as fast as possible."""
        self._unconfirmed += self.mixture.messages(self._publisher.send(count))

    def begin(self, rate: float, seconds: float) -> None:
        """Have messages published for a while; does not wait for the end of it."""
        self._publisher.begin(rate, seconds)

    def end(self) -> None:
        """Wait until they are."""
        self._unconfirmed += self.mixture.messages(self._publisher.end())

    def disturb(self) -> None:
        """Take note that the recorder was killed."""
        self._was_disturbed = True

    def confirm(self) -> None:
        """Wait until everything that was sent is in the journal, or known to be lost."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not self._fence():
            assert time.monotonic() < deadline, f"nothing arrives in {self.journal} any more"
        self.sent += [(message, not self._was_disturbed) for message in self._unconfirmed]
        self._unconfirmed = []
        self._was_disturbed = False

    def _fence(self) -> bool:
        """Send a fence on all lanes; whether it arrived. After a crash the first may get lost on the way."""
        self._fences += 1
        self._publisher.fence(self._fences)
        deadline = time.monotonic() + (FENCE_SECONDS if self._was_disturbed else TIMEOUT_SECONDS)
        while time.monotonic() < deadline:
            self._search()
            if len(self._arrived) == LANES and min(self._arrived.values()) >= self._fences:
                return True
            time.sleep(0.02)
        return False

    def _search(self) -> None:
        """Find fences in the new rows of the journal."""
        source = Journal(self.journal)
        end = source.latest()
        for batch in source.read(max(self._searched, source.earliest()), end):
            own = batch.filter(pc.starts_with(batch["key"], f"{FENCE}/{self.mixture.seed}/"))
            for key, number in zip(own["key"].to_pylist(), own["payload"].to_pylist(), strict=True):
                self._arrived[key] = max(int(number), self._arrived.get(key, 0))
        self._searched = end

    def close(self) -> None:
        self._publisher.close()
