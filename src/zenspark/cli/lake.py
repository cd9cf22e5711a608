"""`zenspark lake`: shows and maintains the tables of a lake."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from zenspark.cli import Parser, units
from zenspark.cli.formatters import pluralize
from zenspark.cli.screen import Screen
from zenspark.cli.units import format_quantity
from zenspark.errors import UsageError
from zenspark.lake.lake import STATE_TABLE_SPECS
from zenspark.spark.ingest.maintenance import Retention, RetentionRule
from zenspark.spark.ingest.upgrade import upgrade
from zenspark.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DESCRIPTION = """\
Show and maintain the tables of a lake. `zenspark up` does all of this automatically, except upgrade and rebuild; these
commands may run at the same time.

  zenspark lake status ./lake
  zenspark lake upgrade ./lake
  zenspark lake expire ./lake --age 90d --rule 'fleet/*/pose=forever' --rule '**/camera/**=7d'
  zenspark lake quarantine ./lake"""

FOREVER = "forever"
DEFAULT_MASTER = "local[*]"

Lines = Iterator[str]
Action = Callable[[Lake, argparse.Namespace], Lines]


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    given = _parser().parse_args(arguments)
    lake = Lake(given.lake)
    if not lake.exists():
        raise UsageError(f"{given.lake}: there is no lake here; zenspark up makes one")
    action: Action = given.action
    Screen().write(action(lake, given))
    return 0


def _parser() -> Parser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="zenspark lake", description=DESCRIPTION, formatter_class=plain)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, action: Action, text: str, *, spark: bool = False) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = commands.add_parser(name, help=text, description=f"{text.capitalize()}.")
        made.add_argument("lake", metavar="PLACE", nargs="?", default="lake", help="directory or URI (default: ./lake)")
        if spark:
            made.add_argument("--master", metavar="URL", default=DEFAULT_MASTER, help="Spark master")
        made.set_defaults(action=action)
        return made

    command("status", _status, "show tables, files, bytes, and the ingested offset of each recorder")
    command("upgrade", _upgrade, "upgrade a lake of an older format in place")
    command("compact", _compact, "merge small files of samples, sorted by key", spark=True)
    command("refresh", _refresh, "refresh latest, gaps and traffic and publish them", spark=True)
    rebuild = command("rebuild", _rebuild, "rebuild latest, gaps or traffic from samples", spark=True)
    rebuild.add_argument(
        "--table", choices=sorted(STATE_TABLE_SPECS), action="append", help="only this table; repeatable"
    )
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
    vacuum = command("vacuum", _vacuum, "remove files from disk that no snapshot references")
    vacuum.add_argument(
        "--retain", metavar="DURATION", help="only files unused for this time (default: the history of each table)"
    )
    vacuum.add_argument("--full", action="store_true", help="list all files, to remove files left by crashes, too")
    command("quarantine", _quarantine, "list rows that could not be ingested, and why")
    command("retry", _retry, "ingest quarantined rows that can be read now")
    return parser


# --- actions ----------------------------------------------------------------------------------------------------------


def _status(lake: Lake, given: argparse.Namespace) -> Lines:
    yield f"{lake.location.address}: format version {lake.version}"
    for name in lake.tables():
        table = lake.table(name)
        files = table.files
        size, rows = sum(file.size for file in files), sum(file.rows for file in files)
        size_text = format_quantity(size, "B")
        yield f"  {name:13} {rows:>12} rows  {len(files):>6} files  {size_text:>9}  version {table.version}"
    for recorder, offset in lake.landed().items():
        yield f"  recorder {recorder}: ingested up to offset {offset}"
    aside = lake.quarantine()
    if aside:
        yield f"  {sum(each.num_rows for each in aside)} rows in quarantine: zenspark lake quarantine {given.lake}"


def _upgrade(lake: Lake, given: argparse.Namespace) -> Lines:
    before = lake.version
    done = upgrade(lake)
    if before == lake.version:
        yield f"{given.lake} has format version {lake.version}: nothing to do"
        return
    yield f"format version {before} is now {lake.version}: {pluralize(done.files, 'file')} moved to their new paths"
    yield f"latest, gaps and traffic follow at the next refresh: zenspark lake refresh {given.lake}, or zenspark up"


def _compact(lake: Lake, given: argparse.Namespace) -> Lines:
    with _spark(given) as spark:
        yield f"{pluralize(lake.compact(spark), 'file')} fewer"


def _refresh(lake: Lake, given: argparse.Namespace) -> Lines:
    with _spark(given) as spark:
        lake.refresh(spark)
        lake.publish(spark)
    yield from (f"{name}: {_rows(lake, name)} rows" for name in STATE_TABLE_SPECS)


def _rebuild(lake: Lake, given: argparse.Namespace) -> Lines:
    names: Sequence[str] = given.table or sorted(STATE_TABLE_SPECS)
    with _spark(given) as spark:
        for name in names:
            lake.rebuild(spark, name)
            yield f"{name}: {_rows(lake, name)} rows"


def _expire(lake: Lake, given: argparse.Namespace) -> Lines:
    retention = Retention(
        None if given.age is None else timedelta(seconds=units.parse_duration(given.age)),
        None if given.bytes is None else units.parse_size(given.bytes),
        tuple(_rule(text) for text in given.rule),
    )
    if retention.is_empty:
        raise UsageError("nothing to remove: give --age, --bytes or --rule")
    with _spark(given) as spark:
        yield f"{pluralize(lake.expire(retention, spark), 'file')} removed or rewritten"


def _rule(text: str) -> RetentionRule:
    key_expr, separator, age = text.rpartition("=")
    if not separator:
        raise UsageError(f"--rule: expected KEYEXPR=DURATION, found {text!r}")
    return RetentionRule(key_expr, None if age == FOREVER else timedelta(seconds=units.parse_duration(age)))


def _vacuum(lake: Lake, given: argparse.Namespace) -> Lines:
    retain = timedelta(seconds=units.parse_duration(given.retain)) if given.retain else None
    yield f"{pluralize(lake.vacuum(retain, full=given.full), 'file')} removed"


def _quarantine(lake: Lake, given: argparse.Namespace) -> Lines:
    found = lake.quarantine()
    if not found:
        yield "quarantine is empty"
    for each in found:
        yield f"recorder {each.recorder}, offsets {each.start} to {each.end - 1}, since {each.time}: {each.reason}"


def _retry(lake: Lake, given: argparse.Namespace) -> Lines:
    yield f"{pluralize(lake.retry_quarantine(), 'row')} ingested"
    yield from _quarantine(lake, given)


def _rows(lake: Lake, name: str) -> int:
    return sum(file.rows for file in lake.table(name).files)


@contextmanager
def _spark(given: argparse.Namespace) -> Iterator[SparkSession]:
    from zenspark.spark.engine import DRIVER_JAVA_OPTIONS, spark_session

    spark = spark_session(given.master, "zenspark lake", java_options=DRIVER_JAVA_OPTIONS)
    try:
        yield spark
    finally:
        spark.stop()
