import pytest

from zenspark.cli import COMMANDS, main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_help_without_arguments_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "help") == printed(capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_that_of_its_help_flag(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "help", command) == printed(capsys, command, "--help")


def test_a_mistyped_command_is_helped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "rooter"]) == 2
    assert "there is no command 'rooter'; did you mean router?" in capsys.readouterr().err
