"""Exit codes: all are described, and every command that connects has the same one where it cannot."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.unit.journal.rows import counted
from zenspark.cli import COMMANDS, command_parser, exit_codes, main
from zenspark.cli.exit_codes import NOT_CONNECTED, CommandError
from zenspark.errors import ZError
from zenspark.journal import JournalWriter

CHECKS = "doctor"
"""Command for which an endpoint that cannot be reached is a failed check."""
RETRIES = "router"
"""Command that retries forever unless a connection is required."""
NEEDS_TERMINAL = "top"


def test_every_code_is_described() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert codes == set(exit_codes.DESCRIPTIONS)


def test_an_error_carries_its_code() -> None:
    error = CommandError("not connected", exit_codes.NOT_CONNECTED)
    assert (str(error), error.code, isinstance(error, ZError)) == ("not connected", 4, True)
    assert CommandError("wrong").code == exit_codes.FAILED


def find_parsers(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the parsers of a command and of its subcommands that have -e."""
    if "-e" in parser._option_string_actions:
        yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from find_parsers(below, f"{name} {word}")


CONNECTING = {
    name: parser
    for command in COMMANDS
    for name, parser in find_parsers(command_parser(command), command)
    if name != CHECKS
}
"""Commands that take -e, and their parsers."""


@pytest.mark.slow
@pytest.mark.parametrize("is_required", [False, True])
@pytest.mark.parametrize("name", CONNECTING)
def test_an_endpoint_that_cannot_be_reached_is_the_same_code_for_all_commands(
    name: str,
    is_required: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == RETRIES and not is_required:
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zenspark.cli.node_flags.raise_interrupt_on_signals", lambda: None)
    if name == NEEDS_TERMINAL:
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with JournalWriter(tmp_path / "journal") as writer:
        writer.append(counted(0, 1))
    parser = CONNECTING[name]
    needed = [action for action in parser._actions if not (action.option_strings or action.choices)]
    given = ["journal" if action.dest == "source" else "a" for action in needed]
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    flags = ["-e", endpoint, "--no-multicast-scouting", "--connect-timeout", "100ms"]
    flags += ["--require-connection"] * is_required + ["-l", "tcp/127.0.0.1:0"] * (name == RETRIES)
    assert main([*name.split(), *given, *flags]) == NOT_CONNECTED
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"zenspark {name.partition(' ')[0]}: ")
    assert endpoint in line
    if is_required:
        assert "within 100ms" in line
