import os
import subprocess
import sys

import pytest

import zenspark
from zenspark import cli
from zenspark.cli import main
from zenspark.errors import DecodeError, UsageError

COMMANDS = list(cli.COMMANDS)


def test_alone_it_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: zenspark COMMAND ...")
    assert all(f"\n  {name} " in printed for name in COMMANDS)


def test_help_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    alone = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == alone


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: zenspark {command} ")


def test_says_which_version_and_build(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"zenspark {zenspark.__version__} ({zenspark.build_kind()})\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["decod"], "zenspark: there is no command 'decod'; did you mean decode? (see zenspark --help)"),
        (["fly"], "zenspark: there is no command 'fly' (see zenspark --help)"),
        (["--fly"], "zenspark: unrecognized arguments: --fly (see zenspark --help)"),
        (["decode", "--fly"], "zenspark decode: unrecognized arguments: --fly (see zenspark decode --help)"),
    ],
)
def test_a_wrong_word_is_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", line + "\n")


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (UsageError("no such thing"), "zenspark decode: no such thing\n", 2),
        (DecodeError("a byte", 7, "the end"), "zenspark decode: expected a byte at byte 7, found the end\n", 2),
        (FileNotFoundError(2, "No such file", "x.bin"), "zenspark decode: x.bin: No such file\n", 2),
        (OSError("the disk is tired"), "zenspark decode: the disk is tired\n", 2),
        (KeyboardInterrupt(), "", 130),
        (SystemExit("text"), "", 2),
    ],
)
def test_error_is_one_line(
    error: BaseException,
    line: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(name: str, arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_run_command", fail)
    assert main(["decode", "00"]) == code
    assert capsys.readouterr().err == line


def test_takes_its_arguments_from_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["zenspark", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("zenspark ")


def test_a_reader_that_goes_away_is_no_drama() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "zenspark", "decode", "--jsonl", "-"]
    lines = b'{"layer": "transport", "hex": "04"}\n' * 100
    done = subprocess.run(command, input=lines, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (cli.BROKEN_PIPE, b"")
