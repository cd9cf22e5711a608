"""`zenspark scout`: lists the nodes that reply to multicast scouting."""

from __future__ import annotations

import sys
import threading

from zenspark.api.scouting import scout
from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.exit_codes import INCOMPLETE, OK
from zenspark.cli.status_line import write_line
from zenspark.cli.values import json_line
from zenspark.types.network_info import Hello

DESCRIPTION = """\
List the nodes of the local network that reply to multicast scouting, with their addresses.

  zenspark scout
  zenspark scout --what router --json

The exit code is 1 if no node replied: multicast may be blocked, or scouting disabled there."""

ROLES = ("router", "peer", "client")


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark scout", description=DESCRIPTION)
    add = argparser.add_argument
    add(
        "--what",
        choices=ROLES,
        action="append",
        help="role of the nodes to look for; repeatable (default: router and peer)",
    )
    add(
        "--timeout",
        metavar="DURATION",
        type=argument_parser.duration,
        default=1.0,
        help="time to wait for replies (default: 1s)",
    )
    add("-n", "--count", metavar="N", type=argument_parser.count, help="end after N nodes")
    add("--json", action="store_true", help="one JSON object per line")
    add("-c", "--config", metavar="FILE", help="read this configuration file")
    add(
        "--cfg",
        metavar="KEY:VALUE",
        action="append",
        default=[],
        help='set a configuration key, e.g. scouting/multicast/interface:"eth0"; repeatable',
    )
    log_output.add_log_flags(argparser)
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    config = node_flags.build_config(args)
    log_output.start_logging(args)
    node_flags.raise_interrupt_on_signals()
    zids: set[str] = set()  # a node may reply to every SCOUT
    with scout(what="|".join(args.what or ("router", "peer")), config=config) as search:
        end = threading.Timer(args.timeout, search.stop)
        end.daemon = True
        end.start()
        for hello in search:
            if str(hello.zid) not in zids:
                zids.add(str(hello.zid))
                write_line(_format(hello, is_json=args.json))
            if args.count is not None and len(zids) >= args.count:
                break
        end.cancel()
    if not zids and not args.quiet:
        print("no node replied; multicast may be blocked, or scouting disabled there", file=sys.stderr)
    return OK if zids else INCOMPLETE


def _format(hello: Hello, *, is_json: bool) -> str:
    role = str(hello.whatami)
    if is_json:
        return json_line({"zid": str(hello.zid), "whatami": role, "locators": hello.locators})
    return f"{role:<6} {hello.zid} {', '.join(hello.locators)}"
