"""A terminal for programs that need one, driven through tmux."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

WAIT_SECONDS = 60
INSTALL = [["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", "--no-install-recommends", "tmux"]]


def require_tmux() -> None:
    """Installs tmux from the packages of Debian where it is absent; skips where that is not possible."""
    if shutil.which("tmux"):
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        pytest.skip("tmux is not installed, and only root can install it with apt-get")
    with Path(tempfile.gettempdir(), "zenspark-install-tmux.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes that run tests wait
        if shutil.which("tmux") is None:
            for command in INSTALL:
                subprocess.run(command, capture_output=True, check=False)
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed, and apt-get could not install it")


class Terminal:
    """A terminal of 80 columns, driven through tmux."""

    def __init__(self, directory: Path, command: list[str], environment: dict[str, str]) -> None:
        self._socket = str(directory / "tmux")
        settings = [f"{name}={value}" for name, value in environment.items()]
        shell = shlex.join(["env", *settings, *command]) + "; echo ended with $?; cat"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "50", shell)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def type(self, text: str, *keys: str) -> None:
        """Types a text, then keys by their names."""
        if text.endswith(";"):  # which tmux would take for the end of its command
            text = f"{text[:-1]}\\;"
        if text:
            self._tmux("send-keys", "-l", text)
        for key in keys:
            self._tmux("send-keys", key)

    def screen(self) -> str:
        """What the terminal has shown; blanks at the ends of lines are left out."""
        return self._tmux("capture-pane", "-p", "-S", "-500")

    def wait(self, is_there: str | Callable[[str], bool]) -> str:
        """Waits until the screen has a text."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            screen = self.screen()
            if is_there in screen if isinstance(is_there, str) else is_there(screen):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"expected {is_there!r} on the screen:\n{self.screen()}")

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)
