"""Starts and ends nodes with a page, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.browser.node import NodeSettings

ROOT = Path(__file__).parents[2]


class NodeProcess:
    """A running node; it can be ended and started again at the same addresses."""

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.url = ""
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the node and wait for its page."""
        command = [sys.executable, "-m", "tests.browser.node", msgspec.json.encode(self.settings).decode()]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, encoding="utf-8"
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, f"the node has ended with exit code {self._process.wait()}"

    def stop(self) -> None:
        """End the node."""
        process, self._process = self._process, None
        if process is None:
            return
        process.communicate("")
        assert process.returncode == 0, f"the node ended with exit code {process.returncode}"
