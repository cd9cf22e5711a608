"""`zenspark journal`: shows, prints, verifies and exports a journal, trims it, detaches readers."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa

from zenspark.cli import Parser, argument_parser, export, node_flags, units
from zenspark.cli.exit_codes import INCOMPLETE
from zenspark.cli.formatters import pluralize, printable
from zenspark.cli.progress import Progress
from zenspark.cli.screen import Screen
from zenspark.cli.units import format_quantity
from zenspark.cli.values import format_value
from zenspark.errors import JournalError, JournalLocked, NoJournal, UsageError
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.journal.format import MANIFEST
from zenspark.journal.key_remap import KeyRemap
from zenspark.journal.reader_offsets import AttachedReader, ReaderOffsets
from zenspark.journal.replay import ReplayBound, find_offsets
from zenspark.journal.retention import segment_size, trim, trim_committed
from zenspark.journal.segment import SegmentIndex, list_segments
from zenspark.key import KeyExpr
from zenspark.types.timestamps import EPOCH

DESCRIPTION = """\
Show and maintain a journal, also while it is written.

  zenspark journal info ./journal
  zenspark journal cat ./journal -k 'fleet/*/pose' --from 2026-11-16T12:00:00Z -n 10
  zenspark journal verify ./journal
  zenspark journal export ./journal poses.parquet -k 'fleet/*/pose'
  zenspark journal readers ./journal
  zenspark journal forget ./journal spark-440b1c5de2a90
  zenspark journal trim ./journal --to-committed

A reader is attached from its first commit on, and rows that it has not committed are not trimmed by default. A reader
that will not return is detached by forget, or when it expires (zenspark record --reader-expiry)."""

TRIM = """\
Remove the oldest segments of a journal. Segments are removed as a whole; the segment being written is kept."""

DURATION_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))

Row = tuple[str, ...]


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    action: Callable[[Journal, argparse.Namespace], Iterator[str]] = args.action
    _reject_lake(Path(args.journal))
    journal = Journal(args.journal)
    journal.manifest  # noqa: B018 - raises if there is no journal
    args.code = 0
    Screen().write(action(journal, args))
    return int(args.code)


def _reject_lake(path: Path) -> None:
    """Raise NoJournal if the directory is a lake; the journal in it is named if it is there."""
    if not (path / "samples" / "_delta_log").is_dir():
        return
    inner = path / "_journal"
    hint = f": {inner}" if (inner / MANIFEST).exists() else ""
    raise NoJournal(str(path), f"this is a lake, not a journal; name the directory of its journal{hint}")


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark journal", description=DESCRIPTION)
    commands = argparser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, action: Callable[..., Iterator[str]], text: str, description: str | None = None) -> Parser:
        subparser: Parser = commands.add_parser(name, help=text, description=description or f"{text.capitalize()}.")
        subparser.add_argument("journal", metavar="DIR", help="the directory of the journal")
        subparser.set_defaults(action=action)
        return subparser

    for name in ("info", "verify"):
        text = (
            "show recorder, offsets, times, size and readers" if name == "info" else "read all rows, and report damage"
        )
        _add_json(command(name, show_info if name == "info" else verify, text))
    cat = command("cat", print_rows, "print rows: time of reception, key and value")
    _add_json(cat, "one JSON object per row, with all columns")
    _add_range(cat)
    cat.add_argument("-n", "--rows", metavar="ROWS", type=argument_parser.count, help="maximum number of rows")
    export_parser = command("export", export_journal, "export rows to a CSV, JSON lines or Parquet file")
    export.add_export_flags(export_parser)
    _add_range(export_parser)
    for name in ("ls", "list"):
        _add_json(command(name, list_segment_rows, "list segments with their offsets, bytes and times of reception"))
    readers = "list attached readers with their offset and the time of their last commit"
    _add_json(command("readers", list_readers, readers))
    forget = command("forget", detach_reader, "detach a reader, so that no rows are kept for it")
    forget.add_argument("reader", metavar="READER", help="reader name, as shown by `zenspark journal readers`")
    add = command("trim", trim_segments, "remove the oldest segments", TRIM).add_argument
    add("--to-committed", action="store_true", help="remove rows that every attached reader has committed")
    add("--retain-age", metavar="DURATION", help="remove rows older than this")
    add("--retain-bytes", metavar="SIZE", help="remove the oldest segments until at most this size is left")
    add("--trim-unread", action="store_true", help="also remove rows that attached readers have not committed")
    return argparser


def _add_json(parser: argparse.ArgumentParser, text: str = "print JSON") -> None:
    parser.add_argument("--json", action="store_true", help=text)


def _add_range(parser: argparse.ArgumentParser) -> None:
    bound = argument_parser.to_argument_type(ReplayBound.parse)
    parser.add_argument(
        "--from",
        metavar="BOUND",
        dest="start",
        type=bound,
        help="start at this offset, or at a time such as 2026-11-16T12:00:00Z",
    )
    parser.add_argument("--to", metavar="BOUND", dest="end", type=bound, help="end before this offset or time")
    node_flags.add_key_flag(parser, "only keys that match")


# --- lists -----------------------------------------------------------------------------------------------------------


def list_segment_rows(journal: Journal, args: argparse.Namespace) -> Iterator[str]:
    """Yield a summary line and a table of the segments."""
    firsts = list_segments(journal.path)
    sizes = [segment_size(journal.path, first) for first in firsts]
    if args.json:
        names = ("first", "end", "rows", "bytes", "received_from", "received_to")
        segments = (_segment(journal.path, first, size) for first, size in zip(firsts, sizes, strict=True))
        yield json.dumps([dict(zip(names, row, strict=False)) for row in segments])
        return
    yield (
        f"{journal.row_type} of {printable(journal.recorder)}: offsets {journal.earliest()} to {journal.latest()}, "
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


def list_readers(journal: Journal, args: argparse.Namespace) -> Iterator[str]:
    """Yield a table of the attached readers."""
    latest, now = journal.latest(), time.time()
    if args.json:
        yield json.dumps([_reader_document(reader, latest, now) for reader in journal.attached()])
        return
    rows = [
        (
            str(reader.offset),
            str(max(latest - reader.offset, 0)),
            _format_age(now - reader.updated),
            reader.name,
            reader.description or "",
        )
        for reader in journal.attached()
    ]
    if not rows:
        yield "no reader is attached"
        return
    yield from _table(("offset", "behind", "age", "reader", "description"), rows, numbers=3)


def _reader_document(reader: AttachedReader, latest: int, now: float) -> dict[str, object]:
    return {
        "reader": reader.name,
        "offset": reader.offset,
        "behind": max(latest - reader.offset, 0),
        "age_seconds": round(now - reader.updated, 3),
        "description": reader.description,
    }


def show_info(journal: Journal, args: argparse.Namespace) -> Iterator[str]:
    """Yield a description of the journal: recorder, rows, size, times and readers."""
    earliest, latest, now = journal.earliest(), journal.latest(), time.time()
    firsts = list_segments(journal.path)
    document: dict[str, object] = {
        "path": str(journal.path),
        "recorder": journal.recorder,
        "rows_of": journal.row_type,
        "earliest": earliest,
        "latest": latest,
        "rows": latest - earliest,
        "bytes": sum(segment_size(journal.path, first) for first in firsts),
        "segments": len(firsts),
        "received_from": _time_of(journal, earliest, latest),
        "received_to": _time_of(journal, latest - 1, latest),
        "readers": [_reader_document(reader, latest, now) for reader in journal.attached()],
    }
    if args.json:
        yield json.dumps(document)
        return
    yield f"{printable(str(journal.path))}: {journal.row_type} of recorder {printable(journal.recorder)}"
    yield f"  rows      {latest - earliest}, offsets {earliest} to {latest}"
    yield f"  size      {format_quantity(_count_bytes(journal.path), 'B')} in {pluralize(len(firsts), 'segment')}"
    yield f"  received  {document['received_from'] or '-'} to {document['received_to'] or '-'}"
    for reader in journal.attached():
        behind = f"{max(latest - reader.offset, 0)} behind, last commit {_format_age(now - reader.updated)} ago"
        yield f"  reader    {printable(reader.name)} at offset {reader.offset}, {behind}"


def _time_of(journal: Journal, offset: int, latest: int) -> str | None:
    """Return the approximate time of reception of a row; None if there is no such row."""
    if not journal.earliest() <= offset < latest:
        return None
    return _format_time(journal.received_at(offset))


# --- rows ------------------------------------------------------------------------------------------------------------


def verify(journal: Journal, args: argparse.Namespace) -> Iterator[str]:
    """Read every block of every segment. Yields each damage, and the result; sets the exit code."""
    rows, problems = 0, []
    start, latest = journal.earliest(), journal.latest()
    with Progress("verifying", latest - start, "rows") as progress:
        for first, end in _segment_ranges(journal, start, latest):
            try:
                for batch in journal.read(first, end):
                    rows += batch.num_rows
                    progress.update(rows)
            except JournalError as error:
                problems.append(str(error))
    args.code = INCOMPLETE if problems else 0
    if args.json:
        yield json.dumps({"rows": rows, "expected": latest - start, "problems": problems})
        return
    yield from problems
    yield f"{rows} of {pluralize(latest - start, 'row')} can be read; {pluralize(len(problems), 'problem')} found"


def _segment_ranges(journal: Journal, start: int, latest: int) -> Iterator[tuple[int, int]]:
    """Yield the offsets of each segment, so that damage of one does not hide another."""
    firsts = list_segments(journal.path)
    for first, end in zip(firsts, [*firsts[1:], latest], strict=True):
        if max(first, start) < end:
            yield max(first, start), end


def print_rows(journal: Journal, args: argparse.Namespace) -> Iterator[str]:
    """Yield a line per row."""
    remaining = args.rows
    for batch in _select_rows(journal, args):
        for row in (batch if remaining is None else batch[:remaining]).to_pylist():
            yield json.dumps(export.to_plain(row), ensure_ascii=False) if args.json else _format_row(row)
        if remaining is not None:
            remaining -= batch.num_rows
            if remaining <= 0:
                return


def _format_row(row: dict[str, Any]) -> str:
    if "payload" not in row:  # sessions, declarations or counters
        return printable(json.dumps(export.to_plain(row), ensure_ascii=False))
    payload: bytes = row["payload"] or b""
    value = format_value(payload, row["encoding"]) if row["kind"] == "PUT" else row["kind"]
    return f"{row['received_at']:%Y-%m-%dT%H:%M:%S.%fZ} {printable(row['key'])} {value}"


def _select_rows(journal: Journal, args: argparse.Namespace) -> Iterator[pa.RecordBatch]:
    first, end = find_offsets(journal, args.start, args.end)
    selection = KeyRemap([KeyExpr(key) for key in args.key or ()])
    if args.key and "key" not in journal.schema.names:
        raise UsageError(f"--key: the rows of a journal of {journal.row_type} have no key")
    for batch in journal.read(first, end):
        yield selection.apply(batch)


def export_journal(journal: Journal, args: argparse.Namespace) -> Iterator[str]:
    """Export rows. Yields their number."""
    format = export.pick_format(args.target, args.format, force=args.force)
    first, end = find_offsets(journal, args.start, args.end)
    with Progress("exporting", end - first, "rows") as progress:
        batches = progress.track(_select_rows(journal, args), lambda batch: batch.num_rows)
        rows = export.export_rows(batches, journal.schema, args.target, format)
    if args.target != export.STANDARD_OUTPUT:
        yield f"{pluralize(rows, 'row')} exported to {args.target}"


# --- changes ---------------------------------------------------------------------------------------------------------


def detach_reader(journal: Journal, args: argparse.Namespace) -> Iterator[str]:
    """Detach a reader. Yields its last offset."""
    names = journal.reader_names()
    if args.reader not in names:
        close = get_close_matches(args.reader, names, 1)
        hint = f"; did you mean {close[0]}?" if close else f": attached are {', '.join(names) or 'none'}"
        raise UsageError(f"{args.journal}: no reader {args.reader!r} is attached{hint}")
    try:
        offset = journal.committed(args.reader)
    except JournalError:  # an unreadable file is a reason to detach the reader
        offset = None
    journal.forget(args.reader)
    position = (
        "" if offset is None else f", which was at offset {offset}, {max(journal.latest() - offset, 0)} rows behind"
    )
    yield f"detached reader {printable(args.reader)}{position}"


def trim_segments(journal: Journal, args: argparse.Namespace) -> Iterator[str]:
    """Remove segments. Yields the number of removed rows and the remaining offsets."""
    policy = Policy(
        retain_age=None if args.retain_age is None else units.parse_duration(args.retain_age),
        retain_bytes=None if args.retain_bytes is None else units.parse_size(args.retain_bytes),
        trim_unread=args.trim_unread,
    )
    if not args.to_committed and policy.retain_age is None and policy.retain_bytes is None:
        raise UsageError("nothing to remove: give --to-committed, --retain-age or --retain-bytes")
    old_bytes = _count_bytes(journal.path)
    removed = trim(journal.path, policy, time.time())
    if args.to_committed:
        removed += _trim_committed(journal)
    freed = format_quantity(max(old_bytes - _count_bytes(journal.path), 0), "B")
    yield f"removed {pluralize(removed, 'row')} ({freed}); left are offsets {journal.earliest()} to {journal.latest()}"


def _trim_committed(journal: Journal) -> int:
    """Remove committed rows, including the last segment unless it is being written."""
    if ReaderOffsets(journal.path).min_offset() is None:
        raise UsageError(f"{journal.path}: no reader is attached, so nothing counts as committed")
    try:
        with JournalWriter(journal.path, row_type=journal.row_type) as writer:
            return writer.trim_committed()
    except JournalLocked:
        return trim_committed(journal.path)


def _count_bytes(path: Path) -> int:
    return sum(segment_size(path, first) for first in list_segments(path))


# --- formatting ------------------------------------------------------------------------------------------------------


def _table(head: Row, rows: Sequence[Row], numbers: int) -> Iterator[str]:
    """Yield aligned lines; the first `numbers` columns are right-aligned."""
    lines = [head, *(tuple(printable(text) for text in row) for row in rows)]
    widths = [
        max((len(line[column]) for line in lines if column < len(line)), default=0) for column in range(len(head))
    ]
    for line in lines:
        aligned = [
            text.rjust(width) if column < numbers else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=False))
        ]
        yield "  ".join(aligned).rstrip()


def _format_time(time_us: int) -> str:
    try:
        return (EPOCH + timedelta(microseconds=time_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except OverflowError:
        return "-"


def _format_age(seconds: float) -> str:
    """Format an age in its largest unit."""
    for unit, size in DURATION_UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "0s"
