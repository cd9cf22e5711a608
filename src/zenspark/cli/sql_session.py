"""Statements of `zenspark sql` one after the other, with the commands that begin with a backslash."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from difflib import get_close_matches
from typing import NamedTuple, Protocol

import pyarrow as pa

from zenspark.cli.result_cells import format_size
from zenspark.cli.result_formats import write_rows
from zenspark.cli.result_table import MAX_PRINTED_ROWS, render
from zenspark.cli.screen import Screen
from zenspark.errors import UsageError, ZError
from zenspark.sql.dialect import find_words, has_words, split_first
from zenspark.sql.tables import TableInfo

COMMAND_LINE = re.compile(r"[ \t]*\\(?P<name>\S*)[ \t]*(?P<argument>[^\n;]*);?[ \t]*(?:\n|\Z)")
HELP = """\
\\d          tables of the lake; \\d TABLE its columns
\\x          rows as cards: on, off, or auto where they do not fit
\\timing     duration of each query, on or off
\\q          quit (also Ctrl-D)
\\?          this help
A statement ends with a semicolon, and may have several lines."""
CARDS = {"on": True, "off": False, "auto": None}
ERROR_POSITION = re.compile(r" \(line (?P<line>\d+), (?P<word>pos(?:ition)?) (?P<column>\d+)\)")
"""Place of an error in its statement, as both engines write it."""


class SqlQueryEngine(Protocol):
    """An engine that runs queries: the embedded one, or Spark."""

    def tables(self) -> list[TableInfo]:
        """Describe the tables."""

    def open(self, text: str) -> AbstractContextManager[pa.RecordBatchReader]:
        """Run a query, and return its rows batch by batch; raises UsageError."""


class Quit(Exception):
    """The command \\q."""


class Part(NamedTuple):
    """A statement of a script, or a command."""

    start: int
    """Position in the script."""
    text: str
    command: tuple[str, str] | None = None
    """Name and argument of a command."""
    is_complete: bool = True
    """False for a statement that lacks its semicolon."""


class SqlSession:
    """Runs statements and commands, and prints their results in one format."""

    def __init__(self, engine: SqlQueryEngine, output_format: str = "table", *, cards: bool | None = None) -> None:
        """`cards` shows rows as cards, or as a table; with None, few rows that do not fit as a table are cards."""
        self.engine = engine
        self.format = output_format
        self.cards = cards
        self.shows_time = False
        self._commands: dict[str, Callable[[str], None]] = {
            "d": self._describe,
            "x": self._set_cards,
            "timing": self._set_timing,
            "q": self._quit,
            "?": self._help,
            "help": self._help,
        }

    # --- scripts

    def run_script(self, text: str, source: str | None = None) -> None:
        """Run all statements and commands of a text; the first error ends it.

        With `source`, the name of a file, errors have the line in it.
        """
        if not has_words(text):
            raise UsageError("the statement is empty: expected for example select key, received_at from latest")
        try:
            for part in split_script(text):
                self._run_part(part, text, source)
        except Quit:
            return
        finally:
            sys.stdout.flush()  # an error is printed after the results of earlier statements

    def _run_part(self, part: Part, script: str, source: str | None) -> None:
        try:
            self._run(part)
        except UsageError as error:
            if source is None:
                raise
            raise UsageError(locate_error(str(error), part, script, source)) from None

    def feed(self, text: str) -> str:
        """Run the complete statements and commands of a text. Returns the rest, which lacks its semicolon."""
        for part in split_script(text):
            if not part.is_complete:
                return part.text
            self._run(part)
        return ""

    def _run(self, part: Part) -> None:
        if part.command:
            self.run_command(*part.command)
        else:
            self.run_query(part.text)

    # --- queries

    def run_query(self, text: str) -> None:
        """Run one query and print its rows."""
        started_at = time.perf_counter()
        with self.engine.open(text) as reader:
            if self.format == "table":
                self._print_table(reader)
            else:
                write_rows(reader, self.format)
        if self.shows_time:
            self._print_message(f"{time.perf_counter() - started_at:.3f} s")

    def _print_table(self, reader: pa.RecordBatchReader) -> None:
        rows, has_more = _read_rows(reader, MAX_PRINTED_ROWS)
        self.print_rows(rows)
        if has_more:
            print(f"the first {rows.num_rows} rows; --format csv gives all")

    def print_rows(self, rows: pa.Table) -> None:
        """Print rows as a table or as cards; a pipe gets the full width."""
        screen = Screen()
        width = screen.width if sys.stdout.isatty() else None
        screen.write(render(rows, width, cards=self.cards, style=screen.style))

    def _print_message(self, text: str) -> None:
        """Print a message; on standard error if the results on standard output are for programs."""
        print(text, file=sys.stdout if self.format == "table" else sys.stderr)

    # --- commands

    def run_command(self, name: str, argument: str) -> None:
        """Run a command that begins with a backslash."""
        command = self._commands.get(name)
        if command is None:
            close = get_close_matches(name, self._commands, 1)
            hint = f"did you mean \\{close[0]}?" if close else "\\? shows them all"
            raise UsageError(f"there is no command \\{name}: {hint}")
        command(argument)

    def _describe(self, argument: str) -> None:
        tables = {table.name: table for table in self.engine.tables()}
        if not argument:
            self.print_rows(_list_tables([self._count_rows(table) for table in tables.values()]))
            return
        table = tables.get(argument.lower())
        if table is None:
            close = get_close_matches(argument.lower(), tables, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(tables)}"
            raise UsageError(f"there is no table {argument}: {hint}")
        columns = {
            "column": [column.name for column in table.columns],
            "type": [column.type for column in table.columns],
        }
        self.print_rows(pa.table(columns))

    def _count_rows(self, table: TableInfo) -> TableInfo:
        """Count the rows of a table whose log has no count."""
        if table.rows is not None:
            return table
        with self.engine.open(f"select count(*) as n from {table.name}") as reader:
            rows = reader.read_all()["n"][0].as_py()
        return TableInfo(table.name, table.columns, rows, table.bytes, table.files)

    def _set_cards(self, argument: str) -> None:
        if argument and argument not in CARDS:
            raise UsageError(f"\\x takes on, off or auto, found {argument!r}")
        self.cards = CARDS[argument] if argument else (None if self.cards else True)
        names = {value: name for name, value in CARDS.items()}
        self._print_message(f"cards: {names[self.cards]}")

    def _set_timing(self, argument: str) -> None:
        self.shows_time = not self.shows_time
        self._print_message(f"timing: {'on' if self.shows_time else 'off'}")

    def _help(self, argument: str) -> None:
        self._print_message(HELP)

    def _quit(self, argument: str) -> None:
        raise Quit


def split_script(text: str) -> Iterator[Part]:
    """Yield the statements and commands of a text."""
    rest = text.lstrip()
    while rest:
        start = len(text) - len(rest)
        if command_line := COMMAND_LINE.match(rest):
            yield Part(start, command_line[0], (command_line["name"], command_line["argument"].strip()))
            rest = rest[command_line.end() :].lstrip()
            continue
        split = split_first(rest)
        if split is None:
            if has_words(rest):
                yield Part(start, rest, is_complete=False)
            return
        if split[0]:
            yield Part(start, split[0])
        rest = split[1].lstrip()


def check_one_result(text: str) -> None:
    """Check that a script has one result at most, for a format in which a file has one; raises UsageError."""
    count = 0
    for part in split_script(text):
        name = part.command[0] if part.command else None
        if name == "q":
            break
        count += name in (None, "d")
    if count > 1:
        raise UsageError(f"--format parquet takes one statement, found {count}: a file has one result")


def locate_error(message: str, part: Part, script: str, source: str) -> str:
    """Add file and line to an error of a statement: the place that it names, or else where the statement begins."""
    position = ERROR_POSITION.search(message)
    if position is None:
        start = part.start + (find_words(part.text) or 0)
        return f"{source}:{script.count(chr(10), 0, start) + 1}: {message}"
    line, column = int(position["line"]), int(position["column"])
    if line == 1:
        column += part.start - (script.rfind("\n", 0, part.start) + 1)
    line += script.count("\n", 0, part.start)
    problem = f"{message[: position.start()]} ({position['word']} {column}){message[position.end() :]}"
    return f"{source}:{line}: {problem}"


def run_safely(session: SqlSession, text: str) -> str:
    """Run the complete statements of a text at a prompt. Returns the rest; an error is printed, and discards it."""
    try:
        return session.feed(text)
    except ZError as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return ""


def _read_rows(reader: pa.RecordBatchReader, limit: int) -> tuple[pa.Table, bool]:
    """Read up to `limit` rows. Returns them, and whether there are more."""
    batches: list[pa.RecordBatch] = []
    count = 0
    for batch in reader:
        batches.append(batch)
        count += batch.num_rows
        if count > limit:
            break
    rows = pa.Table.from_batches(batches, reader.schema)
    return rows.slice(0, limit), rows.num_rows > limit


def _list_tables(tables: list[TableInfo]) -> pa.Table:
    return pa.table(
        {
            "table": [table.name for table in tables],
            "rows": pa.array([table.rows for table in tables], pa.int64()),
            "size": [format_size(table.bytes) for table in tables],
            "files": [table.files for table in tables],
            "columns": [len(table.columns) for table in tables],
        }
    )
