"""Completion script of fish, made from an argument parser with subcommands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

PROGRAM = "zenspark"
FILE_PLACEHOLDERS = ("FILE", "DIR", "PLACE", "SOURCE")
"""Placeholders of arguments that name a file or directory."""


def complete(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines of the script."""
    yield f"# completion of {PROGRAM} for fish; written by `{PROGRAM} completion fish`"
    yield f"complete -c {PROGRAM} -f"
    commands = _subcommands(parser)
    yield from _options(parser, "__fish_use_subcommand")
    for name, (text, command) in commands.items():
        yield f"complete -c {PROGRAM} -n __fish_use_subcommand -a {name} -d {_quote(text)}"
        yield from _command(command, f"__fish_seen_subcommand_from {name}")


def _command(parser: argparse.ArgumentParser, condition: str) -> Iterator[str]:
    yield from _options(parser, condition)
    nested = _subcommands(parser)
    before_nested = f"{condition}; and not __fish_seen_subcommand_from {' '.join(nested)}"
    for name, (text, command) in nested.items():
        yield f"complete -c {PROGRAM} -n {_quote(before_nested)} -a {name} -d {_quote(text)}"
        yield from _command(command, f"{condition}; and __fish_seen_subcommand_from {name}")


def _options(parser: argparse.ArgumentParser, condition: str) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help is argparse.SUPPRESS:
            continue
        line = f"complete -c {PROGRAM} -n {_quote(condition)}"
        for option in action.option_strings:
            line += f" -l {option[2:]}" if option.startswith("--") else f" -s {option[1:]}"
        values = " ".join(map(str, action.choices or ()))
        if action.option_strings and action.nargs != 0:
            line += " -r"
        if values:
            line += f" -f -a {_quote(values)}"
        elif str(action.metavar).strip("[]") in FILE_PLACEHOLDERS:
            line += " -F"
        elif not action.option_strings:
            continue  # the values of this argument cannot be completed
        yield f"{line} -d {_quote(action.help % _fields(action) if action.help else '')}"


def _fields(action: argparse.Action) -> dict[str, object]:
    return {**vars(action), "prog": PROGRAM}


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            return {name: (texts.get(name, ""), subparser) for name, subparser in action.choices.items()}
    return {}


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ")
    return f"'{escaped}'"
