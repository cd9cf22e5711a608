"""`zenspark get`: queries the matching queryables, and prints the replies."""

from __future__ import annotations

import sys
import time

from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.exit_codes import INCOMPLETE, OK
from zenspark.cli.publication_flags import (
    DROP_QUERY_HELP,
    VALUE_HELP,
    add_encoding_flag,
    add_qos_flags,
    choose_encoding,
    qos_options,
)
from zenspark.cli.status_line import write_line
from zenspark.cli.sub import SamplePrinter, add_format_flags
from zenspark.cli.values import error_object, format_value, json_line, read_value
from zenspark.types.enums import ConsolidationMode, QueryTarget
from zenspark.types.network_info import ReplyError
from zenspark.types.selector import Selector
from zenspark.types.time_range import TimeRange, replace_length

DESCRIPTION = """\
Query the matching queryables and storages, and print their replies.

  zenspark get 'demo/**'
  zenspark get 'fleet/r1/pose?speed=2' --target all
  zenspark get fleet/r1/pose --time '[now(-1h)..]'     recorded values of the last hour
  zenspark get '@/*/router' --json                      the routers of the network

Error replies are printed on standard error. The exit code is 1 if there was no reply, or an error reply."""

TARGETS = {member.name.lower().replace("_", "-"): member for member in QueryTarget}
CONSOLIDATIONS = {member.name.lower(): member for member in ConsolidationMode}
DEFAULT_QUERY_TIMEOUT_SECONDS = 10.0
"""Seconds that `get` and `liveliness get` wait for replies without --timeout."""


def _parse_time_range(text: str) -> str:
    TimeRange.parse(text, time.time())
    return replace_length(text)


TIME_RANGE = argument_parser.to_argument_type(_parse_time_range)
"""Argument type of a time range."""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark get", description=DESCRIPTION)
    add = argparser.add_argument
    add("selector", metavar="SELECTOR", type=argument_parser.selector, help="key expression, and ?parameters")
    time_help = "values of this time range (_time), e.g. '[now(-1h)..]', or '[now(-1h);5m]' with a length"
    add("--time", metavar="RANGE", type=TIME_RANGE, help=time_help)
    add("--target", choices=TARGETS, default="best-matching", help="queryables to query (default: best-matching)")
    add("--consolidation", choices=CONSOLIDATIONS, default="auto", help="merging of replies by key (default: auto)")
    add(
        "--timeout",
        metavar="DURATION",
        type=argument_parser.duration,
        default=DEFAULT_QUERY_TIMEOUT_SECONDS,
        help="time to wait for replies (default: 10s)",
    )
    add("--value", metavar="VALUE", help=f"value sent with the query: {VALUE_HELP}")
    add_encoding_flag(argparser)
    add_format_flags(argparser)
    add_qos_flags(argparser, drop_help=DROP_QUERY_HELP)
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    selector = add_time(args.selector, args.time)
    qos = qos_options(args)
    value = None if args.value is None else read_value(args.value)
    log_output.start_logging(args)
    node_flags.raise_interrupt_on_signals()
    printer = SamplePrinter(args)
    replies = errors = 0
    with node_flags.open_node(args) as (session, _):
        reply_handler = session.get(
            selector,
            target=TARGETS[args.target],
            consolidation=CONSOLIDATIONS[args.consolidation],
            timeout=args.timeout,
            payload=value,
            encoding=None if value is None else choose_encoding(args, args.value),
            **qos,
        )
        for reply in reply_handler:
            result = reply.result
            if isinstance(result, ReplyError):
                errors += 1
                _print_error(result, is_json=args.json)
            else:
                replies += 1
                printer.print(result, time.time())
    if not replies and not errors and not args.quiet:
        print(f"no reply to {selector}: {_explain_no_reply(selector)}", file=sys.stderr)
    return OK if replies and not errors else INCOMPLETE


def add_time(selector: str, time_range: str | None) -> str:
    """Add a time range to a selector."""
    return selector if time_range is None else f"{selector}{';' if '?' in selector else '?'}_time={time_range}"


def _explain_no_reply(selector: str) -> str:
    if "_time" in Selector(selector).parameters:
        return "no value of that time was recorded, or no storage replies"
    return "is there a queryable or storage for it?"


def _print_error(error: ReplyError, *, is_json: bool) -> None:
    if is_json:
        write_line(json_line(error_object(error)))
    else:
        write_line(f"error reply: {format_value(error.payload.to_bytes(), error.encoding)}", sys.stderr)
