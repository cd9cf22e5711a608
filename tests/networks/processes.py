"""The processes behind random networks: as many as a network has nodes, of either package, used again and again."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.wait import TIMEOUT_SECONDS

ROOT = Path(__file__).parents[2]
MODULES = {"z": "zenspark", "e": "zenoh"}
"""Packages by the letter that stands for them in reports."""
RESULT_SECONDS = 2 * TIMEOUT_SECONDS
"""How long a command may take before its process counts as hung."""


class WorkerFailed(Exception):
    """A process ended, hung, or could not run a command."""

    def __init__(self, package: str, reason: str) -> None:
        super().__init__(f"{MODULES[package]}: {reason}")
        self.package = package


class Process:
    """A worker process, and the lines it writes."""

    def __init__(self, package: str) -> None:
        self.package = package
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.networks.worker", MODULES[package]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def send(self, do: str, **options: object) -> None:
        """Have it begin something."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **options}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerFailed(self.package, f"{do}: its process is gone; {self.log_end()}") from error

    def receive(self) -> Any:  # noqa: ANN401 - JSON
        """Return the result of the oldest command that has none yet."""
        try:
            line = self._lines.get(timeout=RESULT_SECONDS)
        except queue.Empty:
            raise WorkerFailed(self.package, f"no result in {RESULT_SECONDS:.0f} s; {self.log_end()}") from None
        if not line:
            raise WorkerFailed(self.package, f"its process ended; {self.log_end()}")
        found = json.loads(line)
        if "error" in found:
            raise WorkerFailed(self.package, found["error"])
        return found["ok"]

    def execute(self, do: str, **options: object) -> Any:  # noqa: ANN401 - JSON
        self.send(do, **options)
        return self.receive()

    def log_end(self) -> str:
        """The end of what it logged."""
        self._log.seek(0)
        return self._log.read()[-500:].strip()

    def kill(self) -> None:
        """End it as if the machine had failed."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # a command it never read


class Pool:
    """Processes without a session, by package; more are started where there are not enough."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Process]] = {package: [] for package in MODULES}

    def take(self, package: str) -> Process:
        return self._idle[package].pop() if self._idle[package] else Process(package)

    def prepare(self, packages: Iterable[str]) -> None:
        """Start what a network will need, so that all of it starts at once."""
        wanted = list(packages)
        for package in MODULES:
            while len(self._idle[package]) < wanted.count(package):
                self._idle[package].append(Process(package))

    def give_back(self, process: Process) -> None:
        """Take a process whose session is closed."""
        self._idle[process.package].append(process)

    def close(self) -> None:
        for processes in self._idle.values():
            while processes:
                processes.pop().kill()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def execute_all(commands: Mapping[Process, Mapping[str, Any]]) -> dict[Process, Any]:
    """What commands give that run at the same time, each in its process."""
    for process, command in commands.items():
        process.send(**command)
    found, failed = {}, None
    for process in commands:
        try:
            found[process] = process.receive()
        except WorkerFailed as error:
            failed = error
    if failed is not None:
        raise failed
    return found
