"""`zenspark replay`: publishes the rows of a journal or a table again."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time

from zenspark.api.flush_barrier import FlushBarrier
from zenspark.api.log_filter import init_log_from_env_or
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.cli import Parser, node_flags
from zenspark.cli.screen import Screen
from zenspark.cli.units import format_quantity
from zenspark.config.config import Config
from zenspark.errors import LinkError, UsageError
from zenspark.journal.key_remap import KeyRemap, RemapRule
from zenspark.journal.replay import Replay, ReplayBound, ReplayProgress, read_recorded, wait_for_subscribers
from zenspark.key import KeyExpr

DESCRIPTION = f"""\
Publish recorded rows again: of a journal, or of a Parquet file or directory with the columns of a sample.

Keys: --key selects, --map renames (the first rule that applies), --prefix is added to all keys.
  --map robot1=lab/robot1    robot1/state becomes lab/robot1/state; robot12 stays as it is
  --map a/b=                 a/b/c becomes c
  --prefix replay            a becomes replay/a

{node_flags.CONFIGURATION_HELP}"""

logger = logging.getLogger("zenspark.cli")

STATUS_SECONDS = 1.0
"""Interval of the status line on a terminal."""
FLUSH_SECONDS = 60.0
"""Timeout for the neighbours to receive the last publications."""


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    given = _parser().parse_args(arguments)
    replay = _replay(given)
    config = node_flags.build_config(given, _connect_settings(given))
    batches = read_recorded(
        given.source, given.start and ReplayBound.parse(given.start), given.end and ReplayBound.parse(given.end)
    )
    init_log_from_env_or("info")
    node_flags.raise_interrupt_on_signals()
    status = ReplayStatus()
    try:
        with _open(config, given) as session:
            node_flags.print_node_banner(session, Screen(), [("replays", given.source)])
            if given.wait:
                _wait(session, replay.remapping)
            fence = FlushBarrier(session, _where(session, given))
            for report in replay.run(session, batches):
                status.show(report)
            _finish(session, fence, is_client=config.get_json("mode") == '"client"')
    except KeyboardInterrupt:
        pass
    finally:
        status.end()
    return 0


class ReplayStatus:
    """Status output: on a terminal an updated line, elsewhere one line at the end."""

    def __init__(self) -> None:
        self._report: ReplayProgress | None = None
        self._shown_at = time.monotonic()

    def show(self, report: ReplayProgress) -> None:
        self._report = report
        if time.monotonic() - self._shown_at >= STATUS_SECONDS and sys.stdout.isatty():
            self._shown_at = time.monotonic()
            print(f"\r\x1b[K{format_report(report)}", end="", flush=True)

    def end(self) -> None:
        """Print the last line, if anything was published."""
        if self._report is not None:
            print(("\n" if sys.stdout.isatty() else "") + format_report(self._report), flush=True)


def format_report(report: ReplayProgress) -> str:
    """Format a replay report as one line."""
    rate = report.rows / report.seconds if report.seconds else 0.0
    what = f"published {report.rows} rows in {report.seconds:.1f} s, {format_quantity(rate)} rows/s"
    if report.unmatched:
        what += f"; {report.unmatched} had no subscriber"
    return what + (f"; {report.dropped} were dropped because of congestion" if report.dropped else "")


# --- the network ------------------------------------------------------------------------------------------------------


def _connect_settings(given: argparse.Namespace) -> list[tuple[str, object]]:
    """Return settings for --connect endpoints: failing to connect within the timeout is an error."""
    if not given.connect_timeout >= 0:
        raise UsageError(f"--connect-timeout: expected 0 or more seconds, found {given.connect_timeout:g}")
    if given.connect is None:
        return []
    return [("connect/exit_on_failure", True), ("connect/timeout_ms", round(given.connect_timeout * 1000))]


def _open(config: Config, given: argparse.Namespace) -> Session:
    try:
        return open_session(config)
    except LinkError as error:
        problem = f"could not be reached within {given.connect_timeout:g} s: {error.problem}"
        raise LinkError(error.endpoint, problem) from error


def _where(session: Session, given: argparse.Namespace) -> str:
    return ", ".join(given.connect or ()) or f"node {session.zid()}"


def _finish(session: Session, fence: FlushBarrier, *, is_client: bool) -> None:
    """Wait until the neighbours have received everything; a peer may lose one neighbour while others remain."""
    try:
        fence.wait(FLUSH_SECONDS)
    except LinkError as error:
        if is_client or not session.info.transports():
            raise
        logger.warning("%s", error)


def _wait(session: Session, remapping: KeyRemap) -> None:
    """Wait for a subscriber to the replayed keys; to any key, if keys are renamed."""
    keys = [] if remapping.rules or remapping.prefix else list(remapping.keys)
    print("waiting for a subscriber", flush=True)
    wait_for_subscribers(session, keys or [KeyExpr("**")], threading.Event())


def _replay(given: argparse.Namespace) -> Replay:
    remapping = KeyRemap(
        [KeyExpr.autocanonize(key) for key in given.key],
        [RemapRule.parse(rule) for rule in given.map],
        given.prefix,
    )
    return Replay(speed=_speed(given.speed), remapping=remapping, restamp=given.restamp, may_drop=given.may_drop)


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


def _parser() -> Parser:
    parser = Parser(
        prog="zenspark replay", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("source", metavar="SOURCE", help="the directory of a journal, or a Parquet file or directory")
    add("--speed", default="1", help="speed factor relative to the reception times, or max (default: 1)")
    add("--from", metavar="BOUND", dest="start", help="start at this offset, or at a time such as 2026-11-16T12:00:00Z")
    add("--to", metavar="BOUND", dest="end", help="end before this offset or time")
    add("--key", metavar="KEYEXPR", action="append", default=[], help="only keys that match; repeatable")
    add("--map", metavar="OLD=NEW", action="append", default=[], help="rename keys that begin with OLD; repeatable")
    add("--prefix", metavar="KEY", default="", help="prefix of every key")
    add("--restamp", action="store_true", help="publish without the recorded timestamps")
    add(
        "--may-drop",
        action="store_true",
        help="keep the recorded congestion control, so that congested links may drop rows",
    )
    add("--wait", action="store_true", help="wait for a subscriber before publishing")
    add(
        "--connect-timeout",
        metavar="SECONDS",
        type=float,
        default=10.0,
        help="timeout to connect to the endpoints of -e; the command fails without a connection (default: 10)",
    )
    node_flags.add_node_flags(parser)
    return parser
