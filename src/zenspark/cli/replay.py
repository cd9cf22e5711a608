"""`zenspark replay`: publishes the rows of a journal or a table again."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time
from typing import Self

from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.cli import Parser, argument_parser, node_flags
from zenspark.cli.connection_watch import ConnectionWatch
from zenspark.cli.exit_codes import INCOMPLETE
from zenspark.cli.log_output import start_logging
from zenspark.cli.screen import Screen
from zenspark.cli.status_line import (
    LOG_STATUS_INTERVAL_SECONDS,
    STATUS_INTERVAL_SECONDS,
    Part,
    StatusLine,
    write_line,
)
from zenspark.cli.units import format_duration, format_quantity
from zenspark.config.config import Config
from zenspark.errors import LinkError, UsageError
from zenspark.journal.flush_barrier import FlushBarrier
from zenspark.journal.key_remap import KeyRemap, RemapRule
from zenspark.journal.replay import (
    Replay,
    ReplayBound,
    ReplayProgress,
    count_recorded,
    read_recorded,
    wait_for_subscribers,
)
from zenspark.key import KeyExpr

DESCRIPTION = f"""\
Publish recorded rows again: of a journal, or of a Parquet file or directory with the columns of a sample.

Keys: --key selects, --map renames (the first rule that applies), --prefix is added to all keys.
  --map robot1=lab/robot1    robot1/state becomes lab/robot1/state; robot12 stays as it is
  --map a/b=                 a/b/c becomes c
  --prefix replay            a becomes replay/a

{node_flags.CONFIGURATION_HELP}"""

logger = logging.getLogger("zenspark.cli")

BOUND = argument_parser.to_argument_type(ReplayBound.parse)
"""Argument type of a start or an end."""

PIPELINE_KEYS = "@/*/*/zenspark/status"
"""Admin keys of the nodes with a pipeline, such as `zenspark up`."""
PIPELINES_TIMEOUT_SECONDS = 2.0
"""Timeout of the query for nodes with a pipeline, in seconds."""
FLUSH_TIMEOUT_SECONDS = 60.0
"""Timeout in seconds until the node that a client is connected to has received the last publications."""


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    replay = _replay(args)
    config = _build_config(args)
    bounds = (args.start, args.end)
    batches, total = read_recorded(args.source, *bounds), count_recorded(args.source, *bounds)
    start_logging(args, "warn")
    node_flags.raise_interrupt_on_signals()
    report = ReplayProgress(0, 0, 0.0)
    try:
        with _open(config, args) as session, ConnectionWatch(session) as watch:
            if args.require_connection:
                watch.require(args.connect_timeout)
            node_flags.print_node_banner(session, Screen(), [("replays", f"{args.source}: {total} rows")])
            if args.wait:
                _wait(session, replay.remapping)
            _warn_of_recorders(session, replay.remapping)
            barrier = FlushBarrier(session, _describe_target(session, args))
            with ReplayStatus(total, watch, is_enabled=not args.quiet) as status:
                for report in replay.run(session, batches):
                    status.show(report)
                _finish(session, barrier, is_client=config.get_json("mode") == '"client"')
    except KeyboardInterrupt:
        pass
    finally:
        if report.rows:
            write_line(format_report(report))
    return _check_result(report)


def _check_result(report: ReplayProgress) -> int:
    """Print an error if no row was published or received. Returns the exit code."""
    if not report.rows:
        write_line("zenspark replay: no row was published: --key, --from and --to select none", sys.stderr)
        return INCOMPLETE
    if report.unmatched == report.rows:
        hint = "--wait waits for one; is the receiver connected?"
        write_line(f"zenspark replay: no subscriber matched any of the rows; {hint}", sys.stderr)
        return INCOMPLETE
    return 0


class ReplayStatus:
    """Status line with rows, percentage and time left; where there is no terminal, a line every ten seconds."""

    def __init__(self, total: int, watch: ConnectionWatch, *, is_enabled: bool = True) -> None:
        """`total` is the number of rows of the source."""
        self._total = total
        self._watch = watch
        self._line = StatusLine(log_seconds=LOG_STATUS_INTERVAL_SECONDS, is_enabled=is_enabled)
        self._shown_at = time.monotonic()
        self._before = ReplayProgress(0, 0, 0.0)
        """Progress when the status line was last updated: the rate is computed from it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.end()

    def show(self, report: ReplayProgress) -> None:
        if time.monotonic() - self._shown_at >= STATUS_INTERVAL_SECONDS:
            self._shown_at = time.monotonic()
            self._line.show(*status_parts(report, self._total, self._watch.status(), self._before))
            self._before = report


def status_parts(report: ReplayProgress, total: int, connections: Part, before: ReplayProgress) -> list[Part]:
    """Return the parts of the status line; the rate is that since the progress of the line before."""
    left = report.seconds * (total - report.read) / report.read if report.read else None
    parts = [
        connections,
        f"{report.read / max(total, 1):.0%} of {total} rows",
        f"{report.rows} published",
        f"{format_rate(report.rows - before.rows, report.seconds - before.seconds)} rows/s",
        None if left is None else f"{format_duration(left)} left",
        (f"{report.unmatched} had no subscriber", "red") if report.unmatched else None,
        (f"{report.dropped} dropped", "red") if report.dropped else None,
    ]
    return [part for part in parts if part]


def format_rate(rows: int, seconds: float) -> str:
    """Format rows per second; slow ones with a digit after the point."""
    rate = rows / seconds if seconds > 0 else 0.0
    return f"{rate:.1f}" if 0 < rate < 10 else format_quantity(rate)


def format_report(report: ReplayProgress) -> str:
    """Format a replay report as one line."""
    rate = format_rate(report.rows, report.seconds)
    what = f"published {report.rows} rows in {report.seconds:.1f} s, {rate} rows/s"
    if report.unmatched:
        what += f"; {report.unmatched} had no subscriber"
    return what + (f"; {report.dropped} were dropped because of congestion" if report.dropped else "")


# --- the network ------------------------------------------------------------------------------------------------------


def _build_config(args: argparse.Namespace) -> Config:
    """Build the configuration: a node that only connects does not listen, unless flags or file have endpoints."""
    return node_flags.build_config(args, [*node_flags.connect_settings(args), *_timeout_settings(args)])


def _timeout_settings(args: argparse.Namespace) -> list[tuple[str, object]]:
    """Return settings for --connect endpoints: failing to connect within the timeout is an error."""
    if args.connect is None:
        return []
    return [("connect/exit_on_failure", True), ("connect/timeout_ms", round(args.connect_timeout * 1000))]


def _open(config: Config, args: argparse.Namespace) -> Session:
    with node_flags.convert_link_error(args.connect_timeout if args.connect else None):
        return open_session(config)


def _describe_target(session: Session, args: argparse.Namespace) -> str:
    return ", ".join(args.connect or ()) or f"node {session.zid()}"


def _finish(session: Session, barrier: FlushBarrier, *, is_client: bool) -> None:
    """Wait until the node that a client is connected to has received everything.

    For a peer or router only a lost neighbour is detected, and it may lose one while others remain.
    """
    try:
        barrier.wait(FLUSH_TIMEOUT_SECONDS)
    except LinkError as error:
        if is_client or not session.info.transports():
            raise
        logger.warning("%s", error)


def _wait(session: Session, remapping: KeyRemap) -> None:
    """Wait for a subscriber to the replayed keys; to any key, if keys are renamed."""
    keys = [] if remapping.rules or remapping.prefix else list(remapping.keys)
    write_line("waiting for a subscriber")
    wait_for_subscribers(session, keys or [KeyExpr("**")], threading.Event())


def _warn_of_recorders(session: Session, remapping: KeyRemap) -> None:
    """Warn if a pipeline of the network records, and rows keep their keys: it would record them a second time."""
    if remapping.rules or remapping.prefix:
        return
    replies = session.get(PIPELINE_KEYS, timeout=PIPELINES_TIMEOUT_SECONDS)
    zids = {str(reply.ok.key_expr).split("/")[1] for reply in replies if reply.ok is not None}
    for zid in sorted(zids):
        logger.warning("node %s records: it may record these rows a second time; --prefix or --map renames them", zid)


def _replay(args: argparse.Namespace) -> Replay:
    remapping = KeyRemap(
        [KeyExpr.autocanonize(key) for key in args.key or ()],
        [RemapRule.parse(rule) for rule in args.map],
        args.prefix,
    )
    return Replay(speed=_speed(args.speed), remapping=remapping, restamp=args.restamp, may_drop=args.may_drop)


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not speed > 0:
        raise UsageError(f"--speed: expected max or a number more than 0, found {text!r}")
    return speed


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark replay", description=DESCRIPTION)
    add = argparser.add_argument
    add("source", metavar="SOURCE", help="the directory of a journal, or a Parquet file or directory")
    add("--speed", default="1", help="speed factor relative to the reception times, or max (default: 1)")
    add(
        "--from",
        metavar="BOUND",
        dest="start",
        type=BOUND,
        help="start at this offset, or at a time such as 2026-11-16T12:00:00Z",
    )
    add("--to", metavar="BOUND", dest="end", type=BOUND, help="end before this offset or time")
    node_flags.add_key_flag(argparser, "only keys that match")
    add("--map", metavar="OLD=NEW", action="append", default=[], help="rename keys that begin with OLD; repeatable")
    add("--prefix", metavar="KEY", default="", help="prefix of every key")
    add("--restamp", action="store_true", help="publish without the recorded timestamps")
    add(
        "--may-drop",
        action="store_true",
        help="keep the recorded congestion control, so that congested links may drop rows",
    )
    add("--wait", action="store_true", help="wait for a subscriber before publishing")
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OF_ONE)
    return argparser
