from pathlib import Path

import pytest

from tools import generate_configuration
from tools.generate_configuration import BEGIN, END, SETTINGS_BEGIN, SETTINGS_END, main, renewed, settings_table, table


def test_the_tables_stand_between_their_marks() -> None:
    page = renewed(f"before\n{SETTINGS_BEGIN}{SETTINGS_END}middle\n{BEGIN}old\n{END}after\n")
    settings = f"{SETTINGS_BEGIN}\n{settings_table()}\n{SETTINGS_END}"
    assert page == f"before\n{settings}middle\n{BEGIN}\n{table()}\n{END}after\n"
    with pytest.raises(AssertionError):
        renewed("no marks")


def test_configuration_tables_are_written_and_pass_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "configuration.md"
    page.write_text(SETTINGS_BEGIN + SETTINGS_END + BEGIN + END)
    monkeypatch.setattr(generate_configuration, "TARGET", page)
    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert "| `mode` |" in page.read_text()
    assert "| `retention.age` |" in page.read_text()
