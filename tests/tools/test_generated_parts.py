"""Generated parts of documents: replaced between their marks, written, and checked."""

from pathlib import Path

import pytest

from tools.generated_parts import replace_part, write_or_check


def test_only_the_text_between_the_marks_is_replaced() -> None:
    assert replace_part("head <old> tail", "<", ">", "new") == "head <new> tail"
    with pytest.raises(AssertionError, match="no place for <"):
        replace_part("head", "<", ">", "new")


def test_a_page_is_written_or_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("old")
    assert write_or_check(page, lambda _: "new", ["--check"], "make page") == 1
    assert (page.read_text(), capsys.readouterr().err) == ("old", "page.md is not fresh: run `make page`\n")
    assert write_or_check(page, lambda _: "new", [], "make page") == 0
    assert page.read_text() == "new"
    assert write_or_check(page, str, ["--check"], "make page") == 0
