import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.unit.cli.terminals import use_terminal
from zenspark.cli.screen import Screen, cut_text, wrap_text


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    screen = Screen()
    screen.write([screen.style("a", "red")])
    screen.print("b", style="bold")
    assert "\x1b[31ma\x1b[0m\n" in terminal.getvalue()
    assert "\x1b[1mb" in terminal.getvalue()


def test_terminal_without_colours_gets_no_escape_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    assert Screen().style("a", "red") == "a"


def test_a_file_gets_plain_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    screen = Screen()
    screen.write([screen.style("a", "red")])
    screen.print("b   ", "", "c", style="bold")
    assert capsys.readouterr().out == "a\nb\n\nc\n"


def test_screen_has_the_width_of_the_columns_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "91")
    assert Screen().width == 91


def test_arrows_and_lines_are_replaced_in_ascii_output(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", file)
    Screen().write(["→ a … ← ─"])
    file.seek(0)
    assert file.read() == "> a . < -\n"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, [""]),
        ("short", 5, ["short"]),
        ("two words", 5, ["two", "words"]),
        ("a b c d", 3, ["a b", "c d"]),
        ("demo/key/longer", 9, ["demo/key/", "longer"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("a abcdefgh", 3, ["a", "abc", "def", "gh"]),
        ("resolution 10", 10, ["resolution", "10"]),
        ("漢字漢字", 5, ["漢字", "漢字"]),
    ],
)
def test_text_is_wrapped_to_the_width(text: str, width: int, lines: list[str]) -> None:
    assert wrap_text(text, width) == lines


@pytest.mark.slow
@given(st.text("ab/ 漢"), st.integers(2, 12))
def test_wrapping_loses_nothing_and_never_gets_too_wide(text: str, width: int) -> None:
    lines = wrap_text(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [("short", 5, "short"), ("longer", 5, "long…"), ("漢字漢字", 4, "漢…"), ("ab", 1, "…"), ("ab", 0, "")],
)
def test_a_text_is_cut(text: str, width: int, cut: str) -> None:
    assert cut_text(text, width) == cut
