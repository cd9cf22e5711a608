"""`zenspark top`: a full-screen table of the busiest keys, and of the sessions of this node."""

from __future__ import annotations

import signal
import sys

from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.exit_codes import OK, CommandError
from zenspark.cli.key_traffic import KeyTraffic
from zenspark.cli.sub import warn_of_plus
from zenspark.cli.top_view import SORTS

DESCRIPTION = """\
Show keys with their rate, bytes, age and last value, full screen, until q or Ctrl-C.

  zenspark top
  zenspark top 'fleet/**' -e tcp/127.0.0.1:7447 --sort bytes

  up, down, page up, page down   scroll          s           next order: rate, bytes, messages, age, key
  /                              filter keys     space       pause
  tab                            keys, sessions  q, Ctrl-C   quit"""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark top", description=DESCRIPTION)
    argparser.add_argument(
        "keys", metavar="KEYEXPR", nargs="*", type=argument_parser.key_expr, help="key expression (default: **)"
    )
    node_flags.add_key_flag(argparser, "the same as KEYEXPR")
    argparser.add_argument("--sort", choices=SORTS, default="rate", help="initial sort order (default: rate)")
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    keys = [*args.keys, *(args.key or ())] or ["**"]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError("expected a terminal; for scripts: zenspark ls keys --json, or zenspark sub --json")
    warn_of_plus(keys)
    # imported here: prompt_toolkit takes a while, and --help and completion need none of it
    from zenspark.cli.top_screen import TopScreen

    if log_output.log_level(args) is None:
        args.log_level = "off"  # the screen shows the connections; log lines would tear it
    log_output.start_logging(args)

    def show() -> int:
        with node_flags.open_node(args) as (session, watch):
            traffic = KeyTraffic()
            for key in keys:
                session.declare_subscriber(key, traffic)
            screen = TopScreen(session, watch, traffic, keys, args.sort)
            signal.signal(signal.SIGTERM, lambda *_: screen.stop())
            screen.run()
        return OK

    return node_flags.end_on_interrupt(show, is_endless=True)
