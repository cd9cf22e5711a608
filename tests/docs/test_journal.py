"""What docs/journal.md shows is what happens, and it names every flag, column and error."""

from __future__ import annotations

import contextlib
import errno
import io
import re
from pathlib import Path

import msgspec
import pytest

from zenspark.cli.record import format_loss
from zenspark.errors import JournalError
from zenspark.journal import Policy, State, Status
from zenspark.journal.failures import write_failure
from zenspark.journal.format import BLOCK_MAGIC, ENTRY_SIZE, HEADER_SIZE, JOURNAL_FORMAT_VERSION, SCHEMAS
from zenspark.journal.outage import Outage

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "journal.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_journal_example_prints_the_shown_output() -> None:
    languages = [language for language, _ in BLOCKS]
    shown = languages.index("text", languages.index("python"))
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
    for rows in ("sessions", "declarations", "counters"):
        (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{rows}` |")]
        assert [name for name in re.findall(r"`(\w+)`", line) if name in SCHEMAS[rows].names] == SCHEMAS[rows].names


def test_the_messages_are_those_that_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    error = write_failure("./journal/00000000000000000000.segment", OSError(errno.ENOSPC, "No space left on device"))
    outage = Outage("./journal", 4.0)
    outage.fail(error, 0.0)
    outage.fail(error, 4.0)
    outage.discarded["5b2a0c1e"] = 3850
    outage.end(2150)
    assert len(caplog.records) == 3
    for record in caplog.records:
        assert f"\n{record.getMessage()}\n" in PAGE
    status = Status(State.STOPPED, 0, 0, 0.0, 0, 0, 3850, None, None, outage.discarded)
    assert f"\nzenspark record: {format_loss(status)}\n" in PAGE


def test_documented_journal_format_has_magic_sizes_and_version() -> None:
    assert f"`{BLOCK_MAGIC.decode()}`" in PAGE
    assert f"header of {HEADER_SIZE} bytes" in PAGE
    assert f"entry of {ENTRY_SIZE} bytes" in PAGE
    assert f"`version` ({JOURNAL_FORMAT_VERSION})" in PAGE
