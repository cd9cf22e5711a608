"""What docs/journal.md shows is what happens, and it names every flag, column and error."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import msgspec

from zenspark.errors import JournalError
from zenspark.journal import Policy
from zenspark.journal.layout import ENTRY_SIZE, HEADER_SIZE, MAGIC, SCHEMAS, VERSION

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "journal.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_its_example_prints_what_is_shown() -> None:
    languages = [language for language, _ in BLOCKS]
    shown = languages.index("text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(BLOCKS[shown - 1][1], "docs/journal.md", "exec"), {})
    assert printed.getvalue() == BLOCKS[shown][1]


def test_every_flag_of_the_policy_is_there() -> None:
    for field in msgspec.structs.fields(Policy):
        assert f"| `--{field.name.replace('_', '-')}` |" in PAGE


def test_every_error_and_column_is_there() -> None:
    for error in JournalError.__subclasses__():
        assert f"| `{error.__name__}` |" in PAGE
    for rows in ("sessions", "declarations"):
        (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{rows}` |")]
        assert [name for name in re.findall(r"`(\w+)`", line) if name in SCHEMAS[rows].names] == SCHEMAS[rows].names


def test_the_format_is_as_it_says() -> None:
    assert f"`{MAGIC.decode()}`" in PAGE
    assert f"header of {HEADER_SIZE} bytes" in PAGE
    assert f"entry of {ENTRY_SIZE} bytes" in PAGE
    assert f"`version` ({VERSION})" in PAGE
