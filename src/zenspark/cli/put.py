"""`zenspark put`: publishes a value on a key, once or repeatedly."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator

from zenspark.api.session import Session
from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.exit_codes import INCOMPLETE, OK
from zenspark.cli.publication_flags import VALUE_HELP, add_encoding_flag, add_qos_flags, choose_encoding, qos_options
from zenspark.cli.values import read_value

DESCRIPTION = """\
Publish a value on a key.

  zenspark put demo/a hello
  zenspark put demo/config @config.json
  sensor | zenspark put demo/reading - --lines
  zenspark put demo/tick now -n 10 --period 1s

The exit code is 1 if no node is connected: then the value was sent to no node."""

logger = logging.getLogger("zenspark.cli")


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark put", description=DESCRIPTION)
    add = argparser.add_argument
    add("key", metavar="KEY", type=argument_parser.key_expr, help="key to publish on")
    add("value", metavar="VALUE", help=f"value: {VALUE_HELP}")
    add("--lines", action="store_true", help="with -: publish each line of standard input when it arrives")
    add_repeat_flags(argparser)
    add_encoding_flag(argparser)
    add_qos_flags(argparser)
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def add_repeat_flags(parser: argparse.ArgumentParser) -> None:
    """Add -n and --period."""
    parser.add_argument(
        "-n", "--count", metavar="N", type=argument_parser.count, help="publish N times (default: once; see --period)"
    )
    parser.add_argument(
        "--period",
        metavar="DURATION",
        type=argument_parser.duration,
        help="time between publications (default: 1s); without -n, publish until interrupted",
    )


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    argparser = parser()
    args = argparser.parse_args(arguments)
    if args.lines and args.value != "-":
        argparser.error("--lines: expected - as VALUE")
    if args.lines and (args.count or args.period):
        argparser.error("--lines cannot be combined with -n and --period")
    qos, encoding = qos_options(args), choose_encoding(args, args.value)
    values = _lines() if args.lines else repeat(read_value(args.value), args.count, args.period)
    log_output.start_logging(args)

    def publish() -> int:
        with node_flags.open_node(args) as (session, _):
            for value in values:
                session.put(args.key, value, encoding=encoding, **qos)
            return check_sent(session)

    is_endless = args.lines or (args.count is None and args.period is not None)
    return node_flags.end_on_interrupt(publish, is_endless=is_endless)


def repeat(value: bytes, count: int | None, period: float | None) -> Iterator[bytes]:
    """Yield a value `count` times, every `period` seconds; without a count, once, or forever if there is a period."""
    remaining = count if count is not None else (1 if period is None else None)
    yield value
    while remaining is None or remaining > 1:
        time.sleep(1.0 if period is None else period)
        yield value
        remaining = None if remaining is None else remaining - 1


def check_sent(session: Session) -> int:
    """Return the exit code after publishing; logs a warning if no node is connected."""
    if session.info.transports():
        return OK
    logger.warning("no node is connected: the publication was sent to no node; -e names a node to connect to")
    return INCOMPLETE


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n")
