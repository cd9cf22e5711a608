import pytest

from zenspark.cli import main


def test_top_without_a_terminal_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top"]) == 2
    hint = "expected a terminal; for scripts: zenspark ls keys --json, or zenspark sub --json"
    assert capsys.readouterr().err == f"zenspark top: {hint}\n"
