import json
import os
import subprocess
import sys

import pytest

import zenspark
from zenspark import cli
from zenspark.cli import main
from zenspark.cli.exit_codes import CommandError
from zenspark.cli.extras import SPARK_EXTRA
from zenspark.errors import DecodeError, LinkError, UsageError

COMMANDS = list(cli.COMMANDS)


def test_zenspark_without_arguments_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: zenspark COMMAND ...")
    assert all(f"\n  {name} " in printed for name in COMMANDS)


def test_help_flag_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    alone = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == alone


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: zenspark {command} ")


def test_version_flag_prints_version_and_build(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"zenspark {zenspark.__version__} ({zenspark.build_kind()})\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["decod"], "zenspark: there is no command 'decod'; did you mean decode? (see zenspark --help)"),
        (["fly"], "zenspark: there is no command 'fly' (see zenspark --help)"),
        (["--fly"], "zenspark: there is no flag --fly (see zenspark --help)"),
        (["decode", "--fly"], "zenspark decode: there is no flag --fly (see zenspark decode --help)"),
    ],
)
def test_unknown_command_or_flag_is_a_one_line_error(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
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
        (CommandError("not there", 4), "zenspark decode: not there\n", 4),
        (
            LinkError("tcp/[::]:7447", "cannot listen: Address already in use"),
            "zenspark decode: tcp/[::]:7447: cannot listen: Address already in use; does another node run there?"
            " -l chooses another endpoint, with port 0 any free one\n",
            2,
        ),
        (
            LinkError("tcp/a:1", "cannot connect: Connection refused"),
            "zenspark decode: tcp/a:1: cannot connect: Connection refused; does a Zenoh node listen there?\n",
            2,
        ),
        (LinkError("tcp/a:1", "timed out"), "zenspark decode: tcp/a:1: timed out\n", 2),
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


@pytest.mark.slow
def test_closed_output_pipe_ends_the_command_without_an_error_message() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "zenspark", "decode", "--jsonl", "-"]
    lines = b'{"layer": "transport", "hex": "04"}\n' * 100
    done = subprocess.run(command, input=lines, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (cli.BROKEN_PIPE, b"")


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Command:
        @staticmethod
        def run(arguments: list[str]) -> int:
            raise ModuleNotFoundError("No module named 'x'", name=arguments[0])

    monkeypatch.setattr(cli, "import_module", lambda name: Command)
    assert main(["decode", "pyspark.sql"]) == 2
    assert capsys.readouterr().err == "zenspark decode: needs pyspark: pip install 'zenspark[spark]'\n"
    with pytest.raises(ModuleNotFoundError):
        main(["decode", "something_else"])


HELP_WITHOUT_EXTRA = """
import contextlib, io, json, sys
packages, commands = map(json.loads, sys.argv[1:])
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from zenspark.cli import main
shown = {}
for command in commands:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            code = main([command, "--help"])
        except SystemExit as end:
            code = end.code
    shown[command] = code, err.getvalue(), out.getvalue()
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def help_without_extra() -> dict[str, tuple[int, str, str]]:
    """Exit code, errors and help of every command in a process without the packages of the extra."""
    program = [sys.executable, "-c", HELP_WITHOUT_EXTRA, json.dumps(list(SPARK_EXTRA)), json.dumps(sorted(COMMANDS))]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    shown: dict[str, tuple[int, str, str]] = json.loads(done.stdout)
    return shown


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_works_without_the_extra(help_without_extra: dict[str, tuple[int, str, str]], command: str) -> None:
    code, errors, text = help_without_extra[command]
    assert (code, errors) == (0, "")
    assert text.startswith(f"usage: zenspark {command} ")


@pytest.mark.parametrize(("command", "runs_handlers"), [("sql", False), ("help", True)])
def test_a_process_that_reads_tables_ends_without_exit_handlers(command: str, runs_handlers: bool) -> None:
    program = (
        "import atexit, sys; from zenspark import cli; sys.argv = ['zenspark', sys.argv[1]];"
        "atexit.register(print, 'handler'); cli.main = lambda: print('printed', end='') or 7; cli.run_process()"
    )
    ended = subprocess.run([sys.executable, "-c", program, command], capture_output=True, text=True, check=False)
    assert ended.returncode == 7
    assert ended.stdout == ("printedhandler\n" if runs_handlers else "printed")
