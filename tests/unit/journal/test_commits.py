"""How far readers have come."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenspark.errors import JournalError, UsageError
from zenspark.journal.commits import Commits


@pytest.mark.parametrize("name", ["spark", "a/b", "..", ".hidden", "with space", "é", "x.json"])
def test_any_name_is_a_reader(tmp_path: Path, name: str) -> None:
    commits = Commits(tmp_path)
    assert commits.all() == {}
    commits.write(name, 3)
    commits.write(name, 5)
    assert commits.read(name) == 5
    assert commits.all() == {name: 5}
    assert [file.parent for file in (tmp_path / "readers").iterdir()] == [tmp_path / "readers"]
    commits.remove(name)
    commits.remove(name)
    assert commits.read(name) is None


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must not be empty"):
        Commits(tmp_path).write("", 1)
    with pytest.raises(UsageError, match="expected an offset, found -1"):
        Commits(tmp_path).write("a", -1)


@pytest.mark.parametrize("text", ["", "[]", '{"offset": "x"}'])
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, text: str) -> None:
    Commits(tmp_path).write("a", 1)
    (tmp_path / "readers" / "a.json").write_text(text)
    with pytest.raises(JournalError, match=r"a\.json: expected"):
        Commits(tmp_path).all()
