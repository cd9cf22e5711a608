"""`zenspark liveliness`: declares, lists and watches liveliness tokens."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from zenspark.api.session import Session
from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.connection_watch import ConnectionWatch
from zenspark.cli.exit_codes import INCOMPLETE, OK
from zenspark.cli.formatters import printable
from zenspark.cli.get import DEFAULT_QUERY_TIMEOUT_SECONDS
from zenspark.cli.sample_queue import SampleQueue
from zenspark.cli.status_line import SCREEN_UPDATE_INTERVAL_SECONDS, StatusLine, write_line
from zenspark.cli.values import format_time, json_line
from zenspark.types.enums import SampleKind
from zenspark.types.sample import Sample

DESCRIPTION = """\
Liveliness tokens: keys that exist as long as the node that declared them is connected.

  zenspark liveliness token group/me        declare a token until interrupted
  zenspark liveliness get 'group/*'         list the tokens that exist
  zenspark liveliness sub 'group/*'         print tokens as they appear and disappear"""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark liveliness", description=DESCRIPTION)
    commands = argparser.add_subparsers(metavar="COMMAND", required=True)
    token = commands.add_parser("token", help="declare a token until interrupted", description="Declare a token.")
    token.add_argument("key", metavar="KEY", type=argument_parser.key, help="key of the token")
    _add_limit(token)
    token.set_defaults(action=_token)
    get = commands.add_parser(
        "get", help="list the tokens that exist", description="List tokens. The exit code is 1 if there is none."
    )
    _add_keys(get)
    get.add_argument(
        "--timeout",
        metavar="DURATION",
        type=argument_parser.duration,
        default=DEFAULT_QUERY_TIMEOUT_SECONDS,
        help="time to wait for replies (default: 10s)",
    )
    get.set_defaults(action=_get)
    sub = commands.add_parser(
        "sub",
        help="print tokens as they appear and disappear",
        description="Print tokens as they appear (PUT) and disappear (DELETE), first those that exist.",
    )
    _add_keys(sub)
    sub.add_argument("--no-history", action="store_true", help="leave out the tokens that exist")
    sub.add_argument("-n", "--count", metavar="N", type=argument_parser.count, help="end after N changes")
    _add_limit(sub)
    sub.set_defaults(action=_sub)
    for command in (token, get, sub):
        node_flags.add_node_flags(command, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def _add_keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEYEXPR", type=argument_parser.key_expr, help="key expression of the tokens")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for", metavar="DURATION", dest="seconds", type=argument_parser.duration, help="end after this time"
    )


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    action: Callable[[Session, ConnectionWatch, argparse.Namespace], int] = args.action
    log_output.start_logging(args)

    def run_command() -> int:
        with node_flags.open_node(args) as (session, watch):
            return action(session, watch, args)

    is_endless = action is not _get and getattr(args, "count", None) is None
    return node_flags.end_on_interrupt(run_command, is_endless=is_endless)


def _token(session: Session, watch: ConnectionWatch, args: argparse.Namespace) -> int:
    ends_at = None if args.seconds is None else time.monotonic() + args.seconds
    with session.liveliness().declare_token(args.key), StatusLine(sys.stderr, is_enabled=not args.quiet) as line:
        write_line(f"token {args.key} is declared; Ctrl-C ends it")
        while not session.is_closed() and (ends_at is None or time.monotonic() < ends_at):
            line.show(watch.status(), f"token {args.key}")
            time.sleep(SCREEN_UPDATE_INTERVAL_SECONDS)
    return INCOMPLETE if session.is_closed() else OK


def _get(session: Session, _: ConnectionWatch, args: argparse.Namespace) -> int:
    tokens = 0
    for reply in session.liveliness().get(args.key, timeout=args.timeout):
        if reply.ok is not None:
            tokens += 1
            key = str(reply.ok.key_expr)
            write_line(json_line({"key": key}) if args.json else printable(key))
    if not tokens and not args.quiet:
        print(f"there is no token under {args.key}", file=sys.stderr)
    return OK if tokens else INCOMPLETE


def _sub(session: Session, watch: ConnectionWatch, args: argparse.Namespace) -> int:
    samples, changes = SampleQueue(), 0
    ends_at = None if args.seconds is None else time.monotonic() + args.seconds
    session.liveliness().declare_subscriber(args.key, samples, history=not args.no_history)
    with StatusLine(sys.stderr, is_enabled=not args.quiet) as line:
        while args.count is None or changes < args.count:
            line.show(watch.status(), f"{changes} changes")
            timeout = (
                SCREEN_UPDATE_INTERVAL_SECONDS
                if ends_at is None
                else min(SCREEN_UPDATE_INTERVAL_SECONDS, ends_at - time.monotonic())
            )
            if timeout <= 0 or session.is_closed():
                return INCOMPLETE if args.count or session.is_closed() else OK
            received = samples.get(timeout)
            if received is not None:
                changes += 1
                write_line(_format(*received, is_json=args.json))
    return OK


def _format(sample: Sample, received: float, *, is_json: bool) -> str:
    is_alive = sample.kind is SampleKind.PUT
    if is_json:
        return json_line({"key": str(sample.key_expr), "alive": is_alive})
    return f"{format_time(None, received)} {printable(str(sample.key_expr))} {'alive' if is_alive else 'gone'}"
