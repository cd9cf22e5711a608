"""`zenspark lake`: shows and maintains the tables of a lake."""

from __future__ import annotations

import argparse
import functools
import json
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from zenspark.cli import Parser, argument_parser, export, node_flags, units
from zenspark.cli.formatters import pluralize
from zenspark.cli.progress import Activity, Progress
from zenspark.cli.screen import Screen
from zenspark.cli.units import FOREVER, format_quantity
from zenspark.errors import UsageError
from zenspark.journal.key_remap import KeyRemap
from zenspark.journal.replay import ReplayBound
from zenspark.key import KeyExpr
from zenspark.spark.ingest.settings import DEFAULT_MASTER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zenspark.spark.ingest.maintenance import RetentionRule
    from zenspark.spark.lake import Lake

DESCRIPTION = """\
Show and maintain the tables of a lake. `zenspark up` refreshes, compacts, expires and vacuums by itself; the other
commands are run by hand. All of them may run beside it.

  zenspark lake info ./lake
  zenspark lake export ./lake poses.parquet -k 'fleet/*/pose' --from 2026-11-16T12:00:00Z
  zenspark lake upgrade ./lake
  zenspark lake expire ./lake --age 90d --rule 'fleet/*/pose=forever' --rule '**/camera/**=7d'
  zenspark lake quarantine ./lake"""

DERIVED_TABLES = ("gaps", "latest", "traffic")
TABLES = ("samples", *DERIVED_TABLES, "sessions", "declarations", "counters")

Lines = Iterator[str]
Action = Callable[["Lake", argparse.Namespace], Lines]


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    from zenspark.spark.lake import Lake  # imported here: --help does not need Spark

    lake = Lake(args.lake)
    if not lake.exists():
        raise UsageError(f"{args.lake}: there is no lake here; zenspark up makes one")
    action: Action = args.action
    Screen().write(action(lake, args))
    return 0


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark lake", description=DESCRIPTION)
    commands = argparser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, action: Action, text: str, *, spark: bool = False) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=f"{text.capitalize()}.")
        subparser.add_argument(
            "lake", metavar="PLACE", nargs="?", default="lake", help="directory or URI (default: ./lake)"
        )
        if spark:
            subparser.add_argument("--master", metavar="URL", default=DEFAULT_MASTER, help="Spark master")
        subparser.set_defaults(action=action)
        return subparser

    for name in ("info", "status"):
        info = command(name, _info, "show tables, files, bytes, and the ingested offset of each recorder")
        info.add_argument("--json", action="store_true", help="print JSON")
    _add_export(commands)
    command("upgrade", _upgrade, "upgrade a lake of an older format in place")
    command("compact", _compact, "merge small files of samples, sorted by key", spark=True)
    command("refresh", _refresh, "refresh latest, gaps and traffic and publish them", spark=True)
    rebuild = command("rebuild", _rebuild, "rebuild latest, gaps or traffic from samples", spark=True)
    rebuild.add_argument("--table", choices=DERIVED_TABLES, action="append", help="only this table; repeatable")
    expire = command("expire", _expire, "remove expired samples", spark=True)
    expire.add_argument("--age", metavar="DURATION", help="retention of samples, e.g. 90d")
    expire.add_argument("--bytes", metavar="SIZE", help="maximum size of samples; the oldest are removed first")
    expire.add_argument(
        "--rule",
        metavar="KEYEXPR=DURATION",
        action="append",
        default=[],
        help=f"retention of the keys of an expression, or {FOREVER}; the first that matches applies; repeatable",
    )
    vacuum = command("vacuum", _vacuum, "remove files that no version of a table refers to")
    vacuum.add_argument(
        "--retain", metavar="DURATION", help="only files unused for this time (default: the history of each table)"
    )
    vacuum.add_argument("--full", action="store_true", help="list all files, to remove files left by crashes, too")
    command("quarantine", _quarantine, "list rows that could not be ingested, with the reason")
    command("retry", _retry, "ingest quarantined rows that can be read now")
    return argparser


def _add_export(commands: argparse._SubParsersAction[Parser]) -> None:
    text = "export a table to a CSV, JSON lines or Parquet file"
    subparser = commands.add_parser("export", help=text, description=f"{text.capitalize()}.")
    subparser.add_argument("lake", metavar="PLACE", help="directory or URI of the lake")
    export.add_export_flags(subparser)
    subparser.add_argument("--table", default="samples", choices=TABLES, help="table (default: samples)")
    time = argument_parser.to_argument_type(_parse_time)
    subparser.add_argument(
        "--from", metavar="TIME", dest="start", type=time, help="only rows received from this time on"
    )
    subparser.add_argument("--to", metavar="TIME", dest="end", type=time, help="only rows received before this time")
    node_flags.add_key_flag(subparser, "only keys that match")
    subparser.set_defaults(action=_export)


def _parse_time(text: str) -> datetime:
    bound = ReplayBound.parse(text)
    if bound.time_us is None:
        raise UsageError(f"expected a time such as 2026-11-16T12:00:00Z, found {text!r}")
    return datetime.fromtimestamp(bound.time_us / 1e6, UTC)


# --- actions ----------------------------------------------------------------------------------------------------------


def _info(lake: Lake, args: argparse.Namespace) -> Lines:
    if args.json:
        yield json.dumps(describe(lake))
        return
    document = describe(lake)
    yield f"{document['lake']}: format version {document['format']}"
    for table in document["tables"]:
        size = format_quantity(table["bytes"], "B")
        counts = f"{table['rows']:>12} rows  {table['files']:>6} files  {size:>9}"
        yield f"  {table['name']:13} {counts}  version {table['version']}"
    for recorder, offset in document["recorders"].items():
        yield f"  recorder {recorder}: ingested up to offset {offset}"
    if document["quarantined"]:
        yield f"  {document['quarantined']} rows in quarantine: zenspark lake quarantine {args.lake}"


def describe(lake: Lake) -> dict[str, Any]:
    """Describe a lake: tables with rows, files and bytes, ingested offsets, rows in quarantine."""
    tables = []
    for name in lake.tables():
        table = lake.table(name)
        files = table.files
        tables.append(
            {
                "name": name,
                "rows": sum(file.rows for file in files),
                "files": len(files),
                "bytes": sum(file.size for file in files),
                "version": table.version,
            }
        )
    return {
        "lake": lake.location.address,
        "format": lake.version,
        "tables": tables,
        "recorders": lake.ingested(),
        "quarantined": sum(block.num_rows for block in lake.quarantine()),
    }


def _export(lake: Lake, args: argparse.Namespace) -> Lines:
    format = export.pick_format(args.target, args.format, force=args.force)
    dataset = lake.dataset(args.table)
    selection = KeyRemap([KeyExpr(key) for key in args.key or ()])
    for flag, column, value in (("--key", "key", args.key), ("--from/--to", "received_at", args.start or args.end)):
        if value and column not in dataset.schema.names:
            raise UsageError(f"{flag}: the table {args.table} has no column {column}")
    condition = _time_condition(args)
    with Progress("exporting", dataset.count_rows(filter=condition), "rows") as progress:
        batches = progress.track(dataset.to_batches(filter=condition), lambda batch: batch.num_rows)
        selected = (selection.apply(batch) for batch in batches)
        rows = export.export_rows(selected, dataset.schema, args.target, format)
    if args.target != export.STANDARD_OUTPUT:
        yield f"{pluralize(rows, 'row')} exported to {args.target}"


def _time_condition(args: argparse.Namespace) -> pc.Expression | None:
    field = pc.field("received_at")
    parts = [] if args.start is None else [field >= args.start]
    parts += [] if args.end is None else [field < args.end]
    return functools.reduce(operator.and_, parts) if parts else None


def _upgrade(lake: Lake, args: argparse.Namespace) -> Lines:
    previous = lake.version
    from zenspark.spark.ingest.upgrade import upgrade

    result = upgrade(lake)
    if previous == lake.version:
        yield f"{args.lake} has format version {lake.version}: nothing to do"
        return
    yield f"format version {previous} is now {lake.version}: {pluralize(result.files, 'file')} moved to their new paths"
    yield f"latest, gaps and traffic follow at the next refresh: zenspark lake refresh {args.lake}, or zenspark up"


def _compact(lake: Lake, args: argparse.Namespace) -> Lines:
    with _start_spark(args) as spark, Activity("compacting"):
        removed_files = lake.compact(spark)
    yield f"{pluralize(removed_files, 'file')} fewer"


def _refresh(lake: Lake, args: argparse.Namespace) -> Lines:
    with _start_spark(args) as spark, Activity("refreshing"):
        lake.refresh(spark)
        lake.publish(spark)
    yield from (f"{name}: {_count_rows(lake, name)} rows" for name in DERIVED_TABLES)


def _rebuild(lake: Lake, args: argparse.Namespace) -> Lines:
    names: Sequence[str] = args.table or DERIVED_TABLES
    with _start_spark(args) as spark:
        for name in names:
            with Activity(f"rebuilding {name}"):
                lake.rebuild(spark, name)
            yield f"{name}: {_count_rows(lake, name)} rows"


def _expire(lake: Lake, args: argparse.Namespace) -> Lines:
    from zenspark.spark.ingest.maintenance import Retention

    retention = Retention(
        None if args.age is None else timedelta(seconds=units.parse_duration(args.age)),
        None if args.bytes is None else units.parse_size(args.bytes),
        tuple(_parse_rule(text) for text in args.rule),
    )
    if retention.is_empty:
        raise UsageError("nothing to remove: give --age, --bytes or --rule")
    with _start_spark(args) as spark, Activity("removing expired samples"):
        files = lake.expire(retention, spark)
    yield f"{pluralize(files, 'file')} removed or rewritten"


def _parse_rule(text: str) -> RetentionRule:
    from zenspark.spark.ingest.maintenance import RetentionRule

    key_expr, separator, age = text.rpartition("=")
    if not separator:
        raise UsageError(f"--rule: expected KEYEXPR=DURATION, found {text!r}")
    return RetentionRule(key_expr, None if age == FOREVER else timedelta(seconds=units.parse_duration(age)))


def _vacuum(lake: Lake, args: argparse.Namespace) -> Lines:
    retain = timedelta(seconds=units.parse_duration(args.retain)) if args.retain else None
    with Activity("removing files"):
        files = lake.vacuum(retain, full=args.full)
    yield f"{pluralize(files, 'file')} removed"


def _quarantine(lake: Lake, args: argparse.Namespace) -> Lines:
    blocks = lake.quarantine()
    if not blocks:
        yield "quarantine is empty"
    for block in blocks:
        yield f"recorder {block.recorder}, offsets {block.start} to {block.end - 1}, since {block.time}: {block.reason}"


def _retry(lake: Lake, args: argparse.Namespace) -> Lines:
    yield f"{pluralize(lake.retry_quarantine(), 'row')} ingested"
    yield from _quarantine(lake, args)


def _count_rows(lake: Lake, name: str) -> int:
    return sum(file.rows for file in lake.table(name).files)


@contextmanager
def _start_spark(args: argparse.Namespace) -> Iterator[SparkSession]:
    from zenspark.spark.engine import DRIVER_JAVA_OPTIONS, spark_session

    with Activity("starting Spark"):
        spark = spark_session(args.master, "zenspark lake", java_options=DRIVER_JAVA_OPTIONS)
    try:
        yield spark
    finally:
        spark.stop()
