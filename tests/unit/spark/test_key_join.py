"""The parts that run in tasks; the join itself needs Spark and is in tests/spark."""

from __future__ import annotations

import pyarrow as pa

from zenspark.spark.key_join import (
    CANONICAL_COLUMN,
    EXPRESSION_COLUMN,
    KEY_COLUMN,
    PREFIX_COLUMN,
    _add_prefix,
    _match_bucket,
)


def test_prefix_of_a_key_expression_ends_before_its_first_wildcard_chunk() -> None:
    texts = ["a/b/*/c", "a/b", "**/x", "a/b$*/c", "@v$*/x/**", "a/**/**"]
    (placed,) = _add_prefix(iter([pa.record_batch({EXPRESSION_COLUMN: pa.array(texts)})]))
    assert placed.column(PREFIX_COLUMN).to_pylist() == ["a/b", "a/b", "", "a", "@v$*/x", "a"]
    assert placed.column(CANONICAL_COLUMN).to_pylist() == ["a/b/*/c", "a/b", "**/x", "a/b$*/c", "@v$*/x/**", "a/**"]


def test_keys_and_expressions_of_a_bucket_are_matched_exactly() -> None:
    keys = pa.table({KEY_COLUMN: ["a/b", "a/c", "b"]})
    expressions = pa.table(
        {EXPRESSION_COLUMN: ["a/*", "a/**/**", "a/**", "c"], CANONICAL_COLUMN: ["a/*", "a/**", "a/**", "c"]}
    )
    found = _match_bucket(keys, expressions)
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [
        ("a/b", "a/*"),
        ("a/b", "a/**"),
        ("a/b", "a/**/**"),
        ("a/c", "a/*"),
        ("a/c", "a/**"),
        ("a/c", "a/**/**"),
    ]


def test_bucket_without_keys_or_expressions_has_no_matches() -> None:
    keys, none = (
        pa.table({KEY_COLUMN: ["a"]}),
        pa.table({EXPRESSION_COLUMN: pa.array([], pa.string()), CANONICAL_COLUMN: pa.array([], pa.string())}),
    )
    assert _match_bucket(keys, none).num_rows == 0
    assert _match_bucket(keys[:0], none).num_rows == 0
