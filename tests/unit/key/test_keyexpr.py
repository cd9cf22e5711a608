"""Key expressions as values: which texts are valid, the errors of the others, and what can be made of one."""

import copy
import json
import pickle
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from zenspark.errors import UsageError
from zenspark.key import KeyExpr, SetIntersectionLevel, canonicalize

SPELLINGS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "vectors/keyexpr/canon.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling["input"] or "empty")
def test_recorded_key_expressions_are_validated_and_canonicalized(spelling: dict[str, str]) -> None:
    text = spelling["input"]
    if spelling["valid"]:
        assert str(KeyExpr(text)) == text
    else:
        with pytest.raises(UsageError):
            KeyExpr(text)
    if spelling["canonical"] is None:
        with pytest.raises(UsageError):
            KeyExpr.autocanonize(text)
    else:
        assert str(KeyExpr.autocanonize(text)) == spelling["canonical"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a$*$*b", "a$*b"),  # eclipse-zenoh 1.10.2 panics here
        ("$*$*$*/a$*$*", "*/a$*"),
        ("@a$*$*", "@a$*"),
        ("**/**/*/a/**/$*/**/*", "*/**/a/*/*/**"),
    ],
)
def test_canonicalize_returns_the_canonical_form(text: str, canonical: str) -> None:
    assert canonicalize(text) == canonical
    assert canonicalize(canonical) == canonical


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a//b", "key expression 'a//b', position 2: expected a chunk that is not empty"),
        ("", "key expression '', position 0: expected a chunk that is not empty"),
        (
            "/a/b",
            "key expression '/a/b', position 0: expected a chunk that is not empty "
            "(keys do not begin with /: did you mean 'a/b'?)",
        ),
        ("a/b/", "key expression 'a/b/', position 4: expected a chunk that is not empty"),
        ("ab/c*", "key expression 'ab/c*', position 4: expected `*` or `**` as a whole chunk, or `$*` inside one"),
        ("a/***", "key expression 'a/***', position 2: expected `*` or `**` as a whole chunk, or `$*` inside one"),
        ("a$*$b", "key expression 'a$*$b', position 3: expected `*` behind `$`"),
        (
            "a#b",
            "key expression 'a#b', position 1: expected no `#` (the wildcard for any chunks is `**`, not MQTT's `#`)",
        ),
        (
            "a/b?x=1",
            "key expression 'a/b?x=1', position 3: expected no `?` (parameters belong to a selector, not to a key)",
        ),
        ("a\udc80", r"key expression 'a\udc80', position 1: expected text that UTF-8 can encode"),
        ("a/**/**/b", "key expression 'a/**/**/b', position 5: expected the canonical form 'a/**/b'"),
        ("a/**/**", "key expression 'a/**/**', position 4: expected the canonical form 'a/**'"),
        ("x/$*", "key expression 'x/$*', position 2: expected the canonical form 'x/*'"),
    ],
)
def test_errors_name_position_and_expectation(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        KeyExpr(text)
    assert str(caught.value) == complaint


def test_very_long_key_expressions_are_accepted() -> None:
    text = "/".join(["chunk"] * 10_000)
    assert str(KeyExpr(text)) == text
    assert canonicalize(text + "/**" * 10_000 + "/*") == text + "/*/**"
    with pytest.raises(UsageError):
        KeyExpr(text + "/")


@pytest.mark.parametrize(
    ("a", "b", "level"),
    [
        ("a/*", "a/*", SetIntersectionLevel.EQUALS),
        ("a/**", "a/*", SetIntersectionLevel.INCLUDES),
        ("a/*", "a/**", SetIntersectionLevel.INTERSECTS),
        ("a/*", "b/*", SetIntersectionLevel.DISJOINT),
    ],
)
def test_relation_to_other_key_expressions(a: str, b: str, level: SetIntersectionLevel) -> None:
    for other in (b, KeyExpr(b)):
        assert KeyExpr(a).relation_to(other) is level
        assert KeyExpr(a).intersects(other) == (level >= SetIntersectionLevel.INTERSECTS)
        assert KeyExpr(a).includes(other) == (level >= SetIntersectionLevel.INCLUDES)


def test_relations_to_invalid_text_are_rejected() -> None:
    key = KeyExpr("a")
    for compare in (key.intersects, key.includes, key.relation_to):
        with pytest.raises(UsageError):
            compare("a//b")


@pytest.mark.parametrize(
    ("text", "prefix", "is_wild"),
    [
        ("x/*/y", "x", True),
        ("**/x", None, True),
        ("*", None, True),
        ("q/a", "q/a", False),
        ("a/b$*", "a", True),
        ("a/$*b/c", "a", True),
        ("a/@b$*/c", "a/@b$*/c", False),
        ("@b$*/c/**", "@b$*/c", True),
    ],
)
def test_prefix_ends_before_the_first_wildcard_chunk(text: str, prefix: str | None, is_wild: bool) -> None:
    assert KeyExpr(text).prefix == prefix
    assert KeyExpr(text).is_wild is is_wild


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [("a/b", "c", "a/b/c"), ("a/**", "**/b", "a/**/b"), ("a/**", "*", "a/*/**"), ("a", "$*", "a/*")],
)
def test_join_returns_the_canonical_key_expression(first: str, second: str, whole: str) -> None:
    assert KeyExpr(first).join(second) == whole
    assert KeyExpr(first) / second == whole


def test_join_with_a_key_expression() -> None:
    assert KeyExpr("a") / KeyExpr("**") / KeyExpr("*") == KeyExpr("a/*/**")


@pytest.mark.parametrize("second", ["", "/b", "b/", "b*"])
def test_join_must_give_a_key_expression(second: str) -> None:
    with pytest.raises(UsageError):
        KeyExpr("a").join(second)


@pytest.mark.parametrize(("first", "text", "whole"), [("a/b", "c", "a/bc"), ("a", "/b$*", "a/b$*"), ("a", "", "a")])
def test_concat_appends_the_text(first: str, text: str, whole: str) -> None:
    assert KeyExpr(first).concat(text) == whole


@pytest.mark.parametrize(("first", "text"), [("a/b", "*"), ("a/*", "*"), ("a/**", "/**"), ("a/*", "b"), ("a", "b/")])
def test_concat_must_give_a_key_expression(first: str, text: str) -> None:
    with pytest.raises(UsageError):
        KeyExpr(first).concat(text)


def test_key_expr_equals_its_text() -> None:
    key = KeyExpr("a/b")
    assert key == KeyExpr("a/b") == "a/b"
    assert key != KeyExpr("a/*")
    assert key != "a/*"
    assert key != 1
    assert {key: 1}["a/b"] == {"a/b": 1}[key] == 1  # type: ignore[index]


def test_str_and_repr_of_a_key_expr_have_its_text() -> None:
    assert str(KeyExpr("a/é")) == "a/é"
    assert repr(KeyExpr("a/*")) == "KeyExpr('a/*')"


def test_key_expr_is_immutable() -> None:
    key = KeyExpr("a")
    with pytest.raises(AttributeError, match="cannot set _text"):
        key._text = "b"
    with pytest.raises(AttributeError, match="cannot delete _text"):
        del key._text
    assert key == "a"


def test_key_expr_can_be_pickled_and_copied() -> None:
    key = KeyExpr("a/*")
    assert pickle.loads(pickle.dumps(key)) == key
    assert copy.deepcopy(key) == copy.copy(key) == key


def test_of_accepts_text_and_key_expr() -> None:
    key = KeyExpr("a")
    assert KeyExpr.of(key) is key
    assert KeyExpr.of("a") == key


class Topic(str, Enum):  # noqa: UP042 - str() of this kind gives the name of the member, and must not be what counts
    ALL = "a/**"


def test_subclasses_of_str_count_as_their_characters() -> None:
    key = KeyExpr(Topic.ALL)
    assert type(str(key)) is str
    assert str(key) == "a/**"
    assert key.intersects("a/b")


@pytest.mark.parametrize("other", [None, 1, b"a"])
@pytest.mark.parametrize(
    "use",
    [
        KeyExpr,
        KeyExpr.of,
        KeyExpr.autocanonize,
        KeyExpr("a").intersects,
        KeyExpr("a").includes,
        KeyExpr("a").relation_to,
        KeyExpr("a").join,
        KeyExpr("a").__truediv__,
        KeyExpr("a").concat,
    ],
)
def test_key_expr_of_another_type_is_a_type_error(use: Callable[[Any], object], other: object) -> None:
    with pytest.raises(TypeError, match=f"expected .*str.*, found '{type(other).__name__}'") as raised:
        use(other)
    assert "key expression" in str(raised.value)


def test_a_level_prints_its_name() -> None:
    assert str(SetIntersectionLevel.EQUALS) == repr(SetIntersectionLevel.EQUALS) == "SetIntersectionLevel.EQUALS"


def test_text_may_stand_before_a_key_expression() -> None:
    assert "a/**/**" / KeyExpr("b") == "a/**/b"
    with pytest.raises(TypeError):
        3 / KeyExpr("b")
