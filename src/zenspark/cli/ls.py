"""`zenspark ls`: lists keys in use, nodes, and declarations."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from zenspark.api.session import Session
from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.exit_codes import INCOMPLETE, OK
from zenspark.cli.formatters import printable, truncate
from zenspark.cli.key_traffic import KeyTraffic
from zenspark.cli.progress import Activity
from zenspark.cli.screen import Screen
from zenspark.cli.units import format_quantity
from zenspark.cli.values import JsonObject, format_value, json_line, value_object
from zenspark.types.enums import QueryTarget
from zenspark.types.sample import Sample

DESCRIPTION = """\
List keys, nodes or declarations of the network.

  zenspark ls                       keys: those published on within --for, and those of storages
  zenspark ls nodes                 routers, peers and clients, with version and addresses
  zenspark ls declarations          subscribers, queryables, tokens, publishers and queriers, and their nodes

-k restricts keys and declarations. Nodes and declarations are read from the admin space, which routers have enabled
by default. The exit code is 1 if there is nothing to list."""

SUBJECTS = ("keys", "nodes", "declarations")
DEFAULT_WAIT_SECONDS = 2.0
DECLARED_KINDS = ("subscriber", "queryable", "token", "publisher", "querier")
"""Kinds of declarations in the admin space."""
MAX_VALUE_COLUMNS = 60
"""Maximum width of a value on a terminal."""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark ls", description=DESCRIPTION)
    argparser.add_argument(
        "subject", choices=SUBJECTS, nargs="?", default="keys", help="subject to list (default: keys)"
    )
    node_flags.add_key_flag(argparser, "only these keys")
    argparser.add_argument(
        "--for",
        metavar="DURATION",
        dest="seconds",
        type=argument_parser.duration,
        default=DEFAULT_WAIT_SECONDS,
        help="time to wait for publications and replies (default: 2s)",
    )
    argparser.add_argument("--json", action="store_true", help="one JSON object per line")
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    args = parser().parse_args(arguments)
    keys: list[str] = args.key or ["**"]
    log_output.start_logging(args)
    node_flags.raise_interrupt_on_signals()
    with node_flags.open_node(args) as (session, _), Activity(f"looking for {args.subject}"):
        rows = LISTERS[args.subject](session, keys, args.seconds)
    if args.json:
        for row in rows:
            print(json_line(row))
    elif rows:
        print_listing(FORMATTERS[args.subject](rows))
    elif not args.quiet:
        print(f"no {args.subject} found within {args.seconds:g} s", file=sys.stderr)
    return OK if rows else INCOMPLETE


# --- queries of the network -------------------------------------------------------------------------------------------


def list_keys(session: Session, keys: Sequence[str], seconds: float) -> list[JsonObject]:
    """Return the keys that were published on within `seconds`, or are stored."""
    traffic, stored = KeyTraffic(), dict[str, Sample]()
    ends_at = time.monotonic() + seconds
    subscribers = [session.declare_subscriber(key, traffic) for key in keys]
    for key in keys:
        for reply in session.get(key, target=QueryTarget.ALL, timeout=seconds):
            if reply.ok is not None:
                stored[str(reply.ok.key_expr)] = reply.ok
    time.sleep(max(ends_at - time.monotonic(), 0))
    for subscriber in subscribers:
        subscriber.undeclare()
    return [_key_row(key, traffic, stored) for key in sorted({*traffic.keys(), *stored})]


def _key_row(key: str, traffic: KeyTraffic, stored: dict[str, Sample]) -> JsonObject:
    counts = traffic.get(key)
    if counts is None:
        value, encoding = stored[key].payload.to_bytes(), str(stored[key].encoding)
    else:
        value, encoding = counts.payload, counts.encoding
    row: JsonObject = {"key": key, "messages": counts.messages if counts else 0, "bytes": counts.bytes if counts else 0}
    return row | {"stored": key in stored, "encoding": encoding, **value_object(value, encoding)}


def list_nodes(session: Session, _: Sequence[str], seconds: float) -> list[JsonObject]:
    """Return the nodes that the admin spaces describe, their neighbours, and those of this session."""
    documents = dict(_documents(session, "@/*/*", seconds))
    nodes: dict[str, JsonObject] = {}
    for transport in session.info.transports():
        nodes[str(transport.zid)] = _node(str(transport.zid), str(transport.whatami))
    for document in documents.values():
        for neighbour in document.get("sessions") or []:
            zid = str(neighbour.get("peer"))
            nodes.setdefault(zid, _node(zid, str(neighbour.get("whatami"))))
    for key, document in documents.items():
        _, zid, role, *_rest = key.split("/")
        nodes[zid] = _node(zid, role, document)
    nodes.pop(str(session.zid()), None)
    return sorted(nodes.values(), key=lambda node: (str(node["whatami"]), str(node["zid"])))


def _node(zid: str, role: str, document: dict[str, Any] | None = None) -> JsonObject:
    fields = document or {}
    return {"zid": zid, "whatami": role, "version": fields.get("version"), "locators": fields.get("locators") or []}


def list_declarations(session: Session, keys: Sequence[str], seconds: float) -> list[JsonObject]:
    """Return the declarations that the admin spaces describe."""
    rows: set[tuple[str, str, str, str]] = set()
    for kind in DECLARED_KINDS:
        for key in keys:
            for path, document in _documents(session, f"@/*/*/{kind}/{key}", seconds):
                declared_key = path.split("/", 4)[4]
                rows.update((kind, declared_key, role, zid) for role, zid in _owners(document))
    local_zid = str(session.zid())
    return [
        {"kind": kind, "key": key, "whatami": role, "zid": zid}
        for kind, key, role, zid in sorted(rows)
        if zid != local_zid
    ]


def _owners(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield role and id of the nodes of a declaration."""
    for role, zids in document.items():
        if isinstance(zids, list):
            yield from ((role.removesuffix("s"), str(zid)) for zid in zids)


def _documents(session: Session, selector: str, seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the JSON documents of the admin spaces that match."""
    for reply in session.get(selector, target=QueryTarget.ALL, timeout=seconds):
        if reply.ok is None:
            continue
        try:
            document = json.loads(reply.ok.payload.to_bytes())
        except ValueError:
            continue
        if isinstance(document, dict):
            yield str(reply.ok.key_expr), document


LISTERS: dict[str, Callable[[Session, Sequence[str], float], list[JsonObject]]] = {
    "keys": list_keys,
    "nodes": list_nodes,
    "declarations": list_declarations,
}


# --- tables -----------------------------------------------------------------------------------------------------------


class Listing(NamedTuple):
    """A list as texts, printed on a terminal as a table that fits, and in a pipe as aligned lines."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    flexible: str
    """Column that is narrowed if the screen is too narrow; the others keep their width."""
    numbers: tuple[str, ...] = ()
    """Right-aligned columns."""
    is_cut: bool = False
    """Whether the flexible column is cut, and not wrapped."""

    def table(self) -> Table:
        """Make a table for a terminal."""
        table = Table(box=None, pad_edge=False)
        for column in self.columns:
            justify: Literal["left", "right"] = "right" if column in self.numbers else "left"
            table.add_column(column, justify=justify, no_wrap=column != self.flexible, overflow="fold")
        for row in self.rows:
            table.add_row(*(self._cell(*cell) for cell in zip(self.columns, row, strict=True)))
        return table

    def _cell(self, column: str, text: str) -> Text:
        if column == self.flexible and self.is_cut:
            return Text(truncate(text, MAX_VALUE_COLUMNS), no_wrap=True, overflow="ellipsis")
        return Text(text)

    def lines(self) -> Iterator[str]:
        """Yield aligned lines of the full width."""
        rows = [self.columns, *self.rows]
        widths = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
        widths[-1] = 0  # nothing follows the last column
        for row in rows:
            yield "  ".join(map(self._align, self.columns, row, widths)).rstrip()

    def _align(self, column: str, text: str, width: int) -> str:
        blanks = " " * (width - cell_len(text))
        return blanks + text if column in self.numbers else text + blanks


def print_listing(listing: Listing) -> None:
    """Print a list on standard output."""
    if sys.stdout.isatty():
        Screen().print(listing.table())
    else:
        Screen().write(listing.lines())


def format_keys(rows: Sequence[JsonObject]) -> Listing:
    """Format the keys in use as a table: messages, bytes, newest value, and whether a storage has it."""
    texts = [
        (
            printable(str(row["key"])),
            str(row["messages"]),
            format_quantity(float(str(row["bytes"])), "B"),
            "yes" if row["stored"] else "",
            format_value(_payload(row), str(row["encoding"])),
        )
        for row in rows
    ]
    columns = ("key", "messages", "bytes", "stored", "value")
    return Listing(columns, texts, flexible="value", numbers=("messages", "bytes"), is_cut=True)


def _payload(row: JsonObject) -> bytes:
    """Return the payload that a row has for scripts."""
    if "base64" in row:
        return base64.b64decode(str(row["base64"]))
    value = row["value"]
    return (value if isinstance(value, str) else json_line(value)).encode()


def format_nodes(rows: Sequence[JsonObject]) -> Listing:
    """Format the nodes of the network as a table: role, zid, version and addresses."""
    texts = []
    for row in rows:
        locators = row["locators"]
        addresses = ", ".join(map(str, locators)) if isinstance(locators, list) else ""
        texts.append((str(row["whatami"]), str(row["zid"]), str(row["version"] or ""), addresses))
    return Listing(("role", "zid", "version", "addresses"), texts, flexible="addresses")


def format_declarations(rows: Sequence[JsonObject]) -> Listing:
    """Format the declarations of the network as a table: kind, key, and the node that declared it."""
    texts = [(str(row["kind"]), printable(str(row["key"])), str(row["whatami"]), str(row["zid"])) for row in rows]
    return Listing(("kind", "key", "role", "zid"), texts, flexible="key")


FORMATTERS: dict[str, Callable[[Sequence[JsonObject]], Listing]] = {
    "keys": format_keys,
    "nodes": format_nodes,
    "declarations": format_declarations,
}
