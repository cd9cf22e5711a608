"""`zenspark lake`: shows and maintains the tables of a lake."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from zenspark.cli import Parser, units
from zenspark.cli.formatting import pluralize
from zenspark.cli.screen import Screen
from zenspark.cli.units import shown
from zenspark.errors import UsageError
from zenspark.lake.lake import STATE_TABLE_SPECS
from zenspark.spark.ingest.maintenance import Retention, RetentionRule
from zenspark.spark.ingest.upgrade import upgrade
from zenspark.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DESCRIPTION = """\
Show and maintain the tables of a lake. `zenspark up` does all of this by itself, except for upgrade and rebuild; it may
run meanwhile.

  zenspark lake status ./lake
  zenspark lake upgrade ./lake
  zenspark lake expire ./lake --age 90d --rule 'fleet/*/pose=forever' --rule '**/camera/**=7d'
  zenspark lake quarantine ./lake"""

FOREVER = "forever"
DEFAULT_MASTER = "local[*]"

Lines = Iterator[str]
Action = Callable[[Lake, argparse.Namespace], Lines]


def run(arguments: list[str]) -> int:
    """Run the command; the exit code."""
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
            made.add_argument("--master", metavar="URL", default=DEFAULT_MASTER, help="the Spark that does it")
        made.set_defaults(action=action)
        return made

    command("status", _status, "show tables, files, bytes, and how far each recorder has landed")
    command("upgrade", _upgrade, "make a lake of an older format one of the present format, in place")
    command("compact", _compact, "put small files of samples together, in the order of keys", spark=True)
    command("refresh", _refresh, "bring latest, gaps and traffic up to date for all readers", spark=True)
    rebuild = command("rebuild", _rebuild, "compute latest, gaps or traffic again from samples", spark=True)
    rebuild.add_argument("--table", choices=sorted(STATE_TABLE_SPECS), action="append", help="only this one; repeatable")
    expire = command("expire", _expire, "remove samples that are older than they are kept", spark=True)
    expire.add_argument("--age", metavar="DURATION", help="how long samples are kept, e.g. 90d")
    expire.add_argument("--bytes", metavar="SIZE", help="how many bytes of samples are kept, the newest days")
    expire.add_argument(
        "--rule",
        metavar="KEYEXPR=DURATION",
        action="append",
        default=[],
        help=f"how long the keys of an expression are kept, or {FOREVER}; the first that matches counts; repeatable",
    )
    vacuum = command("vacuum", _vacuum, "remove files from disk that no snapshot needs")
    vacuum.add_argument(
        "--retain", metavar="DURATION", help="only files unused for so many hours (default: the history of each table)"
    )
    vacuum.add_argument("--full", action="store_true", help="list all files, so that what a crash left goes, too")
    command("quarantine", _quarantine, "list rows that could not be landed, and why")
    command("retry", _retry, "land what is in quarantine and can be read now")
    return parser


# --- actions ----------------------------------------------------------------------------------------------------------


def _status(lake: Lake, given: argparse.Namespace) -> Lines:
    yield f"{lake.folder.address}: format version {lake.version}"
    for name in lake.tables():
        table = lake.table(name)
        files = table.files
        size, rows = sum(file.size for file in files), sum(file.rows for file in files)
        yield f"  {name:13} {rows:>12} rows  {len(files):>6} files  {shown(size, 'B'):>9}  version {table.version}"
    for recorder, offset in lake.landed().items():
        yield f"  recorder {recorder}: landed up to offset {offset}"
    aside = lake.quarantine()
    if aside:
        yield f"  {sum(each.num_rows for each in aside)} rows in quarantine: zenspark lake quarantine {given.lake}"


def _upgrade(lake: Lake, given: argparse.Namespace) -> Lines:
    before = lake.version
    done = upgrade(lake)
    if before == lake.version:
        yield f"{given.lake} has format version {lake.version}: nothing to do"
        return
    yield f"format version {before} is now {lake.version}: {pluralize(done.files, 'file')} in their new places"
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
        None if given.age is None else timedelta(seconds=units.duration(given.age)),
        None if given.bytes is None else units.size(given.bytes),
        tuple(_rule(text) for text in given.rule),
    )
    if retention.is_empty:
        raise UsageError("nothing says what to remove: --age, --bytes or --rule")
    with _spark(given) as spark:
        yield f"{pluralize(lake.expire(retention, spark), 'file')} removed or rewritten"


def _rule(text: str) -> RetentionRule:
    key_expr, separator, age = text.rpartition("=")
    if not separator:
        raise UsageError(f"--rule: expected KEYEXPR=DURATION, found {text!r}")
    return RetentionRule(key_expr, None if age == FOREVER else timedelta(seconds=units.duration(age)))


def _vacuum(lake: Lake, given: argparse.Namespace) -> Lines:
    retain = timedelta(seconds=units.duration(given.retain)) if given.retain else None
    yield f"{pluralize(lake.vacuum(retain, full=given.full), 'file')} removed"


def _quarantine(lake: Lake, given: argparse.Namespace) -> Lines:
    found = lake.quarantine()
    if not found:
        yield "nothing is in quarantine"
    for each in found:
        yield f"recorder {each.recorder}, offsets {each.start} to {each.end - 1}, since {each.time}: {each.reason}"


def _retry(lake: Lake, given: argparse.Namespace) -> Lines:
    yield f"{pluralize(lake.retry_quarantine(), 'row')} landed"
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
