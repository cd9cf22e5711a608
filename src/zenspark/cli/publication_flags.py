"""Flags of commands that publish: encoding, attachment, priority, congestion control, express."""

from __future__ import annotations

import mimetypes
from argparse import ArgumentParser, Namespace
from typing import TypedDict

from zenspark.cli.values import read_value
from zenspark.types.enums import CongestionControl, Priority

PRIORITIES = {member.name.lower().replace("_", "-"): member for member in Priority}
"""Names of priorities on the command line, highest first."""
VALUE_HELP = "text, @FILE for the bytes of a file, or - for standard input"
DROP_PUBLICATION_HELP = "drop the message if a link still has unsent bytes after 1 ms, instead of waiting"
DROP_QUERY_HELP = "do not wait while a link has unsent bytes, unless it is backlogged; the query is sent anyway"


class QosOptions(TypedDict):
    """Arguments of put, delete and get that flags set."""

    priority: Priority
    congestion_control: CongestionControl
    express: bool
    attachment: bytes | None


def add_qos_flags(parser: ArgumentParser, *, drop_help: str = DROP_PUBLICATION_HELP) -> None:
    """Add the flags of publications and queries; --drop has another effect on each."""
    add = parser.add_argument_group("quality of service").add_argument
    add("--attachment", metavar="VALUE", help=f"bytes sent along: {VALUE_HELP}")
    add("--priority", choices=PRIORITIES, default="data", help="priority of the message (default: data)")
    add("--drop", action="store_true", help=drop_help)
    add("--express", action="store_true", help="send at once, without waiting for other messages to fill a batch")


def add_encoding_flag(parser: ArgumentParser) -> None:
    """Add --encoding."""
    parser.add_argument(
        "--encoding",
        metavar="TYPE",
        help="encoding of the value, e.g. application/json (default: text/plain for text, by the name for a file)",
    )


def qos_options(args: Namespace) -> QosOptions:
    """Return the arguments that the flags set."""
    return {
        "priority": PRIORITIES[args.priority],
        "congestion_control": CongestionControl.DROP if args.drop else CongestionControl.BLOCK,
        "express": args.express,
        "attachment": None if args.attachment is None else read_value(args.attachment),
    }


def choose_encoding(args: Namespace, value: str | None) -> str | None:
    """Return the encoding of a value argument; None for the default of Zenoh, zenoh/bytes."""
    if args.encoding is not None or value is None or value == "-":
        return args.encoding if args.encoding is None else str(args.encoding)
    if value.startswith("@"):
        return mimetypes.guess_type(value[1:])[0]
    return "text/plain"
