"""`zenspark completion`: prints the completion script of a shell, made from the argument parsers."""

from __future__ import annotations

import argparse

from zenspark.cli import COMMANDS, Parser, command_parser, fish, main_parser

DESCRIPTION = """\
Print the completion script of a shell.

  bash   zenspark completion bash > ~/.local/share/bash-completion/completions/zenspark
  zsh    zenspark completion zsh > "${fpath[1]}/_zenspark"
  fish   zenspark completion fish > ~/.config/fish/completions/zenspark.fish"""

SHELLS = ("bash", "zsh", "fish")


def parser() -> Parser:
    """Return the argument parser."""
    argparser = Parser(prog="zenspark completion", description=DESCRIPTION)
    argparser.add_argument("shell", choices=SHELLS, help="shell to print the script for")
    return argparser


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    shell = parser().parse_args(arguments).shell
    combined = combined_parser()
    if shell == "fish":
        print("\n".join(fish.complete(combined)))
        return 0
    import shtab  # imported here: no other command needs it

    print(shtab.complete(combined, shell))
    return 0


def combined_parser() -> argparse.ArgumentParser:
    """Return one parser with all commands as subcommands."""
    combined = argparse.ArgumentParser(prog="zenspark", parents=[main_parser()], add_help=False)
    commands = combined.add_subparsers(dest="command", metavar="COMMAND", parser_class=argparse.ArgumentParser)
    for name, text in COMMANDS.items():
        try:
            parents = [command_parser(name)]
        except ModuleNotFoundError:  # of an extra: the name alone is completed
            parents = []
        commands.add_parser(name, help=text, parents=parents, add_help=not parents)
    return combined
