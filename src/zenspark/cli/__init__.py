"""The command line: `zenspark COMMAND ...`.

A command is a module of this package with the functions `parser() -> Parser` and `run(arguments) -> int`, and one line
in `COMMAND_GROUPS`. The module is imported only when its command is called; modules that need an optional dependency
are imported when the command runs, so that `--help` and completion work without it. An error is printed as one line on
stderr; `exit_codes` has the exit codes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

import zenspark
from zenspark.cli.argument_parser import Parser
from zenspark.cli.exit_codes import BROKEN_PIPE, FAILED, INTERRUPTED, CommandError
from zenspark.cli.extras import describe_missing
from zenspark.errors import LinkError, ZError

COMMAND_GROUPS = {
    "publish, subscribe, query": {
        "put": "publish a value on a key",
        "delete": "publish that keys were deleted",
        "sub": "print what is published",
        "get": "query, and print the replies",
        "queryable": "reply to queries with a value, a file or the output of a command",
        "liveliness": "declare, list and watch liveliness tokens",
    },
    "inspect the network": {
        "top": "show keys by rate, bytes, age and last value, full screen",
        "ls": "list keys in use, nodes, declarations",
        "info": "show this node, its connections and neighbours",
        "scout": "list the nodes that reply to multicast scouting",
        "ping": "measure round-trip times",
        "perf": "measure throughput",
    },
    "record and query the past": {
        "demo": "run the whole pipeline with simulated robots, and show it on a page",
        "up": "run a node that ingests publications into tables with Spark and replies to queries from them",
        "record": "record publications under key expressions into a journal",
        "replay": "publish a journal or a table again",
        "sql": "query the tables of a lake",
        "journal": "show, print, verify, export and trim a journal",
        "lake": "show, export and maintain the tables of a lake",
    },
    "run a network": {
        "router": "run a Zenoh router",
    },
    "decode and encode bytes": {
        "decode": "decode Zenoh bytes: one message, many, or a captured session",
        "encode": "encode fields as Zenoh bytes",
    },
    "help": {
        "doctor": "check this machine: build, Java, Spark, ports, multicast, router, clock, disk, lake",
        "help": "show the help of a command",
        "completion": "print the completion script of a shell: bash, zsh or fish",
    },
}
"""The commands by subject, with a description of one line."""

COMMANDS = {name: text for group in COMMAND_GROUPS.values() for name, text in group.items()}

__all__ = ["BROKEN_PIPE", "COMMANDS", "FAILED", "INTERRUPTED", "Parser", "command_parser", "main"]


TABLE_COMMANDS = (["sql"], ["lake"])
"""Commands that read tables, and start nothing that has to be ended."""


def run_process() -> NoReturn:
    """Run the command of this process, and end the process.

    Reading a table that is given up half-way leaves tasks in Arrow's thread pools that free Python objects. Ended by
    `sys.exit`, which destroys the pools after the interpreter, the process would hang or crash now and then.
    """
    code = main()
    if sys.argv[1:2] in TABLE_COMMANDS and "pyspark" not in sys.modules:  # PySpark ends Java at exit
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments and arguments[0] in COMMANDS else None
    program = f"zenspark {name}" if name else "zenspark"
    try:
        _escape_unencodable()
        code = _run_command(name, arguments[1:]) if name else _run_without_command(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as exit:  # raised by argparse
        return exit.code if isinstance(exit.code, int) else FAILED
    except CommandError as error:
        return _print_error(program, str(error), error.code)
    except ZError as error:
        return _print_error(program, f"{error}{_hint(error)}")
    except BrokenPipeError:
        # Python flushes stdout again at exit, and would report the same broken pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        return _print_error(program, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED


def _run_command(name: str, arguments: list[str]) -> int:
    try:
        code: int = import_module(f"zenspark.cli.{name}").run(arguments)
    except ModuleNotFoundError as error:
        missing = describe_missing(error)
        if missing is None:
            raise
        raise CommandError(missing) from None
    return code


def command_parser(name: str) -> Parser:
    """Return the argument parser of a command, without running it."""
    module = import_module(f"zenspark.cli.{name}")
    make = getattr(module, "parser", None) or module._parser
    parser: Parser = make()
    return parser


def main_parser() -> Parser:
    """Return the parser for the command line without a command."""
    parser = Parser(prog="zenspark", description="A Zenoh node with a Spark pipeline.", usage="zenspark COMMAND ...")
    version = f"zenspark {zenspark.__version__} ({zenspark.build_kind()})"
    parser.add_argument("--version", action="version", version=version)
    groups = (
        f"{title}:\n" + "".join(f"  {name:10} {text}\n" for name, text in group.items())
        for title, group in COMMAND_GROUPS.items()
    )
    parser.epilog = "\n".join(groups) + "\nSee zenspark COMMAND --help."
    return parser


def _run_without_command(arguments: list[str]) -> int:
    parser = main_parser()
    if not arguments:
        parser.print_help()
        return 0
    if arguments[0].startswith("-"):
        parser.parse_args(arguments)
    reject_command(parser, arguments[0])
    return FAILED


def reject_command(parser: Parser, name: str) -> None:
    """Exit with the error for a command that does not exist."""
    close = get_close_matches(name, COMMANDS, 1)
    parser.error(f"there is no command {name!r}" + (f"; did you mean {close[0]}?" if close else ""))


def _hint(error: ZError) -> str:
    """Return advice for a frequent error."""
    if not isinstance(error, LinkError):
        return ""
    if "in use" in error.problem:
        what = "--http chooses another address" if error.endpoint.startswith("http") else "-l chooses another endpoint"
        return f"; does another node run there? {what}, with port 0 any free one"
    return "; does a Zenoh node listen there?" if "refused" in error.problem else ""


def _print_error(program: str, text: str, code: int = FAILED) -> int:
    print(f"{program}: {text}", file=sys.stderr)
    return code


def _escape_unencodable() -> None:
    """Escape characters that the terminal cannot encode instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
