"""Commands on a real terminal: tmux runs them, types keys, and says what is on the screen."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, until


@cache
def require_tmux() -> str:
    """Return the path of tmux; it is installed where that is possible, and the test is skipped where it is not."""
    if shutil.which("tmux") is None and shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-q", "tmux"], capture_output=True, check=False)
    found = shutil.which("tmux")
    if found is None:
        pytest.skip("tmux is not installed, and could not be: apt-get install tmux")
    return found


class TmuxTerminal:
    """A terminal with one command."""

    def __init__(self, socket: Path) -> None:
        self._tmux = [require_tmux(), "-S", str(socket), "-f", os.devnull]

    def start(self, command: Sequence[str], width: int, height: int) -> None:
        """Run a command; its exit code is shown when it ends, and the screen stays."""
        script = f"{shlex.join(command)}; echo EXIT CODE $?; exec sleep 600"
        self._run("new-session", "-d", "-x", str(width), "-y", str(height), script)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    @property
    def screen(self) -> str:
        """What is on the screen."""
        return self._run("capture-pane", "-p")

    @property
    def lines(self) -> list[str]:
        """The lines on the screen."""
        return self.screen.splitlines()

    def type(self, *keys: str) -> None:
        """Press keys: characters, or names such as Enter, Tab, C-c."""
        self._run("send-keys", *keys)

    def wait_for(self, text: str) -> str:
        """Wait until a text is on the screen; returns the screen."""
        try:
            until(lambda: text in self.screen, 2 * PATIENCE)
        except AssertionError:
            raise AssertionError(f"{text!r} never appeared on the screen:\n{self.screen}") from None
        return self.screen

    def kill(self) -> None:
        """End the terminal and its command."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)


@contextmanager
def on_terminal(*command: str, width: int = 100, height: int = 24) -> Iterator[TmuxTerminal]:
    """Run a command on a terminal."""
    with tempfile.TemporaryDirectory(prefix="tmux") as directory:  # a short path: those of sockets are limited
        terminal = TmuxTerminal(Path(directory) / "socket")
        try:
            terminal.start(command, width, height)
            yield terminal
        finally:
            terminal.kill()


@contextmanager
def zenspark_on_terminal(*arguments: str, width: int = 100, height: int = 24) -> Iterator[TmuxTerminal]:
    """Run a command of zenspark on a terminal."""
    with on_terminal(sys.executable, "-m", "zenspark", *arguments, width=width, height=height) as terminal:
        yield terminal
