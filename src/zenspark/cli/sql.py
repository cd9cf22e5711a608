"""`zenspark sql`: queries of the tables of a lake, run at once by an embedded engine, or by Spark."""

from __future__ import annotations

import argparse
import importlib.machinery
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, NoReturn

from zenspark.cli import Parser
from zenspark.cli.exit_codes import INTERRUPTED, OK
from zenspark.cli.interrupts import raise_interrupt
from zenspark.errors import UsageError
from zenspark.spark.ingest.settings import DEFAULT_MASTER

if TYPE_CHECKING:
    from zenspark.cli.sql_session import SqlQueryEngine, SqlSession

DESCRIPTION = """\
Query a lake in SQL. Its tables are samples, latest, gaps, traffic,
sessions, declarations and counters; \\d at the prompt describes them.

  zenspark sql                                    a prompt with history and completion
  zenspark sql "select key, payload, encoding from latest"
  zenspark sql "select prefix, minute, messages, bytes from traffic" --watch 5
  zenspark sql "select * from samples" --format parquet > samples.parquet
  zenspark sql -f queries.sql --format csv

Queries are run by an embedded engine, without Spark. --engine spark or --master
runs them with Spark. Only read-only SQL is allowed: nothing in a lake can be
changed by SQL. docs/sql.md has the dialect and the functions: zenoh_key_match,
zenoh_intersects, zenoh_includes, zenoh_decode_payload, zenoh_ntp64_to_timestamp."""

RESULT_FORMATS = ("table", "csv", "json", "jsonl", "parquet")
ENGINES = ("embedded", "spark")
STANDARD_INPUT = "standard input"


def parser() -> Parser:
    """Return the parser of the arguments."""
    argparser = Parser(
        prog="zenspark sql", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = argparser.add_argument
    add("query", nargs="?", help="query; without one, a prompt, or the statements on standard input")
    add("-f", "--file", metavar="FILE", help="read statements from a file, each ended by a semicolon")
    add("--lake", metavar="PLACE", default="lake", help="directory or URI of the lake (default: ./lake)")
    add("--format", choices=RESULT_FORMATS, default="table", help="output format (default: table)")
    add("-x", "--cards", action="store_true", help="show rows as cards, a line for each column")
    add(
        "--watch",
        metavar="SECONDS",
        type=_parse_interval,
        help="interval at which the query is run again, until Ctrl-C",
    )
    add("--engine", choices=ENGINES, help="engine (default: embedded, or spark if --master is given)")
    add("--master", metavar="URL", help=f"Spark master (default with --engine spark: {DEFAULT_MASTER})")
    return argparser


def _parse_interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found {text!r}")
    return seconds


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    _check(args)
    try:
        with _end_on_signals(is_endless=bool(args.watch)):
            _run(args)
    except KeyboardInterrupt:
        if not args.watch:
            raise
    return OK


def _run(args: argparse.Namespace) -> None:
    is_spark = args.engine == "spark" or (args.engine is None and args.master is not None)
    if not is_spark:
        _block_pandas_import()
    from zenspark.cli.sql_session import SqlSession, check_one_result

    _check_lake(args.lake)
    script, source = _read_script(args)
    if script is not None and args.format == "parquet":
        check_one_result(script)
    with _open_engine(args, is_spark) as engine:
        session = SqlSession(engine, args.format, cards=True if args.cards else None)
        if script is None:
            from zenspark.cli.sql_prompt import run_prompt

            run_prompt(session)
        elif args.watch:
            _watch(session, script, source, args.watch)
        else:
            session.run_script(script, source)


def _check(args: argparse.Namespace) -> None:
    """Check the arguments together, before anything is opened."""
    if args.query is not None and args.file:
        raise UsageError("expected a query or --file, found both")
    if args.watch and args.query is None and not args.file:
        raise UsageError("--watch needs a query")
    if args.engine == "embedded" and args.master is not None:
        raise UsageError("--master is for Spark, --engine embedded has none: leave one of them out")
    if args.watch and args.format == "parquet":
        raise UsageError("--watch cannot write Parquet: a file has one result")


def _check_lake(lake_path: str) -> None:
    from zenspark.lake import Lake

    if not Lake(lake_path).exists():
        raise UsageError(f"{lake_path}: there is no lake here; zenspark up makes one, --lake names another place")


def _read_script(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the SQL to run, None for a prompt, and the name of the file it is from, None for an argument."""
    if args.query is not None:
        return args.query, None
    if args.file and args.file != "-":
        return _read_text(args.file, lambda: Path(args.file).read_text(encoding="utf-8")), args.file
    if args.file or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _read_text(STANDARD_INPUT, sys.stdin.read), STANDARD_INPUT
    return None, None


def _read_text(name: str, read: Callable[[], str]) -> str:
    try:
        return read()
    except UnicodeDecodeError:
        raise UsageError(f"{name}: expected SQL as UTF-8 text") from None


class _PandasBlocker(MetaPathFinder):
    """Finds no pandas, as if it were not installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used by this command", name=name)
        return None


def _block_pandas_import() -> None:
    """Keep pyarrow from importing pandas, which takes longer than a query and is not used here.

    Only in a process that runs nothing but this command.
    """
    if sys.argv[1:2] == ["sql"]:
        sys.meta_path.insert(0, _PandasBlocker())


@contextmanager
def _open_engine(args: argparse.Namespace, is_spark: bool) -> Iterator[SqlQueryEngine]:
    if is_spark:
        with _open_spark(args.lake, args.master or DEFAULT_MASTER) as engine:
            yield engine
        return
    from zenspark.lake import Lake
    from zenspark.sql import Engine

    yield Engine(Lake(args.lake))


@contextmanager
def _open_spark(lake_path: str, master: str) -> Iterator[SqlQueryEngine]:
    import logging

    with _show_while_starting("starting Spark, which takes some seconds ..."):
        from zenspark.spark.engine import spark_session
        from zenspark.spark.lake import Lake
        from zenspark.spark.sql_engine import SparkEngine

        logging.getLogger("SQLQueryContextLogger").disabled = True  # the error is printed in one line
        spark = spark_session(master, "zenspark sql")
        spark.sparkContext.setLogLevel("OFF")  # Spark would log the Java stack of every failed task
    try:
        yield SparkEngine(spark, Lake(lake_path))
    finally:
        spark.stop()


@contextmanager
def _show_while_starting(text: str) -> Iterator[None]:
    """Show a line on a terminal while something starts."""
    is_terminal = sys.stderr.isatty()
    if is_terminal:
        print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def _end_on_signals(*, is_endless: bool) -> Iterator[None]:
    """End like a finished program on SIGTERM: the terminal is restored and Spark is stopped.

    A command that would run forever is ended by SIGINT and SIGTERM alike, with KeyboardInterrupt.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(INTERRUPTED)

    handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM), raise_interrupt)
    try:
        new_handlers = handlers if is_endless else {signal.SIGTERM: end}
        previous_handlers = {number: signal.signal(number, handler) for number, handler in new_handlers.items()}
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _watch(session: SqlSession, script: str, source: str | None, seconds: float) -> None:
    """Run a script every `seconds` seconds; on a terminal the result replaces the previous one."""
    is_terminal = sys.stdout.isatty()
    while True:
        started_at = time.monotonic()
        if is_terminal:
            print("\x1b[H\x1b[2J", end="")
        session.run_script(script, source)
        if is_terminal:
            print(f"every {seconds:g} s, Ctrl-C ends")
        sys.stdout.flush()
        time.sleep(max(started_at + seconds - time.monotonic(), 0))
