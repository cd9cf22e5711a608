"""A terminal for tests of what commands print."""

from __future__ import annotations

import io
import sys

import pytest


class Terminal(io.StringIO):
    """A file that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch: pytest.MonkeyPatch, stream: str = "stdout") -> Terminal:
    """No fixture: pytest gives each test its own stdout, after the fixtures."""
    terminal = Terminal()
    monkeypatch.setattr(sys, stream, terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return terminal
