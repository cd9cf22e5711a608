"""The command line: `zenspark COMMAND ...`.

A command is a module of this package with a function `run(arguments) -> int`, and one line in `COMMANDS`; the module
is imported only when its command is called. An error is printed as one line on stderr, with exit code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

import zenspark
from zenspark.errors import ZError

COMMANDS = {
    "decode": "decode Zenoh bytes: one message, many, or a captured session",
    "encode": "encode fields as Zenoh bytes",
    "journal": "list segments and readers of a journal, trim it, detach readers",
    "lake": "show and maintain the tables of a lake",
    "record": "record publications under key expressions into a journal",
    "replay": "publish a journal or a table again",
    "router": "run a Zenoh router",
    "sql": "query the tables of a lake",
    "up": "run a node that ingests publications into tables with Spark and replies to queries from them",
}

FAILED = 2
INTERRUPTED = 130
"""Exit code of a program ended by Ctrl-C, as shells report it."""
BROKEN_PIPE = 141
"""Exit code of a program ended by SIGPIPE, as shells report it."""


class Parser(argparse.ArgumentParser):
    """Argument parser that prints errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(FAILED, f"{self.prog}: {message} (see {self.prog} --help)\n")


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
    except ZError as error:
        return _print_error(program, str(error))
    except BrokenPipeError:
        # Python flushes stdout again at exit, and would report the same broken pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        return _print_error(program, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED


def _run_command(name: str, arguments: list[str]) -> int:
    code: int = import_module(f"zenspark.cli.{name}").run(arguments)
    return code


def _run_without_command(arguments: list[str]) -> int:
    parser = Parser(prog="zenspark", description="A Zenoh node with a Spark pipeline.", usage="zenspark COMMAND ...")
    version = f"zenspark {zenspark.__version__} ({zenspark.build_kind()})"
    parser.add_argument("--version", action="version", version=version)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    lines = "".join(f"  {name:10} {what}\n" for name, what in COMMANDS.items())
    parser.epilog = f"commands:\n{lines}\nSee zenspark COMMAND --help."
    if not arguments:
        parser.print_help()
        return 0
    if arguments[0].startswith("-"):
        parser.parse_args(arguments)
    close = get_close_matches(arguments[0], COMMANDS, 1)
    parser.error(f"there is no command {arguments[0]!r}" + (f"; did you mean {close[0]}?" if close else ""))


def _print_error(program: str, what: str) -> int:
    print(f"{program}: {what}", file=sys.stderr)
    return FAILED


def _escape_unencodable() -> None:
    """Escape characters that the terminal cannot encode instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
