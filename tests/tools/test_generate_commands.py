"""The generated parts of docs/cli.md."""

from pathlib import Path

import pytest

from tools import generate_commands
from tools.generate_commands import PARTS, TARGET, begin, end, main, renewed
from zenspark.cli import COMMANDS, exit_codes


def test_the_page_is_fresh() -> None:
    assert main(["--check"]) == 0


def test_every_command_and_exit_code_is_there() -> None:
    page = TARGET.read_text()
    assert all(f"#### `zenspark {name}`\n" in page for name in COMMANDS)
    assert all(f"| `{code}` |" in page for code in exit_codes.DESCRIPTIONS)


def test_a_page_that_is_not_fresh_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "cli.md"
    page.write_text("head\n" + "".join(begin(part) + "old\n" + end(part) for part in PARTS) + "tail\n")
    monkeypatch.setattr(generate_commands, "TARGET", page)
    assert main(["--check"]) == 1
    assert "make commands" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0
    text = page.read_text()
    assert text.startswith("head\n")
    assert text.endswith("tail\n")
    assert "old" not in text.splitlines()
    assert renewed(text) == text
