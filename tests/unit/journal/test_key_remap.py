"""Selection and renaming of keys."""

from __future__ import annotations

import pytest

from tests.unit.journal.rows import batch, row
from zenspark.errors import UsageError
from zenspark.journal.key_remap import KeyRemap, RemapRule
from zenspark.key import KeyExpr


@pytest.mark.parametrize(
    ("rule", "key", "new"),
    [
        ("a=b", "a", "b"),
        ("a=b", "a/c", "b/c"),
        ("a=b", "ab", None),
        ("a/**=b/**", "a/c/d", "b/c/d"),
        ("a/b=c/d/e", "a/b/x", "c/d/e/x"),
        ("a=", "a/b", "b"),
        ("@x=y", "@x/z", "y/z"),
    ],
)
def test_remap_rule_replaces_the_key_prefix(rule: str, key: str, new: str | None) -> None:
    assert RemapRule.parse(rule).apply(key) == new


@pytest.mark.parametrize("text", ["a", "=b", "/**=b", "a/*=b", "a=b/*/c", "a//b=c", "a=b#"])
def test_invalid_rules_are_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        RemapRule.parse(text)


def test_first_matching_rule_and_prefix_are_applied() -> None:
    remapping = KeyRemap(rules=[RemapRule("a/b", "x"), RemapRule("a", "y")], prefix="p")
    assert [remapping.remap_key(key) for key in ("a/b/c", "a/c", "c")] == ["p/x/c", "p/y/c", "p/c"]
    assert KeyRemap(rules=[RemapRule("a", "")], prefix="p").remap_key("a") == "p"


def test_invalid_new_key_is_rejected() -> None:
    with pytest.raises(UsageError, match="the key 'a' would become ''"):
        KeyRemap(rules=[RemapRule("a", "")]).remap_key("a")


def test_rows_are_selected_and_renamed() -> None:
    rows = batch(*(row(number, key=key) for number, key in enumerate(["a/1", "b/1", "a/2", "a/1"])))
    assert KeyRemap().apply(rows) is rows
    found = KeyRemap([KeyExpr("a/**")], [RemapRule("a", "z")]).apply(rows)
    assert found.column("key").to_pylist() == ["z/1", "z/2", "z/1"]
    assert found.column("payload").to_pylist() == [b"0", b"2", b"3"]
    assert KeyRemap(prefix="p").apply(rows).column("key").to_pylist() == ["p/a/1", "p/b/1", "p/a/2", "p/a/1"]
