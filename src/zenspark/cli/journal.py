"""`zenspark journal`: lists, trims and detaches readers of a journal."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path

from zenspark.cli import Parser, units
from zenspark.cli.formatting import pluralize, printable
from zenspark.cli.screen import Screen
from zenspark.cli.units import shown
from zenspark.errors import JournalError, JournalLocked, UsageError
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.reader_offsets import ReaderOffsets
from zenspark.journal.retention import segment_size, trim, trim_committed
from zenspark.journal.segment import SegmentIndex, list_segments

DESCRIPTION = """\
Look after a journal, also while it is written.

  zenspark journal ls ./journal
  zenspark journal readers ./journal
  zenspark journal forget ./journal spark-440b1c5de2a90f37
  zenspark journal trim ./journal --to-committed

A reader is attached from its first commit on, and nothing that it has not committed is trimmed unless asked for. A
reader that will never come back is forgotten here, or expires by itself (zenspark record --reader-expiry)."""

TRIM = """\
Remove the oldest segments of a journal. They are removed as a whole; the one that is being written stays."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))

Row = tuple[str, ...]


def run(arguments: list[str]) -> int:
    """Run the command; the exit code."""
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

    command("ls", segments, "list segments with their offsets, bytes and times of reception")
    command("readers", readers, "list attached readers: how far they have come, and when they last committed")
    forget = command("forget", forgotten, "detach a reader: nothing is kept for it any more")
    forget.add_argument("reader", metavar="READER", help="its name, as `zenspark journal readers` shows it")
    add = command("trim", trimmed, "remove the oldest segments", TRIM).add_argument
    add("--to-committed", action="store_true", help="remove all that every attached reader has committed")
    add("--retain-age", metavar="DURATION", help="remove rows older than that")
    add("--retain-bytes", metavar="SIZE", help="remove the oldest while there are more bytes")
    add("--trim-unread", action="store_true", help="remove also what attached readers have not committed")
    return parser


# --- what is there ----------------------------------------------------------------------------------------------------


def segments(journal: Journal, _: argparse.Namespace) -> Iterator[str]:
    """The segments as a table, with a line on all of them."""
    firsts = list_segments(journal.path)
    sizes = [segment_size(journal.path, first) for first in firsts]
    yield (
        f"{journal.rows} of {printable(journal.recorder)}: offsets {journal.earliest()} to {journal.latest()}, "
        f"{shown(sum(sizes), 'B')} in {pluralize(len(firsts), 'segment')}"
    )
    rows = [_segment(journal.path, first, size) for first, size in zip(firsts, sizes, strict=True)]
    yield from _table(("first", "end", "rows", "bytes", "received from", "to"), rows, numbers=4)


def _segment(path: Path, first: int, size: int) -> Row:
    try:
        with SegmentIndex(path, first) as index:
            end = index.end
            times = (index.entry(0).block.received[0], index.last_received) if index.count else ()
    except (JournalError, FileNotFoundError) as error:
        return (str(first), "?", "?", shown(size, "B"), str(error))
    return (str(first), str(end), str(end - first), shown(size, "B"), *map(_moment, times))


def readers(journal: Journal, _: argparse.Namespace) -> Iterator[str]:
    """The attached readers as a table."""
    latest, now = journal.latest(), time.time()
    found = [
        (str(one.offset), str(max(latest - one.offset, 0)), _age(now - one.updated), one.name, one.description or "")
        for one in journal.attached()
    ]
    if not found:
        yield "no reader is attached"
        return
    yield from _table(("offset", "behind", "age", "reader", "description"), found, numbers=3)


# --- what is changed --------------------------------------------------------------------------------------------------


def forgotten(journal: Journal, given: argparse.Namespace) -> Iterator[str]:
    """Detach a reader, and tell how far it was."""
    names = journal.reader_names()
    if given.reader not in names:
        close = get_close_matches(given.reader, names, 1)
        hint = f"; did you mean {close[0]}?" if close else f": attached are {', '.join(names) or 'none'}"
        raise UsageError(f"{given.journal}: no reader {given.reader!r} is attached{hint}")
    try:
        offset = journal.committed(given.reader)
    except JournalError:  # its file cannot be read, which is a reason to forget it
        offset = None
    journal.forget(given.reader)
    where = "" if offset is None else f", which was at offset {offset}, {max(journal.latest() - offset, 0)} rows behind"
    yield f"forgot reader {printable(given.reader)}{where}"


def trimmed(journal: Journal, given: argparse.Namespace) -> Iterator[str]:
    """Remove segments, and tell how many rows are gone and which are left."""
    policy = Policy(
        retain_age=None if given.retain_age is None else units.duration(given.retain_age),
        retain_bytes=None if given.retain_bytes is None else units.size(given.retain_bytes),
        trim_unread=given.trim_unread,
    )
    if not given.to_committed and policy.retain_age is None and policy.retain_bytes is None:
        raise UsageError("what to remove? give --to-committed, --retain-age or --retain-bytes")
    before = _bytes(journal.path)
    removed = trim(journal.path, policy, time.time())
    if given.to_committed:
        removed += _trim_committed(journal)
    freed = shown(max(before - _bytes(journal.path), 0), "B")
    yield f"removed {pluralize(removed, 'row')} ({freed}); left are offsets {journal.earliest()} to {journal.latest()}"


def _trim_committed(journal: Journal) -> int:
    """With the last segment, unless it is being written."""
    if ReaderOffsets(journal.path).least() is None:
        raise UsageError(f"{journal.path}: no reader is attached, so nothing counts as committed")
    try:
        with JournalWriter(journal.path, rows=journal.rows) as writer:
            return writer.trim_committed()
    except JournalLocked:
        return trim_committed(journal.path)


def _bytes(path: Path) -> int:
    return sum(segment_size(path, first) for first in list_segments(path))


# --- how it is shown --------------------------------------------------------------------------------------------------


def _table(head: Row, rows: Sequence[Row], numbers: int) -> Iterator[str]:
    """Lines in which columns stand below one another, the first so many to the right, as numbers do."""
    lines = [head, *(tuple(printable(text) for text in row) for row in rows)]
    widths = [max((len(line[place]) for line in lines if place < len(line)), default=0) for place in range(len(head))]
    for line in lines:
        aligned = [
            text.rjust(width) if place < numbers else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=False))
        ]
        yield "  ".join(aligned).rstrip()


def _moment(time_us: int) -> str:
    try:
        return (EPOCH + timedelta(microseconds=time_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except OverflowError:
        return "-"


def _age(seconds: float) -> str:
    """The largest unit that fits."""
    for unit, size in UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "0s"
