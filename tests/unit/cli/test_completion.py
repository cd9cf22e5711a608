import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import require_program
from tests.tmux import on_terminal
from tests.wait import until
from zenspark.cli import COMMANDS, main
from zenspark.cli.completion import SHELLS, combined_parser


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_completed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "no-multicast-scouting" in script


@pytest.mark.slow
def test_bash_completes_commands_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    requests = """
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shtab_zenspark; echo "${COMPREPLY[@]}"; }
complete_words zenspark rou
complete_words zenspark router --lis
complete_words zenspark record --mode pe
"""
    done = subprocess.run(["bash", "-c", script + requests], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["router", "--listen", "peer"]


@pytest.mark.slow
def test_fish_completes_commands_flags_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    fish = require_program("fish")
    assert main(["completion", "fish"]) == 0
    script = capsys.readouterr().out
    lines = ["zenspark rou", "zenspark router --lis", "zenspark put a b --priority real", "zenspark liveliness tok"]
    script += "".join(f"\ncomplete -C '{line}'" for line in lines)
    done = subprocess.run([fish, "-c", script], capture_output=True, text=True, check=True)
    found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert found == ["router", "--listen", "real-time", "token"]


@pytest.mark.slow
def test_zsh_completes_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    zsh = require_program("zsh")
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_zenspark").write_text(capsys.readouterr().out)
    with on_terminal(zsh, "-f", "-i") as terminal:
        terminal.type(f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; print ready", "Enter")
        until(lambda: "ready" in terminal.lines)
        terminal.type("zenspark rou", "Tab")
        terminal.wait_for("zenspark router")


def test_an_unknown_shell_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "expected one of bash, zsh, fish, found 'tcsh'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_command_without_its_extra_is_completed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zenspark.cli.sql", None)
    assert combined_parser().parse_args(["sql"]).command == "sql"
