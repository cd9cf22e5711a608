import argparse

from zenspark.cli.fish import complete


def test_fish_completes_options_values_files_and_subcommands() -> None:
    parser = argparse.ArgumentParser(prog="zenspark")
    commands = parser.add_subparsers()
    put = commands.add_parser("put", help="publish it's value")
    put.add_argument("-p", "--priority", choices=["low", "high"], help="priority (100%%)")
    put.add_argument("file", metavar="FILE", help="a file")
    put.add_argument("key", metavar="KEY", help="unknown values")
    put.add_argument("--secret", help=argparse.SUPPRESS)
    commands.add_parser("lake", help="tables").add_subparsers().add_parser("ls", help="list")
    lines = list(complete(parser))
    assert "complete -c zenspark -n __fish_use_subcommand -a put -d 'publish it\\'s value'" in lines
    seen = "complete -c zenspark -n '__fish_seen_subcommand_from put'"
    assert f"{seen} -s p -l priority -r -f -a 'low high' -d 'priority (100%)'" in lines
    assert f"{seen} -F -d 'a file'" in lines
    assert not any("secret" in line or "unknown values" in line for line in lines)
    none_yet = "__fish_seen_subcommand_from lake; and not __fish_seen_subcommand_from ls"
    assert f"complete -c zenspark -n '{none_yet}' -a ls -d 'list'" in lines
