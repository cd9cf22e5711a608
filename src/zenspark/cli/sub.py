"""`zenspark sub`: prints the samples that are published under key expressions."""

from __future__ import annotations

import argparse
import sys
import time

from zenspark.api.session import Session
from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.connection_watch import ConnectionWatch
from zenspark.cli.exit_codes import INCOMPLETE, OK
from zenspark.cli.formatters import printable
from zenspark.cli.sample_queue import SampleQueue
from zenspark.cli.screen import Screen
from zenspark.cli.status_line import SCREEN_UPDATE_INTERVAL_SECONDS, StatusLine, write_line
from zenspark.cli.units import format_quantity
from zenspark.cli.values import format_time, format_value, json_line, sample_object
from zenspark.types.enums import SampleKind
from zenspark.types.sample import Sample

DESCRIPTION = """\
Print samples as they are published, until interrupted (Ctrl-C), or until -n of them or --for is over.

  zenspark sub 'demo/**'
  zenspark sub demo/a -n 1 --raw > a.bin
  zenspark sub 'fleet/*/state' --json | jq .value

A line has the time (of the sample, or of reception if it has none), key and value: text and JSON as they are, other
bytes in hexadecimal. The exit code is 1 if --for was over before -n samples arrived."""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark sub", description=DESCRIPTION)
    argparser.add_argument(
        "keys", metavar="KEYEXPR", nargs="*", type=argument_parser.key_expr, help="key expression (default: **)"
    )
    node_flags.add_key_flag(argparser, "the same as KEYEXPR")
    add_output_flags(argparser)
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def add_output_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of commands that print samples until a limit."""
    add = parser.add_argument_group("output").add_argument
    add("-n", "--count", metavar="N", type=argument_parser.count, help="end after N samples")
    add("--for", metavar="DURATION", dest="seconds", type=argument_parser.duration, help="end after this time")
    add_format_flags(parser)


def add_format_flags(parser: argparse.ArgumentParser) -> None:
    """Add --json, --raw and --hex."""
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--json", action="store_true", help="one JSON object per line; bytes that are no text as base64"
    )
    formats.add_argument("--raw", action="store_true", help="only the bytes of the value, and a newline")
    formats.add_argument("--hex", action="store_true", help="values in hexadecimal, whole")


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    keys = [*args.keys, *(args.key or ())] or ["**"]
    warn_of_plus(keys)
    log_output.start_logging(args)

    def subscribe() -> int:
        with node_flags.open_node(args) as (session, watch):
            samples = SampleQueue()
            for key in keys:
                session.declare_subscriber(key, samples)
            return print_until_done(session, watch, samples, SamplePrinter(args), args)

    return node_flags.end_on_interrupt(subscribe, is_endless=args.count is None)


def warn_of_plus(keys: list[str]) -> None:
    """Warn of MQTT's wildcard for one chunk, which is an ordinary chunk in Zenoh."""
    for key in keys:
        if "+" in key.split("/"):
            meant = "/".join("*" if chunk == "+" else chunk for chunk in key.split("/"))
            print(f"{key!r}: + is no wildcard in Zenoh; did you mean {meant!r}?", file=sys.stderr)


class SamplePrinter:
    """Prints samples in the format that the flags choose."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._screen = Screen()

    def print(self, sample: Sample, received: float) -> None:
        """Print one sample."""
        if self._args.raw:
            sys.stdout.buffer.write(sample.payload.to_bytes() + b"\n")
            sys.stdout.buffer.flush()
        elif self._args.json:
            write_line(json_line(sample_object(sample, received)))
        else:
            write_line(self.format(sample, received))

    def format(self, sample: Sample, received: float) -> str:
        """Format a sample for people."""
        key = self._screen.style(printable(str(sample.key_expr)), "cyan")
        return f"{format_time(sample.timestamp, received)} {key} {self._value(sample)}"

    def _value(self, sample: Sample) -> str:
        if sample.kind is SampleKind.DELETE:
            return self._screen.style("DELETE", "red")
        payload = sample.payload.to_bytes()
        return payload.hex() if self._args.hex else format_value(payload, sample.encoding)


def print_until_done(
    session: Session, watch: ConnectionWatch, samples: SampleQueue, printer: SamplePrinter, args: argparse.Namespace
) -> int:
    """Print samples until the limit of the flags, or until interrupted. Returns the exit code."""
    ends_at = None if args.seconds is None else time.monotonic() + args.seconds
    printed, shown_at = 0, 0.0
    line = StatusLine(sys.stderr, is_enabled=not args.quiet)
    try:
        while args.count is None or printed < args.count:
            left = (
                SCREEN_UPDATE_INTERVAL_SECONDS
                if ends_at is None
                else min(SCREEN_UPDATE_INTERVAL_SECONDS, ends_at - time.monotonic())
            )
            if left <= 0 or session.is_closed():
                return INCOMPLETE if args.count or session.is_closed() else OK
            received = samples.get(left)
            if received is not None:
                printer.print(*received)
                printed += 1
            if time.monotonic() - shown_at >= SCREEN_UPDATE_INTERVAL_SECONDS:
                shown_at = time.monotonic()
                line.show(watch.status(), f"{printed} samples", *_format_skipped(samples))
    finally:
        line.end()
        if samples.skipped:
            print(f"{samples.skipped} samples were skipped: they arrived faster than they are printed", file=sys.stderr)
    return OK


def _format_skipped(samples: SampleQueue) -> list[tuple[str, str]]:
    return [(f"{format_quantity(samples.skipped)} skipped", "yellow")] if samples.skipped else []
