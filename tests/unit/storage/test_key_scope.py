from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.storage.made import recorded, row
from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.key.match import intersects
from zenspark.storage.key_scope import KeyScope, LiteralPrefix

KEYS = ["a/1", "b/1", "a/2", "@/x", "**", "a/1"]


def selected(scope: KeyScope, *options: object) -> list[tuple[str, int]]:
    keys, rows = scope.select_rows(recorded([row(key, b"", 1) for key in KEYS]), *options)  # type: ignore[arg-type]
    return list(zip(keys.to_pylist(), rows.column("offset").to_pylist(), strict=True))


def test_rows_of_matching_keys_and_wildcards_are_selected() -> None:
    assert selected(KeyScope(["a/*"])) == [("a/1", 0), ("a/2", 2), ("**", 4), ("a/1", 5)]
    assert selected(KeyScope(["**"])) == [("a/1", 0), ("b/1", 1), ("a/2", 2), ("**", 4), ("a/1", 5)]
    assert selected(KeyScope(["@/**"])) == [("@/x", 3)]


def test_only_rows_matching_the_query_are_selected() -> None:
    assert selected(KeyScope(["a/*"]), "a/1") == [("a/1", 0), ("**", 4), ("a/1", 5)]
    assert selected(KeyScope(["a/*"]), "b/1") == [("**", 4)]


def test_each_row_has_one_owner() -> None:
    scope = KeyScope(["*/1", "a/*"])
    assert selected(scope, None, 0) == [("a/1", 0), ("b/1", 1), ("**", 4), ("a/1", 5)]
    assert selected(scope, None, 1) == [("a/2", 2)]
    assert scope.owns(0, "a/1")
    assert not scope.owns(1, "a/1")
    assert scope.owns(1, "a/2")
    assert KeyScope(["a/*"]).owns(0, "a/1")


def test_plain_keys_match_double_wildcard() -> None:
    rows = recorded([row("a", b"", 1), row("b", b"", 1)])
    keys, found = KeyScope(["**"]).select_rows(rows)
    assert keys.to_pylist() == ["a", "b"]
    assert found is rows


def test_strip_prefix_is_added_to_table_names() -> None:
    scope = KeyScope(["old/a/*"], "old")
    assert selected(scope) == [("old/a/1", 0), ("old/a/2", 2), ("old/**", 4), ("old/a/1", 5)]
    assert scope.literal_prefix("old/a/1", 0) == LiteralPrefix("a/1", True)
    assert scope.literal_prefix("**", 0) == LiteralPrefix("a", False)
    assert KeyScope(["old/**"], "old").literal_prefix("**", 0) is None


def test_literal_prefix_of_query_and_scope() -> None:
    scope = KeyScope(["**", "a/**", "a/b/c"])
    assert scope.literal_prefix("a/b", 0) == LiteralPrefix("a/b", True)
    assert scope.literal_prefix("a/*/c", 0) == LiteralPrefix("a", False)
    assert scope.literal_prefix("*/c", 0) is None
    assert scope.literal_prefix("*/c", 1) == LiteralPrefix("a", False)
    assert scope.literal_prefix("a/b/**", 1) == LiteralPrefix("a/b", False)
    assert scope.literal_prefix("a/b/**", 2) == LiteralPrefix("a/b/c", True)


def test_invalid_keys_are_not_selected() -> None:
    names = pa.array(["", "/a", "a/", "a//b", "a#", "a$b", "a/b", "a/***", "a/**"])
    for query in ("**", "a/**", "a/*", "*/b"):
        assert names.filter(pa.array(KeyScope(["**"]).match(names, query))).to_pylist() == ["a/b", "a/**"]
    table = recorded([row("a", b"", 1), row("b", b"", 1)])
    nameless = table.set_column(0, "key", pa.array(["a", None]))
    keys, rows = KeyScope(["**"]).select_rows(nameless)
    assert (keys.to_pylist(), rows.num_rows) == (["a"], 1)


CHUNK = st.sampled_from(["a", "b", "ab", "*", "**", "a$*", "$*b", "@a", "é"])
KEY = st.lists(CHUNK, min_size=1, max_size=4).map("/".join).map(lambda text: str(KeyExpr.autocanonize(text)))


@pytest.mark.slow
@given(st.lists(KEY, min_size=1, max_size=8), KEY, st.lists(KEY, min_size=1, max_size=3, unique=True))
def test_names_match_as_key_expressions_do(names: list[str], query: str, key_exprs: list[str]) -> None:
    scope = KeyScope(key_exprs)
    for index in range(len(key_exprs)):
        expected = [
            intersects(query, name)
            and intersects(key_exprs[index], name)
            and not any(intersects(other, name) for other in key_exprs[:index])
            for name in names
        ]
        assert scope.match(pa.array(names), query, index).tolist() == expected


@pytest.mark.parametrize(("key", "prefix"), [("a/**", "b"), ("a/**", "a/**"), ("ab/**", "a"), ("a//b", None)])
def test_strip_prefix_that_does_not_fit_is_rejected(key: str, prefix: str | None) -> None:
    with pytest.raises(UsageError):
        KeyScope([key], prefix)
