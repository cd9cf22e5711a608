"""`zenspark queryable`: replies to queries with a value, a file, or the output of a command."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import suppress

from zenspark.cli import Parser, argument_parser, log_output, node_flags
from zenspark.cli.exit_codes import INCOMPLETE, OK
from zenspark.cli.formatters import printable
from zenspark.cli.publication_flags import VALUE_HELP, add_encoding_flag, choose_encoding
from zenspark.cli.status_line import SCREEN_UPDATE_INTERVAL_SECONDS, StatusLine, write_line
from zenspark.cli.values import format_time, format_value, json_line, read_value, value_object
from zenspark.errors import UsageError
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout
from zenspark.types.payload_text import decode_text
from zenspark.types.query import Query

DESCRIPTION = """\
Reply to queries until interrupted (Ctrl-C), or until -n of them.

  zenspark queryable demo/version 1.2.3
  zenspark queryable demo/config @config.json          the file is read for every query
  zenspark queryable 'demo/rooms/*' --command 'lookup "$ZENOH_KEY" "$ZENOH_PARAMETERS"'

A command gets the payload of the query as standard input; its output is the value. If it fails, the reply is an error
with what it wrote to standard error."""

COMMAND_TIMEOUT_SECONDS = 10.0
"""Timeout of a command in seconds; queries end after that time by default."""


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark queryable", description=DESCRIPTION)
    add = argparser.add_argument
    add("key", metavar="KEYEXPR", type=argument_parser.key_expr, help="keys to reply for")
    add("value", metavar="VALUE", nargs="?", help=f"value to reply with: {VALUE_HELP}")
    add("--command", metavar="COMMAND", help="shell command whose output is the value")
    add("--complete", action="store_true", help="declare the queryable as complete for its keys")
    add("-n", "--count", metavar="N", type=argument_parser.count, help="end after N queries")
    add("--json", action="store_true", help="print each query as a JSON object")
    add_encoding_flag(argparser)
    node_flags.add_node_flags(argparser, mode=node_flags.CLIENT_OR_PEER)
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    argparser = parser()
    args = argparser.parse_args(arguments)
    if (args.value is None) == (args.command is None):
        argparser.error("give VALUE or --command" + ("" if args.value is None else ", not both"))
    replier = Replier(args)
    log_output.start_logging(args)
    return node_flags.end_on_interrupt(lambda: _reply_to_queries(replier, args), is_endless=args.count is None)


def _reply_to_queries(replier: Replier, args: argparse.Namespace) -> int:
    replied = 0
    with node_flags.open_node(args) as (session, watch), StatusLine(sys.stderr, is_enabled=not args.quiet) as line:
        try:
            queryable = session.declare_queryable(args.key, complete=args.complete)
            while args.count is None or replied < args.count:
                line.show(watch.status(), f"{replied} queries")
                with suppress(ReceiveTimeout), queryable.recv(timeout=SCREEN_UPDATE_INTERVAL_SECONDS) as query:
                    replier.reply(query)
                    replied += 1
        except ChannelClosed:  # the session ended
            return INCOMPLETE
    return OK


class Replier:
    """Makes the reply to each query, and prints the query."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._encoding = choose_encoding(args, args.value)
        # standard input can be read once; a file is read again for every query, so that it can change
        self._fixed = read_value(args.value) if args.value is not None else None

    def reply(self, query: Query) -> None:
        """Print a query and reply to it."""
        write_line(self._describe(query))
        key = self._reply_key(query)
        if key is None:
            query.reply_err(f"the queryable has wildcards ({self._args.key}): query one key", encoding="text/plain")
            return
        try:
            query.reply(key, self._value(query), encoding=self._encoding)
        except (OSError, UsageError, subprocess.TimeoutExpired) as error:
            query.reply_err(str(error), encoding="text/plain")

    def _reply_key(self, query: Query) -> str | None:
        """Return the key of the reply: the one that was queried, or that of the queryable."""
        keys = (str(query.key_expr), str(self._args.key))
        return next((key for key in keys if "*" not in key), None)

    def _value(self, query: Query) -> bytes:
        value = self._args.value
        if value is None:
            return self._run_command(query)
        assert self._fixed is not None
        return read_value(value) if value.startswith("@") else self._fixed

    def _run_command(self, query: Query) -> bytes:
        environment = {"ZENOH_KEY": str(query.key_expr), "ZENOH_PARAMETERS": str(query.parameters)}
        done = subprocess.run(
            self._args.command,
            shell=True,
            input=b"" if query.payload is None else query.payload.to_bytes(),
            capture_output=True,
            env={**os.environ, **environment},
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            reason = (decode_text(done.stderr) or "").strip() or f"the command failed with exit code {done.returncode}"
            raise UsageError(reason)
        return done.stdout.removesuffix(b"\n")

    def _describe(self, query: Query) -> str:
        payload = None if query.payload is None else query.payload.to_bytes()
        if self._args.json:
            document: dict[str, object] = {"key": str(query.key_expr), "parameters": str(query.parameters)}
            return json_line(document if payload is None else document | value_object(payload, str(query.encoding)))
        value = "" if payload is None else f" {format_value(payload, str(query.encoding))}"
        return f"{format_time(None, time.time())} {printable(str(query.selector))}{value}"
