"""Commands on a real terminal: tmux runs them, types keys, and reads the screen."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.programs import require_program
from tests.wait import TIMEOUT_SECONDS, until


class TmuxTerminal:
    """A terminal with one command."""

    def __init__(self, socket: Path, scrollback: bool) -> None:
        self._tmux = [require_program("tmux"), "-S", str(socket), "-f", os.devnull]
        self._capture = ("capture-pane", "-p", *(("-S", "-500") if scrollback else ()))

    def start(self, command: Sequence[str], width: int, height: int) -> None:
        """Run a command; its exit code is shown when it ends, and the screen stays."""
        script = f"{shlex.join(command)}; echo EXIT CODE $?; exec sleep 600"
        self._run("new-session", "-d", "-x", str(width), "-y", str(height), script)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    @property
    def screen(self) -> str:
        """What is on the screen, with scrollback also what was there before."""
        return self._run(*self._capture)

    @property
    def lines(self) -> list[str]:
        """The lines on the screen."""
        return self.screen.splitlines()

    def type(self, *keys: str) -> None:
        """Press keys: texts, or names such as Enter, Tab, C-c."""
        # tmux would take a semicolon at the end of an argument for the end of its command
        self._run("send-keys", *(f"{key[:-1]}\\;" if key.endswith(";") else key for key in keys))

    def wait_for(self, expected: str | Callable[[str], bool]) -> str:
        """Wait until a text is on the screen, or the screen fulfils a condition; returns the screen."""
        shows = (lambda screen: expected in screen) if isinstance(expected, str) else expected
        try:
            until(lambda: shows(self.screen), 2 * TIMEOUT_SECONDS)
        except AssertionError:
            raise AssertionError(f"{expected!r} never appeared on the screen:\n{self.screen}") from None
        return self.screen

    def kill(self) -> None:
        """End the terminal and its command."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)


@contextmanager
def on_terminal(
    *command: str,
    width: int = 100,
    height: int = 24,
    scrollback: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Iterator[TmuxTerminal]:
    """Run a command on a terminal."""
    settings = [f"{name}={value}" for name, value in (environment or {}).items()]
    with tempfile.TemporaryDirectory(prefix="tmux") as directory:  # a short path: those of sockets are limited
        terminal = TmuxTerminal(Path(directory) / "socket", scrollback)
        try:
            terminal.start(["env", *settings, *command], width, height)
            yield terminal
        finally:
            terminal.kill()


@contextmanager
def zenspark_on_terminal(
    *arguments: str,
    width: int = 100,
    height: int = 24,
    scrollback: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Iterator[TmuxTerminal]:
    """Run a command of zenspark on a terminal."""
    command = (sys.executable, "-m", "zenspark", *arguments)
    with on_terminal(*command, width=width, height=height, scrollback=scrollback, environment=environment) as terminal:
        yield terminal
