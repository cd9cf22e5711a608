"""Matching against enumerated sets of keys, against the recorded facts, and on inputs that hurt a naive matcher."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.steps import interpreted, steps
from zenspark.key.match import includes, intersects

FACTS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "vectors/keyexpr/relations.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact['a']} ~ {fact['b']}")
def test_recorded_relations_of_key_expressions_are_reproduced(fact: dict[str, Any]) -> None:
    a, b = fact["a"], fact["b"]
    assert intersects(a, b) == intersects(b, a) == fact["intersects"]
    assert includes(a, b) == fact["a_includes_b"]
    assert includes(b, a) == fact["b_includes_a"]


# --- brute force: an expression is the set of all keys, out of a small world, that a regular expression finds -------


def regex_of(expression: str) -> re.Pattern[str]:
    """Translates chunk by chunk; every chunk is written with a slash before it."""
    return re.compile("".join(map(regex_of_chunk, expression.split("/"))))


def regex_of_chunk(chunk: str) -> str:
    if chunk.startswith("@"):
        return "/" + re.escape(chunk)
    if chunk == "**":
        return "(?:/[^/@][^/]*)*"
    if chunk == "*":
        return "/[^/@][^/]*"
    return "/(?!@)" + "[^/]*".join(map(re.escape, chunk.split("$*")))


def matched(expression: str, world: list[str]) -> int:
    """The keys it matches, one bit for each key of the world."""
    pattern = regex_of(expression)
    return sum(1 << bit for bit, key in enumerate(world) if pattern.fullmatch("/" + key))


def assert_like_sets(expressions: list[str], world: list[str]) -> None:
    keys = {expression: matched(expression, world) for expression in expressions}
    for a, b in itertools.product(expressions, repeat=2):
        assert intersects(a, b) == bool(keys[a] & keys[b]), (a, b)
        is_subset = keys[a] | keys[b] == keys[a]
        if "**" in b:  # inclusion is allowed to miss some of these, see the docstring of includes
            assert is_subset or not includes(a, b), (a, b)
        else:
            assert includes(a, b) == is_subset, (a, b)


def test_chunks_match_like_enumerated_sets() -> None:
    chunks = ["a", "*", "**", "a$*", "$*b", "@a"]
    expressions = [
        "/".join(parts)
        for size in (1, 2, 3)
        for parts in itertools.product(chunks, repeat=size)
        if not re.search(r"\*\*/\*", "/".join(parts))
    ]
    # "c" fits no expression but by a wildcard, and two expressions of three chunks share a key of four if any.
    world = [
        "/".join(key) for size in (1, 2, 3, 4) for key in itertools.product(["a", "b", "ab", "c", "@a"], repeat=size)
    ]
    assert_like_sets(expressions, world)


def test_characters_match_like_enumerated_sets() -> None:
    words = ["".join(parts) for size in (1, 2, 3, 4) for parts in itertools.product(["a", "é", "$*"], repeat=size)]
    expressions = [word for word in words if "$*$*" not in word and word != "$*"]
    world = ["".join(key) for size in range(1, 7) for key in itertools.product("aéc", repeat=size)]
    assert_like_sets(expressions, world)


# --- particular cases -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a/**", "a"),
        ("**/a/**/b", "a/**/b/**"),
        ("a/**/@x/**/b", "**/c/@x/d/**"),
        ("**/@x/**", "a/@x"),
        ("a/**/c$*/**/d", "**/$*c/d"),
        ("$*a$*", "b$*"),
        ("a\0b/*", "a\0b/c"),
        ("größe/$*ß", "größe/maß"),
    ],
)
def test_intersecting_expressions(a: str, b: str) -> None:
    assert intersects(a, b)
    assert intersects(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a/**/@x/**", "a/**/@y/**"),
        ("a/**/@x/**", "a/**"),
        ("**/@x/b", "**/@x/@x/b"),
        ("**/b/@x/**", "**/c/@x/**"),
        ("a/**/b", "**/c"),
        ("a/b/**", "a"),
        ("a$*/*", "b$*/*"),
        ("*/a$*b", "*/$*c"),
        ("ä$*", "ö$*"),
    ],
)
def test_disjoint_expressions(a: str, b: str) -> None:
    assert not intersects(a, b)
    assert not intersects(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("/".join(["**/a"] * 500) + "/b", "/".join(["a"] * 1000)),
        ("/".join(["**/a/b"] * 200) + "/c", "/".join(["a/b"] * 400)),
        ("/".join(["**/a"] * 500) + "/b", "/".join(["**/a"] * 499) + "/c"),
        ("$*a" * 500 + "b", "a" * 1000),
        ("$*ab" * 200 + "c", "ab" * 400),
        ("x$*a" * 200 + "/**/y", "x$*a" * 199 + "$*b/**/y"),
    ],
    ids=["chunks", "pairs of chunks", "both with stars", "characters", "pairs of characters", "both with dollars"],
)
def test_many_stars_take_no_exponential_time(a: str, b: str) -> None:
    assert not intersects(a, b)
    assert not intersects(b, a)
    assert not includes(a, b)
    assert not includes(b, a)


def test_very_long_key_expressions_are_matched() -> None:
    key = "/".join(["chunk"] * 10_000)
    assert intersects("**/chunk", key)
    assert includes(key.replace("chunk", "*"), key)
    assert not includes(key + "/**/x", key)


@pytest.mark.parametrize(
    "text", ["", "/", "//", "**/", "/**", "*/$", "$/*", "a$b/**", "**a/b**/c", "*/x$y", "@/**/", "$*b*"]
)
def test_matching_an_invalid_key_expression_does_not_raise(text: str) -> None:
    for other in (
        "a",
        "*",
        "**",
        "**/a",
        "a/**",
        "$*a/**",
        "**/$*y",
        "@/**",
        "x$*/**",
        "**/b**/c",
        "a/**/",
        text + "/**",
    ):
        assert intersects(text, other) in (True, False)
        assert includes(text, other) in (True, False)
        assert includes(other, text) in (True, False)


def test_text_that_cannot_be_sent_is_rejected() -> None:
    with pytest.raises(UnicodeEncodeError):
        intersects("a/\ud800", "a/*")


# --- costs ----------------------------------------------------------------------------------------------------------

LONG = 2_000


@pytest.mark.parametrize(
    ("glob", "chunk", "is_so"),
    [
        ("$*" + "a" * LONG + "b", "a" * 2 * LONG, False),
        ("$*" + "a" * LONG + "b$*", "a" * 2 * LONG, False),
        ("$*b" + "a" * LONG + "$*", "a" * 2 * LONG, False),
        ("$*" + "ab" * (LONG // 2) + "c$*", "ab" * LONG, False),
        ("$*" + "a" * LONG + "b" + "a" * LONG + "$*", "a" * 2 * LONG, False),
        ("$*" + "aab" * (LONG // 3) + "$*b$*", "aabaa" * (LONG // 3), False),
        ("$*" + "a" * LONG + "$*b", "a" * 2 * LONG + "b", True),
        ("$*a" * 10 + "$*" + "a" * LONG + "c$*", "a" * 2 * LONG, False),
        ("$*a$*" * 10, "a" * LONG, True),
    ],
)
def test_a_chunk_is_matched_in_linear_time(glob: str, chunk: str, is_so: bool) -> None:
    match = interpreted("zenspark.key.match")
    assert match.intersects(glob, chunk) == intersects(glob, chunk) == is_so
    assert steps(lambda: match.intersects(glob, chunk)) < 30 * (len(glob) + len(chunk))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_text_between_two_dollars_is_found_wherever_it_is(size: int) -> None:
    texts = ["".join(letters) for length in range(1, 9) for letters in itertools.product("ab", repeat=length)]
    for piece in ["".join(letters) for letters in itertools.product("ab", repeat=2 * size)]:
        for text in texts:
            assert intersects(f"$*{piece}$*", text) == (piece in text), (piece, text)


def test_texts_between_dollars_do_not_overlap() -> None:
    texts = ["".join(letters) for length in range(1, 7) for letters in itertools.product("ab", repeat=length)]
    pieces = ["".join(letters) for length in (1, 2, 3) for letters in itertools.product("ab", repeat=length)]
    for one, other in itertools.product(pieces, repeat=2):
        for text in texts:
            wanted = re.search(f"{one}.*{other}", text) is not None
            assert intersects(f"$*{one}$*{other}$*", text) == wanted, (one, other, text)
            assert includes(f"$*{one}$*{other}$*", text) == wanted, (one, other, text)
