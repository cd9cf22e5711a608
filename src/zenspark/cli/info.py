"""`zenspark info`: shows this node as it joins the network: id, addresses, connections, neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from zenspark.api.session import Session
from zenspark.cli import Parser, log_output, node_flags
from zenspark.cli.exit_codes import OK
from zenspark.cli.screen import Screen
from zenspark.cli.values import JsonObject, json_line

DESCRIPTION = """\
Open a session with the given flags, and show its id, addresses, connections and neighbours.

  zenspark info -e tcp/127.0.0.1:7447
  zenspark info --json"""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark info", description=DESCRIPTION)
    argparser.add_argument("--json", action="store_true", help="print one JSON object")
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    log_output.start_logging(args)
    node_flags.raise_interrupt_on_signals()
    with node_flags.open_node(args) as (session, _):
        if args.json:
            print(json_line(describe(session)))
        else:
            screen = Screen()
            node_flags.print_node_banner(session, screen, format_neighbours(session))
    return OK


def describe(session: Session) -> JsonObject:
    """Return the session for a script."""
    info = session.info
    destinations = {str(link.zid): link.dst for link in info.links()}
    return {
        "zid": str(session.zid()),
        "locators": info.locators(),
        "connections": [
            {
                "endpoints": connection.endpoints,
                "connected": connection.is_connected,
                "problem": connection.problem,
            }
            for connection in info.connections()
        ],
        "neighbours": [
            {
                "zid": str(transport.zid),
                "whatami": str(transport.whatami),
                "address": destinations.get(str(transport.zid)),
            }
            for transport in info.transports()
        ],
    }


def format_neighbours(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the facts of the banner."""
    for connection in session.info.connections():
        name = " or ".join(connection.endpoints)
        state = "connected" if connection.is_connected else f"not connected: {connection.problem or 'no reply yet'}"
        yield "connects", f"{name} ({state})"
    destinations = {link.zid: link.dst for link in session.info.links()}
    for transport in session.info.transports():
        yield "neighbour", f"{transport.whatami} {transport.zid} at {destinations.get(transport.zid, '?')}"
    if not session.info.transports():
        yield "neighbour", "none"
