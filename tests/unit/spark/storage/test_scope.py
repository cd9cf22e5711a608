from __future__ import annotations

import pytest

from tests.unit.spark.storage.made import recorded, row
from zenspark.errors import UsageError
from zenspark.spark.storage.scope import Scope

KEYS = ["a/1", "b/1", "a/2", "@/x", "**", "a/1"]


def selected(scope: Scope, *options: object) -> list[tuple[str, int]]:
    keys, rows = scope.select(recorded([row(key, b"", 1) for key in KEYS]), *options)  # type: ignore[arg-type]
    return list(zip(keys.to_pylist(), rows.column("offset").to_pylist(), strict=True))


def test_rows_of_matching_keys_and_of_wildcards_that_reach_them() -> None:
    assert selected(Scope(["a/*"])) == [("a/1", 0), ("a/2", 2), ("**", 4), ("a/1", 5)]
    assert selected(Scope(["**"])) == [("a/1", 0), ("b/1", 1), ("a/2", 2), ("**", 4), ("a/1", 5)]
    assert selected(Scope(["@/**"])) == [("@/x", 3)]


def test_only_what_is_asked_for() -> None:
    assert selected(Scope(["a/*"]), "a/1") == [("a/1", 0), ("**", 4), ("a/1", 5)]
    assert selected(Scope(["a/*"]), "b/1") == [("**", 4)]


def test_each_row_has_one_owner() -> None:
    scope = Scope(["*/1", "a/*"])
    assert selected(scope, None, 0) == [("a/1", 0), ("b/1", 1), ("**", 4), ("a/1", 5)]
    assert selected(scope, None, 1) == [("a/2", 2)]
    assert scope.owns(0, "a/1")
    assert not scope.owns(1, "a/1")
    assert scope.owns(1, "a/2")
    assert Scope(["a/*"]).owns(0, "a/1")


def test_keys_without_anything_special_all_match_everything() -> None:
    rows = recorded([row("a", b"", 1), row("b", b"", 1)])
    keys, found = Scope(["**"]).select(rows)
    assert keys.to_pylist() == ["a", "b"]
    assert found is rows


def test_a_prefix_is_put_before_the_keys_of_the_tables() -> None:
    scope = Scope(["old/a/*"], "old")
    assert selected(scope) == [("old/a/1", 0), ("old/a/2", 2), ("old/**", 4), ("old/a/1", 5)]
    assert scope.literal_prefix("old/a/*") == "a"
    assert scope.literal_prefix("old/**") is None
    assert scope.literal_prefix("**") is None


def test_what_keys_start_with() -> None:
    scope = Scope(["**"])
    assert scope.literal_prefix("a/b") == "a/b"
    assert scope.literal_prefix("a/*/c") == "a"
    assert scope.literal_prefix("*/c") is None


@pytest.mark.parametrize(("key", "prefix"), [("a/**", "b"), ("a/**", "a/**"), ("ab/**", "a"), ("a//b", None)])
def test_what_does_not_fit_is_refused(key: str, prefix: str | None) -> None:
    with pytest.raises(UsageError):
        Scope([key], prefix)
