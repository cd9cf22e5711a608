"""JSON5: what is read, what is refused and where; as another parser does, in steps that grow with the text."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from types import FrameType

import json5
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zenspark.config import json5_parser
from zenspark.config.document_limits import MAX_NESTING_DEPTH, DocumentError
from zenspark.config.json5_parser import parse
from zenspark.config.schema import Json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        (" true // yes", True),
        ("/* a */ false /* b\n */", False),
        ("\ufeff\u00a0{\u2028}", {}),
        ("[1, 2,]", [1, 2]),
        ("{a: 1, 'b': 2, \"c\": 3,}", {"a": 1, "b": 2, "c": 3}),
        (
            "{$: 1, _: 2, é: 3, if: 4, true: 5, a\u200c: 6, \\u0062: 7}",
            {"$": 1, "_": 2, "é": 3, "if": 4, "true": 5, "a\u200c": 6, "b": 7},
        ),
        ("0x10", 16),
        ("-0xfF", -255),
        ("+1", 1),
        (".5", 0.5),
        ("5.", 5.0),
        ("1.e5", 1e5),
        ("-1.5e-3", -0.0015),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1//b\r", 1),
        (r"'\x41é\v\0\q\'\"'", "Aé\v\0q'\""),
        (r'"😀"', "😀"),
        ("'a\\\nb\\\r\nc\\\rd\\\u2028e'", "abcde"),
        ("'a\tb\u2028'", "a\tb\u2028"),
    ],
)
def test_json5_texts_are_parsed(text: str, value: Json) -> None:
    assert parse(text) == value


def test_not_a_number() -> None:
    assert math.isnan(parse("[NaN]")[0])


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "1, column 1", "expected a value, found the end"),
        ("  // c", "1, column 7", "expected a value, found the end"),
        ("{a:\n\n @}", "3, column 2", "expected a value, found '@'"),
        ("[", "1, column 2", "expected a value, found the end"),
        ("[,]", "1, column 2", "expected a value, found ','"),
        ("[1,,2]", "1, column 4", "expected a value, found ','"),
        ("[1 2]", "1, column 4", "expected a comma or ], found '2'"),
        ("{,}", "1, column 2", "expected a name, found ','"),
        ("{1a:1}", "1, column 2", "expected a name, found '1'"),
        ("{a 1}", "1, column 4", "expected a colon, found '1'"),
        ("{a:1 b:2}", "1, column 6", "expected a comma or }, found 'b'"),
        ("{a:1, 'a':2}", "1, column 7", "the name 'a' a second time"),
        ("{}{}", "1, column 3", "expected the end, found '{'"),
        ("tru", "1, column 1", "expected a value, found 't'"),
        ("truex", "1, column 1", "expected a value, found 't'"),
        ("- 1", "1, column 1", "expected a value, found '-'"),
        ("01", "1, column 1", "expected a value, found '0'"),
        ("0x", "1, column 1", "expected a value, found '0'"),
        ("1e", "1, column 1", "expected a value, found '1'"),
        ("1.2.3", "1, column 1", "expected a value, found '1'"),
        ("1e400", "1, column 1", "a number that is too large"),
        ("1" * 401, "1, column 1", "a number of more than 400 characters"),
        ("/* x", "1, column 1", "expected a value, found '/'"),
        ("'a\nb'", "1, column 3", "expected the end of a string, ', found '\\n'"),
        ("'a", "1, column 3", "expected the end of a string, ', found the end"),
        ("'\\", "1, column 3", "expected an escape sequence, found the end"),
        (r"'\1'", "1, column 3", "expected an escape sequence, found '1'"),
        (r"'\01'", "1, column 3", "expected an escape sequence, found '0'"),
        (r"'\x4'", "1, column 4", "expected 2 hexadecimal digits, found '4'"),
        (r"'\u{41}'", "1, column 4", "expected 4 hexadecimal digits, found '{'"),
        (r"'\ud800'", "1, column 2", "half of a surrogate pair"),
        (r"'\udc00'", "1, column 2", "half of a surrogate pair"),
        (r"'\ud800A'", "1, column 2", "half of a surrogate pair"),
    ],
)
def test_json5_errors_have_line_and_column(text: str, place: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(text)
    assert str(caught.value) == f"line {place}: {problem}"


def test_nesting_has_a_limit() -> None:
    assert parse("[" * MAX_NESTING_DEPTH + "]" * MAX_NESTING_DEPTH)
    for text in ("[" * 100_000, "{a:" * 100_000, "[{a:" * 100_000):
        with pytest.raises(DocumentError, match=f"more than {MAX_NESTING_DEPTH} objects and lists inside each other"):
            parse(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(VALUES)
def test_json_is_json5(value: Json) -> None:
    assert parse(json.dumps(value)) == value
    assert parse(json.dumps(value, ensure_ascii=False, indent=2)) == value


TEXT_FRAGMENTS = [
    *"{}[],:'\"0123.-+eExX\\/* \n$_abtrueéNI",
    "//",
    "/*",
    "*/",
    "null",
    "true",
    "\\u00",
    "Infinity",
    "{a:",
    "'b':1,",
    "[1,",
]


def outcome(read: Callable[[str], Json], text: str) -> str:
    try:
        return repr(read(text))
    except ValueError:
        return "refused"


@pytest.mark.slow
@given(st.lists(st.sampled_from(TEXT_FRAGMENTS), max_size=12).map("".join))
def test_the_same_as_by_another_parser(text: str) -> None:
    theirs = outcome(lambda text: json5.loads(text, allow_duplicate_keys=False), text)
    assume("inf" not in theirs)  # of a number that is too large, which is refused here
    assert outcome(parse, text) == theirs


def calls(text: str) -> int:
    """How many functions of the parser are called to read a text."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename == json5_parser.__file__

    sys.setprofile(note)
    try:
        parse(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("item", ["k%d: [1, 2.5, 'text'], // text\n", "k%d: {a: {b: null}},\n\n", '"k%d": "\\u0041",'])
def test_steps_grow_with_the_text(item: str) -> None:
    once, twice = ("{" + "".join(item % number for number in range(size)) + "}" for size in (5_000, 10_000))
    assert 5_000 < calls(once) < calls(twice) <= 2 * calls(once)
    assert len(parse(twice)) == 10_000


def test_comments_and_strings_are_read_in_one_step() -> None:
    assert calls("/*" + "*" * 100_000 + "*/ 1") == calls("1")
    assert calls(f"'{'a' * 100_000}'") == calls("'a'")
