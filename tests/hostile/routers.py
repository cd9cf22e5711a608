"""`zenspark router` in a process of its own, with an eye on its memory."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import psutil

MIB = 1 << 20


class RouterProcess:
    """A router that runs, and where it listens."""

    def __init__(self, process: subprocess.Popen[str], log: str) -> None:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        self.process = process
        self.locator = lines[-1].split()[-1]
        self._log = log
        self._info = psutil.Process(process.pid)
        self.at_rest = self.memory

    @property
    def memory(self) -> int:
        """Bytes of memory it has at this moment."""
        return int(self._info.memory_info().rss)

    @property
    def growth(self) -> float:
        """By how many MiB its memory has grown since it was at rest."""
        return (self.memory - self.at_rest) / MIB

    @property
    def log(self) -> str:
        """What it has logged so far."""
        with open(self._log) as lines:
            return lines.read()


@contextlib.contextmanager
def router(*arguments: str, **settings: str) -> Iterator[RouterProcess]:
    """A router on loopback; settings are keys with `__` for each slash, and JSON5 values."""
    command = [sys.executable, "-m", "zenspark", "router", "--no-multicast-scouting", "-l", "tcp/127.0.0.1:0"]
    for name, value in settings.items():
        command += ["--cfg", f"{name.replace('__', '/')}:{value}"]
    with tempfile.NamedTemporaryFile("w") as log:
        process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield RouterProcess(process, log.name)
        finally:
            process.kill()
            process.communicate()
