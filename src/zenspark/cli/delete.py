"""`zenspark delete`: publishes that keys were deleted."""

from __future__ import annotations

from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.publication_flags import add_qos_flags, qos_options
from zenspark.cli.put import check_sent

DESCRIPTION = """\
Publish that keys were deleted: storages remove their values, subscribers receive a sample of kind DELETE.

  zenspark delete demo/a
  zenspark delete 'demo/**'

The exit code is 1 if no node is connected: then the deletion was sent to no node."""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark delete", description=DESCRIPTION)
    argparser.add_argument(
        "key",
        metavar="KEYEXPR",
        type=argument_parser.key_expr,
        nargs="+",
        help="key to delete; with wildcards, several",
    )
    add_qos_flags(argparser)
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    qos = qos_options(args)
    log_output.start_logging(args)
    node_flags.raise_interrupt_on_signals()
    with node_flags.open_node(args) as (session, _):
        for key in args.key:
            session.delete(key, **qos)
        return check_sent(session)
