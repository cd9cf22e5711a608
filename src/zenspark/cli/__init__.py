"""The command line: `zenspark COMMAND ...`.

A command is a module of this package with a function `run(arguments) -> int`, and one line in `COMMANDS`; the module
is imported only when its command is called. What goes wrong is one line on stderr and exit code 2.
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
    "decode": "tell what Zenoh bytes say: one message, many, or a recorded conversation",
    "encode": "make Zenoh bytes from fields",
    "journal": "list, trim and detach readers of a journal",
    "lake": "show and maintain the tables of a lake",
    "record": "write what is published under key expressions into a journal",
    "replay": "publish a journal or a table again",
    "router": "run a Zenoh router",
    "sql": "ask the tables of a lake",
    "up": "run a node that lands what is published in tables with Spark, and answers queries from them",
}

FAILED = 2
INTERRUPTED = 130
"""What a shell reports for a program ended by Ctrl-C,"""
BROKEN_PIPE = 141
"""and for one whose reader went away."""


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(FAILED, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments and arguments[0] in COMMANDS else None
    program = f"zenspark {name}" if name else "zenspark"
    try:
        _write_what_can_be_written()
        code = _run_command(name, arguments[1:]) if name else _run_without_command(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as exit:  # how argparse ends
        return exit.code if isinstance(exit.code, int) else FAILED
    except ZError as error:
        return _complain(program, str(error))
    except BrokenPipeError:
        # Python flushes stdout once more on its way out, and would complain about the same broken pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        return _complain(program, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED


def _run_command(name: str, arguments: list[str]) -> int:
    code: int = import_module(f"zenspark.cli.{name}").run(arguments)
    return code


def _run_without_command(arguments: list[str]) -> int:
    parser = Parser(prog="zenspark", description="Speaks Zenoh and lands it in Spark.", usage="zenspark COMMAND ...")
    version = f"zenspark {zenspark.__version__} ({zenspark.build_kind()})"
    parser.add_argument("--version", action="version", version=version)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    lines = "".join(f"  {name:10} {what}\n" for name, what in COMMANDS.items())
    parser.epilog = f"commands:\n{lines}\nzenspark COMMAND --help tells more about one of them."
    if not arguments:
        parser.print_help()
        return 0
    if arguments[0].startswith("-"):
        parser.parse_args(arguments)
    close = get_close_matches(arguments[0], COMMANDS, 1)
    parser.error(f"there is no command {arguments[0]!r}" + (f"; did you mean {close[0]}?" if close else ""))


def _complain(program: str, what: str) -> int:
    print(f"{program}: {what}", file=sys.stderr)
    return FAILED


def _write_what_can_be_written() -> None:
    """Where the terminal cannot show a character, show its number instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
