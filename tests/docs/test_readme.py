"""What the README shows is what happens: its Python is run, its `zenspark` commands too, and the outputs compared."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from zenspark.cli import main

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(README.read_text())
SNIPPETS = [
    (code, BLOCKS[index + 1][1])
    for index, (language, code) in enumerate(BLOCKS)
    if language == "python" and BLOCKS[index + 1][0] == "text"
]
COMMANDS = [text.partition("\n") for language, text in BLOCKS if language == "console"]
SHOWN = [(line.split("zenspark ", 1)[1], output) for line, _, output in COMMANDS if "zenspark " in line and output]


def test_there_is_something_to_check() -> None:
    assert len(SNIPPETS) >= 2
    assert SHOWN


@pytest.mark.parametrize(("code", "expected"), SNIPPETS)
def test_python_prints_what_is_shown(code: str, expected: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(README), "exec"), {})
    assert printed.getvalue() == expected


@pytest.mark.parametrize(("command", "expected"), SHOWN)
def test_commands_print_what_is_shown(
    command: str, expected: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(shlex.split(command)) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == expected.splitlines()


def test_the_test_command_is_the_one_ci_runs() -> None:
    assert "$ make test\n" in README.read_text()
    assert "\nmake test\n" in (README.parent / ".ci" / "run").read_text()
