"""Write the commands and exit codes in docs/cli.md from the argument parsers; with `--check`, check it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.generated_parts import replace_part, write_or_check
from zenspark.cli import COMMAND_GROUPS, Parser, command_parser, exit_codes, node_flags

TARGET = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
PARTS = ("exit codes", "flags of nodes", "commands")
"""Parts of the page that are generated."""


def begin(part: str) -> str:
    return f"<!-- {part}: written by tools/generate_commands.py -->\n"


def end(part: str) -> str:
    return f"<!-- end of {part} -->\n"


def generate(part: str) -> str:
    """Generate the text of one part."""
    if part == "exit codes":
        return _table(("code", "meaning"), [(f"`{code}`", text) for code, text in exit_codes.DESCRIPTIONS.items()])
    if part == "flags of nodes":
        return _options_table(_node_parser(), set())
    return "\n".join(_commands())


def _node_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="zenspark", add_help=False)
    node_flags.add_node_flags(parser, mode="depends on the command")
    return parser


def _commands() -> Iterator[str]:
    shared = {name for action in _node_parser()._actions for name in action.option_strings} | {"-h", "--help"}
    for title, commands in COMMAND_GROUPS.items():
        yield f"### {title.capitalize()}\n"
        for name, text in commands.items():
            yield f"#### `zenspark {name}`\n\n{text[0].upper()}{text[1:]}.\n"
            yield from _command(command_parser(name), shared)


def _command(parser: argparse.ArgumentParser, shared: set[str]) -> Iterator[str]:
    yield f"```text\n{parser.description}\n```\n"
    yield from _options(parser, shared)


def _options(parser: argparse.ArgumentParser, shared: set[str]) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, made in action.choices.items():
                yield f"`{parser.prog} {name}`: {made.description}\n"
                yield from _options(made, shared)
    is_node = any("--connect" in action.option_strings for action in parser._actions)
    table = _options_table(parser, shared if is_node else {"-h", "--help"})
    if table:
        yield table
    if is_node:
        yield "And the [flags of nodes](#flags-of-nodes).\n"


def _options_table(parser: argparse.ArgumentParser, shared: set[str]) -> str:
    rows = [
        (_names(action), _text(action))
        for action in parser._actions
        if not shared & set(action.option_strings) and not isinstance(action, argparse._SubParsersAction)
    ]
    return _table(("argument", "meaning"), rows) if rows else ""


def _names(action: argparse.Action) -> str:
    metavar = str(
        action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper())
    )
    if not action.option_strings:
        return f"`{metavar}`"
    value = "" if action.nargs == 0 else f" {metavar}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _text(action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": "zenspark"}


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [f"| {left} | {right} |" for left, right in (head, ("---", "---"))]
    lines += [f"| {_escape(left)} | {_escape(right)} |" for left, right in rows]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def renewed(page: str) -> str:
    """Return the page with fresh parts."""
    for part in PARTS:
        page = replace_part(page, begin(part), end(part), f"\n{generate(part)}\n")
    return page


def main(arguments: list[str]) -> int:
    return write_or_check(TARGET, renewed, arguments, "make commands")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
