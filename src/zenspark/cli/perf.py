"""`zenspark perf`: measures throughput between a publisher and a subscriber."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from zenspark.api.session import Session
from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.exit_codes import INCOMPLETE, OK
from zenspark.cli.publication_flags import PRIORITIES
from zenspark.cli.status_line import write_line
from zenspark.cli.units import format_quantity
from zenspark.cli.values import json_line
from zenspark.types.enums import CongestionControl
from zenspark.types.sample import Sample

DESCRIPTION = """\
Measure throughput: one node publishes, another one counts.

  zenspark perf sub -l tcp/127.0.0.1:7448
  zenspark perf pub -e tcp/127.0.0.1:7448 --size 8 --for 10s

The default key is that of z_pub_thr and z_sub_thr of eclipse-zenoh, which can take either part. A line per second has
messages and bytes of payload; a summary follows at the end."""

KEY = "test/thr"
PERF_REPORT_INTERVAL_SECONDS = 1.0
PUBLICATIONS_PER_CHECK = 100
"""Publications between two checks of the time limit."""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark perf", description=DESCRIPTION)
    commands = argparser.add_subparsers(metavar="COMMAND", required=True)
    pub = commands.add_parser("pub", help="publish as fast as possible", description="Publish as fast as possible.")
    pub.add_argument(
        "--size", metavar="SIZE", type=argument_parser.size, default=8, help="payload size in bytes (default: 8)"
    )
    pub.add_argument("--priority", choices=PRIORITIES, default="data", help="priority (default: data)")
    pub.add_argument("--express", action="store_true", help="send each message at once")
    pub.add_argument(
        "--drop",
        action="store_true",
        help="drop messages if a link still has unsent bytes after 1 ms, instead of waiting",
    )
    pub.set_defaults(action=_pub)
    sub = commands.add_parser("sub", help="count received messages", description="Count received messages.")
    sub.set_defaults(action=_sub)
    for command in (pub, sub):
        command.add_argument(
            "key", metavar="KEY", nargs="?", default=KEY, type=argument_parser.key_expr, help=f"default: {KEY}"
        )
        command.add_argument(
            "--for", metavar="DURATION", dest="seconds", type=argument_parser.duration, help="end after this time"
        )
        command.add_argument("--json", action="store_true", help="one JSON object per line")
        node_flags.add_node_flags(command, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    action: Callable[[Session, Report, argparse.Namespace], None] = args.action
    log_output.start_logging(args)

    def measure() -> int:
        with node_flags.open_node(args) as (session, _):
            report = Report(args.seconds, is_json=args.json)
            try:
                action(session, report, args)
            finally:
                report.end()
        return OK if report.messages else INCOMPLETE

    return node_flags.end_on_interrupt(measure, is_endless=True)


class Report:
    """Counts messages and bytes, and prints their rate once per second."""

    def __init__(self, seconds: float | None, *, is_json: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds` is the time limit."""
        self._clock = clock
        self._is_json = is_json
        self._started_at = self._reported_at = clock()
        self._ends_at = None if seconds is None else self._started_at + seconds
        self._reported = (0, 0)
        self._first_at: float | None = None
        self._last_at = self._started_at
        self.messages = 0
        self.bytes = 0

    def add(self, messages: int, bytes: int) -> None:
        """Count messages and the bytes of their payloads."""
        self._last_at = self._clock()
        if self._first_at is None:
            self._first_at = self._last_at
        self.messages += messages
        self.bytes += bytes

    def tick(self) -> bool:
        """Print the rate if a second is over. Returns False after the time limit."""
        now = self._clock()
        if now - self._reported_at >= PERF_REPORT_INTERVAL_SECONDS:
            messages, bytes = self.messages, self.bytes
            self._print(messages - self._reported[0], bytes - self._reported[1], now - self._reported_at)
            self._reported_at, self._reported = now, (messages, bytes)
        return self._ends_at is None or now < self._ends_at

    def end(self) -> None:
        """Print the summary: from the first message to the last."""
        seconds = self._last_at - (self._first_at or self._started_at)
        self._print(self.messages, self.bytes, seconds, is_total=True)

    def _print(self, messages: int, bytes: int, seconds: float, *, is_total: bool = False) -> None:
        rate, byte_rate = (messages / seconds, bytes / seconds) if seconds > 0 else (0.0, 0.0)
        if self._is_json:
            document = {
                "messages": messages,
                "bytes": bytes,
                "seconds": round(seconds, 3),
                "messages_per_s": round(rate),
            }
            write_line(json_line({"total": True, **document} if is_total else document))
            return
        text = f"{format_quantity(rate)} messages/s, {format_quantity(byte_rate, 'B/s')}"
        total = f"{messages} messages, {format_quantity(bytes, 'B')} in {seconds:.1f} s: " if is_total else ""
        write_line(total + text)


def _pub(session: Session, report: Report, args: argparse.Namespace) -> None:
    congestion = CongestionControl.DROP if args.drop else CongestionControl.BLOCK
    publisher = session.declare_publisher(
        args.key, congestion_control=congestion, priority=PRIORITIES[args.priority], express=args.express
    )
    payload = bytes(args.size)
    while report.tick() and not session.is_closed():
        for _ in range(PUBLICATIONS_PER_CHECK):
            publisher.put(payload)
        report.add(PUBLICATIONS_PER_CHECK, PUBLICATIONS_PER_CHECK * args.size)


def _sub(session: Session, report: Report, args: argparse.Namespace) -> None:
    def count(sample: Sample) -> None:
        report.add(1, len(sample.payload))

    session.declare_subscriber(args.key, count)
    while report.tick() and not session.is_closed():
        time.sleep(PERF_REPORT_INTERVAL_SECONDS / 10)
