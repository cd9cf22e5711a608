from pathlib import Path

import pytest

from tools import generate_configuration
from tools.generate_configuration import BEGIN, END, main, renewed, table


def test_the_table_stands_between_its_marks() -> None:
    assert renewed(f"before\n{BEGIN}old\n{END}after\n") == f"before\n{BEGIN}\n{table()}\n{END}after\n"
    with pytest.raises(AssertionError):
        renewed("no marks")


def test_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "configuration.md"
    page.write_text(BEGIN + END)
    monkeypatch.setattr(generate_configuration, "TARGET", page)
    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert "| `mode` |" in page.read_text()
