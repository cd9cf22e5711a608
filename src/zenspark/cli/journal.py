"""`zenspark journal`: lists segments and readers of a journal, trims it, detaches readers."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path

from zenspark.cli import Parser, units
from zenspark.cli.formatters import pluralize, printable
from zenspark.cli.screen import Screen
from zenspark.cli.units import format_quantity
from zenspark.errors import JournalError, JournalLocked, UsageError
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.reader_offsets import ReaderOffsets
from zenspark.journal.retention import segment_size, trim, trim_committed
from zenspark.journal.segment import SegmentIndex, list_segments

DESCRIPTION = """\
Show and maintain a journal, also while it is written.

  zenspark journal ls ./journal
  zenspark journal readers ./journal
  zenspark journal forget ./journal spark-440b1c5de2a90f37
  zenspark journal trim ./journal --to-committed

A reader is attached from its first commit on, and rows that it has not committed are not trimmed by default. A reader
that will not return is detached with forget, or expires (zenspark record --reader-expiry)."""

TRIM = """\
Remove the oldest segments of a journal. Segments are removed as a whole; the segment being written is kept."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))

Row = tuple[str, ...]


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    given = _parser().parse_args(arguments)
    act: Callable[[Journal, argparse.Namespace], Iterator[str]] = given.act
    journal = Journal(given.journal)
    journal.manifest  # noqa: B018 - raises if there is no journal
    Screen().write(act(journal, given))
    return 0


def _parser() -> Parser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="zenspark journal", description=DESCRIPTION, formatter_class=plain)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, act: Callable[..., Iterator[str]], text: str, description: str | None = None) -> Parser:
        made: Parser = commands.add_parser(name, help=text, description=description or f"{text.capitalize()}.")
        made.add_argument("journal", metavar="DIR", help="the directory of the journal")
        made.set_defaults(act=act)
        return made

    command("ls", list_segment_rows, "list segments with their offsets, bytes and times of reception")
    command("readers", list_readers, "list attached readers with their offset and the time of their last commit")
    forget = command("forget", forget_reader, "detach a reader, so that no rows are kept for it")
    forget.add_argument("reader", metavar="READER", help="reader name, as shown by `zenspark journal readers`")
    add = command("trim", trim_segments, "remove the oldest segments", TRIM).add_argument
    add("--to-committed", action="store_true", help="remove rows that every attached reader has committed")
    add("--retain-age", metavar="DURATION", help="remove rows older than this")
    add("--retain-bytes", metavar="SIZE", help="remove the oldest segments until at most this size is left")
    add("--trim-unread", action="store_true", help="also remove rows that attached readers have not committed")
    return parser


# --- lists -----------------------------------------------------------------------------------------------------------


def list_segment_rows(journal: Journal, _: argparse.Namespace) -> Iterator[str]:
    """Yield a summary line and a table of the segments."""
    firsts = list_segments(journal.path)
    sizes = [segment_size(journal.path, first) for first in firsts]
    yield (
        f"{journal.rows} of {printable(journal.recorder)}: offsets {journal.earliest()} to {journal.latest()}, "
        f"{format_quantity(sum(sizes), 'B')} in {pluralize(len(firsts), 'segment')}"
    )
    rows = [_segment(journal.path, first, size) for first, size in zip(firsts, sizes, strict=True)]
    yield from _table(("first", "end", "rows", "bytes", "received from", "to"), rows, numbers=4)


def _segment(path: Path, first: int, size: int) -> Row:
    try:
        with SegmentIndex(path, first) as index:
            end = index.end
            times = (index.entry(0).block.received[0], index.last_received) if index.count else ()
    except (JournalError, FileNotFoundError) as error:
        return (str(first), "?", "?", format_quantity(size, "B"), str(error))
    return (str(first), str(end), str(end - first), format_quantity(size, "B"), *map(_format_time, times))


def list_readers(journal: Journal, _: argparse.Namespace) -> Iterator[str]:
    """Yield a table of the attached readers."""
    latest, now = journal.latest(), time.time()
    found = [
        (
            str(reader.offset),
            str(max(latest - reader.offset, 0)),
            _format_age(now - reader.updated),
            reader.name,
            reader.description or "",
        )
        for reader in journal.attached()
    ]
    if not found:
        yield "no reader is attached"
        return
    yield from _table(("offset", "behind", "age", "reader", "description"), found, numbers=3)


# --- changes ---------------------------------------------------------------------------------------------------------


def forget_reader(journal: Journal, given: argparse.Namespace) -> Iterator[str]:
    """Detach a reader. Yields its last offset."""
    names = journal.reader_names()
    if given.reader not in names:
        close = get_close_matches(given.reader, names, 1)
        hint = f"; did you mean {close[0]}?" if close else f": attached are {', '.join(names) or 'none'}"
        raise UsageError(f"{given.journal}: no reader {given.reader!r} is attached{hint}")
    try:
        offset = journal.committed(given.reader)
    except JournalError:  # an unreadable file is a reason to detach the reader
        offset = None
    journal.forget(given.reader)
    where = "" if offset is None else f", which was at offset {offset}, {max(journal.latest() - offset, 0)} rows behind"
    yield f"detached reader {printable(given.reader)}{where}"


def trim_segments(journal: Journal, given: argparse.Namespace) -> Iterator[str]:
    """Remove segments. Yields the number of removed rows and the remaining offsets."""
    policy = Policy(
        retain_age=None if given.retain_age is None else units.parse_duration(given.retain_age),
        retain_bytes=None if given.retain_bytes is None else units.parse_size(given.retain_bytes),
        trim_unread=given.trim_unread,
    )
    if not given.to_committed and policy.retain_age is None and policy.retain_bytes is None:
        raise UsageError("nothing to remove: give --to-committed, --retain-age or --retain-bytes")
    before = _bytes(journal.path)
    removed = trim(journal.path, policy, time.time())
    if given.to_committed:
        removed += _trim_committed(journal)
    freed = format_quantity(max(before - _bytes(journal.path), 0), "B")
    yield f"removed {pluralize(removed, 'row')} ({freed}); left are offsets {journal.earliest()} to {journal.latest()}"


def _trim_committed(journal: Journal) -> int:
    """Remove committed rows, including the last segment unless it is being written."""
    if ReaderOffsets(journal.path).min_offset() is None:
        raise UsageError(f"{journal.path}: no reader is attached, so nothing counts as committed")
    try:
        with JournalWriter(journal.path, rows=journal.rows) as writer:
            return writer.trim_committed()
    except JournalLocked:
        return trim_committed(journal.path)


def _bytes(path: Path) -> int:
    return sum(segment_size(path, first) for first in list_segments(path))


# --- formatting ------------------------------------------------------------------------------------------------------


def _table(head: Row, rows: Sequence[Row], numbers: int) -> Iterator[str]:
    """Yield aligned lines; the first `numbers` columns are right-aligned."""
    lines = [head, *(tuple(printable(text) for text in row) for row in rows)]
    widths = [max((len(line[place]) for line in lines if place < len(line)), default=0) for place in range(len(head))]
    for line in lines:
        aligned = [
            text.rjust(width) if place < numbers else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=False))
        ]
        yield "  ".join(aligned).rstrip()


def _format_time(time_us: int) -> str:
    try:
        return (EPOCH + timedelta(microseconds=time_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except OverflowError:
        return "-"


def _format_age(seconds: float) -> str:
    """Format an age in its largest unit."""
    for unit, size in UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "0s"
