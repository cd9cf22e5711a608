"""Commands run inside the process of a test, beside a router of this package."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.api.sessions import address, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.cli import main


class Network:
    """A router, and commands that are its clients."""

    def __init__(self, router: Session, capsys: pytest.CaptureFixture[str]) -> None:
        self.router = router
        self._capsys = capsys
        self.endpoint = address(router)

    def run(self, command: str, *arguments: str) -> tuple[int, str, str]:
        """Run a command; its exit code, output and errors."""
        code = main([*command.split(), *arguments, "-e", self.endpoint, "--no-multicast-scouting"])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def json(self, command: str, *arguments: str) -> list[Any]:
        """Run a command that succeeds, with --json; the objects it prints."""
        code, out, err = self.run(command, *arguments, "--json")
        assert (code, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    @contextmanager
    def meanwhile(self, condition: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
        """Act in another thread once a condition is true, while a command runs."""

        def wait_and_act() -> None:
            until(condition)
            act()

        thread = threading.Thread(target=wait_and_act)
        thread.start()
        yield
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()

    def declared(self, kind: str) -> bool:
        """Whether a client has declared this."""
        return any(each.kind == kind for each in self.router.info.declarations())


@contextmanager
def network(capsys: pytest.CaptureFixture[str]) -> Iterator[Network]:
    """A router for commands."""
    with listening("router", adminspace__enabled=True) as router:
        yield Network(router, capsys)
