"""YAML: plain values, aliases that stay small, and the place of every mistake."""

from __future__ import annotations

import pytest

from zenspark.config.document_limits import MAX_NESTING_DEPTH, MAX_TEXT_CHARACTERS, DocumentError
from zenspark.config.yaml_parser import MAX_YAML_VALUES, parse


def test_yaml_scalars_lists_and_mappings_are_parsed() -> None:
    text = "a: [1, 2.5, true, null, x]\nb: {c: 'd'}\n"
    assert parse(text) == {"a": [1, 2.5, True, None, "x"], "b": {"c": "d"}}


def test_aliases() -> None:
    assert parse("a: &x [1, &y 2]\nb: *x\nc: *y\nd: {<<: {e: 1}, f: 2}\n") == {
        **{"a": [1, 2], "b": [1, 2], "c": 2},
        "d": {"e": 1, "f": 2},
    }


def billion_laughs(levels: int) -> str:
    lines = ["l0: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def test_yaml_aliases_that_expand_beyond_the_limit_are_rejected() -> None:
    assert parse(billion_laughs(4))
    with pytest.raises(DocumentError, match=f"more than {MAX_YAML_VALUES} values") as caught:
        parse(billion_laughs(30))
    assert caught.value.line == 6


def test_yaml_alias_inside_its_own_anchor_is_an_error() -> None:
    with pytest.raises(DocumentError, match="line 1, column 8: the alias x inside what it stands for"):
        parse("a: &x [*x]\n")


def test_nesting_has_a_limit() -> None:
    assert parse("[" * MAX_NESTING_DEPTH + "]" * MAX_NESTING_DEPTH)
    for text in ("[" * 100_000, "{a: " * 100_000, "".join(f"{' ' * n}a:\n" for n in range(500))):
        with pytest.raises(DocumentError, match=f"more than {MAX_NESTING_DEPTH} objects and lists inside each other"):
            parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: [\n", r"line 3, column 1: "),
        ("a: *nothing\n", r"line 1, column 4: .*undefined alias"),
        ("a: 1\na: 2\n", r"line 2, column 1: the name 'a' a second time"),
        ("1: 2\n", r"line 1, column 1: a name that is not a text"),
        ("[1]: 2\n", r"line 1, column 1: a name that is not a text"),
        ("a: !!python/object/apply:os.getcwd []\n", r"line 1, column 4: .*could not determine a constructor"),
        ("a: \x01\n", r"position 3|control characters are not allowed"),
        ("a: 1\n---\nb: 2\n", r"line 2, column 1: .*another document"),
        (" " * (MAX_TEXT_CHARACTERS + 1), "characters are more than"),
    ],
)
def test_invalid_yaml_is_rejected_with_its_position(text: str, problem: str) -> None:
    with pytest.raises(DocumentError, match=problem):
        parse(text)
