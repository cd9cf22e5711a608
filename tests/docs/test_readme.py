"""What README and docs/decode.md show is what happens: their Python and `zenspark` commands are run, outputs compared.

`tests/spark` runs what needs Spark: the demo, and the Python that imports PySpark.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from zenspark.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[2]
README, DECODE = ROOT / "README.md", ROOT / "docs" / "decode.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [*BLOCK.findall(README.read_text()), *BLOCK.findall(DECODE.read_text()), ("end", "")]
SNIPPETS = [
    (code, BLOCKS[index + 1][1])
    for index, (language, code) in enumerate(BLOCKS)
    if language == "python" and BLOCKS[index + 1][0] == "text" and "pyspark" not in code
]
DEMO = "$ zenspark demo"
"""It runs until it is interrupted: tests/spark/test_up.py compares what it prints."""
CONSOLE = [text.partition("\n") for language, text in BLOCKS if language == "console"]
SHOWN = [
    (line.removeprefix("$ zenspark "), output)
    for line, _, output in CONSOLE
    if line.startswith("$ zenspark ") and line != DEMO and output and not output.startswith("$ ")
]


def test_readme_has_snippets_and_commands_to_check() -> None:
    assert len(SNIPPETS) >= 4
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


def test_every_command_that_is_named_exists() -> None:
    named = re.findall(r"^\$ zenspark (\w+)|`zenspark (\w+)", README.read_text(), re.MULTILINE)
    assert {first or second for first, second in named} <= set(COMMANDS)


def test_every_link_leads_somewhere() -> None:
    for page in (README, DECODE):
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), target
    performance = (ROOT / "docs" / "performance.md").read_text()
    headings = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", performance, re.MULTILINE)
    }
    for anchor in re.findall(r"docs/performance\.md#([^)]+)\)", README.read_text()):
        assert anchor in headings


def test_the_test_command_is_the_one_ci_runs() -> None:
    assert "$ make test\n" in README.read_text()
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text()
