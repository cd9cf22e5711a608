"""`zenspark help`: shows the help of a command."""

from __future__ import annotations

from zenspark.cli import COMMANDS, Parser, command_parser, main_parser, reject_command


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark help", description="Show the help of a command, or the list of all commands.")
    argparser.add_argument("command", metavar="COMMAND", nargs="?", help="command to show the help of")
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    argparser = parser()
    name = argparser.parse_args(arguments).command
    if name is not None and name not in COMMANDS:
        reject_command(argparser, name)
    (main_parser() if name is None else command_parser(name)).print_help()
    return 0
