"""Key-expression join: finds the expressions that include each key, as a distributed Spark join.

A cross join compares every key with every expression. Here both sides are distributed into buckets by prefix. Keys and
expressions of one bucket are processed by one task, which inserts the expressions into a trie and looks up each key:

* An expression is in the bucket of its literal prefix: the chunks before its first wildcard. A literal chunk matches
  only itself, so every key it includes begins with the same chunks.
* A key is in the buckets of all its prefixes, including the empty one.
* To distribute the keys of one prefix over several tasks, keys are also divided by a hash, the salt,
  and every salt of a bucket gets all its expressions.

The number of buckets follows from the number of expressions: a bucket should fit into the memory of a task, and fewer
buckets send each key to fewer tasks. Up to `MAX_BUCKET_EXPRESSIONS` expressions there is one bucket.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from zenspark.errors import UsageError
from zenspark.key import KeyExpr, canonicalize
from zenspark.key.tree import KeyTree

MAX_BUCKET_EXPRESSIONS = 50_000
"""Target maximum of expressions per bucket: their trie takes about ten megabytes."""
KEY_COLUMN, EXPRESSION_COLUMN, BUCKET_COLUMN, SALT_COLUMN = (
    "zenoh_key",
    "zenoh_expression",
    "zenoh_bucket",
    "zenoh_salt",
)
CANONICAL_COLUMN, PREFIX_COLUMN = "zenoh_canonical", "zenoh_prefix"
PAIRS_SCHEMA = f"{KEY_COLUMN} string, {EXPRESSION_COLUMN} string"


def match_keys(
    df: DataFrame, expressions_df: DataFrame, key: str = "key", expression: str = "keyexpr", buckets: int | None = None
) -> DataFrame:
    """Join rows with the rows of key expressions that include their key, as `zenoh_key_match` does.

    For streams, call it inside `foreachBatch`.

    Args:
        df: Rows with a column of keys.
        expressions_df: Rows with a column of key expressions.
        key: Name of the column of keys.
        expression: Name of the column of key expressions.
        buckets: Number of buckets into which both sides are distributed; by default the expressions are counted for it,
            which runs a Spark job.

    Returns:
        The columns of both, one row for each pair that matches.

    Raises:
        UsageError: A side is a stream or lacks its column, or both have a column of one name.

    Example:
        >>> matches = match_keys(samples.select("key"), rules)
    """
    _check(df, key)
    _check(expressions_df, expression)
    duplicates = sorted(set(df.columns) & set(expressions_df.columns))
    if duplicates:
        raise UsageError(f"both sides have a column {duplicates[0]!r}: rename one of them")
    keys = df.select(F.col(key).alias(KEY_COLUMN)).where(F.col(KEY_COLUMN).isNotNull()).distinct()
    expressions = expressions_df.select(F.col(expression).alias(EXPRESSION_COLUMN)).where(
        F.col(EXPRESSION_COLUMN).isNotNull()
    )
    pairs = match_pairs(keys, expressions.distinct(), buckets).toDF(key, expression)
    # joined by name: if both sides come from one table, column references would be ambiguous
    return df.join(pairs, key).join(expressions_df, expression).select(*df.columns, *expressions_df.columns)


def _check(df: DataFrame, column: str) -> None:
    if df.isStreaming:
        raise UsageError("match_keys joins tables: call it inside foreachBatch of a stream")
    if column not in df.columns:
        raise UsageError(f"there is no column {column!r}; there are {', '.join(df.columns)}")


def match_pairs(keys: DataFrame, expressions: DataFrame, buckets: int | None = None) -> DataFrame:
    """Return the pairs of distinct keys and distinct expressions that include them."""
    spark = keys.sparkSession
    salts = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    if buckets is None:
        buckets = 1 + expressions.count() // MAX_BUCKET_EXPRESSIONS
    left = keys.select(
        KEY_COLUMN,
        F.explode(_buckets(buckets)).alias(BUCKET_COLUMN),
        F.pmod(F.hash(KEY_COLUMN), F.lit(salts)).alias(SALT_COLUMN),
    )
    with_prefix = expressions.mapInArrow(
        _add_prefix, f"{EXPRESSION_COLUMN} string, {CANONICAL_COLUMN} string, {PREFIX_COLUMN} string"
    )
    right = with_prefix.select(
        EXPRESSION_COLUMN,
        CANONICAL_COLUMN,
        _bucket(F.col(PREFIX_COLUMN), buckets).alias(BUCKET_COLUMN),
        F.explode(F.sequence(F.lit(0), F.lit(salts - 1))).alias(SALT_COLUMN),
    )
    return (
        left.groupBy(SALT_COLUMN, BUCKET_COLUMN)
        .cogroup(right.groupBy(SALT_COLUMN, BUCKET_COLUMN))
        .applyInArrow(_match_bucket, PAIRS_SCHEMA)
    )


def _bucket(prefix: Column, buckets: int) -> Column:
    return F.lit(0) if buckets == 1 else F.pmod(F.hash(prefix), F.lit(buckets))


def _buckets(buckets: int) -> Column:
    """Return the buckets of all prefixes of a key."""
    chunks = F.split(KEY_COLUMN, "/")
    depths = F.sequence(F.lit(0), F.size(chunks))
    prefixes = F.transform(depths, lambda depth: F.array_join(F.slice(chunks, F.lit(1), depth), "/"))
    return F.array_distinct(F.transform(prefixes, lambda prefix: _bucket(prefix, buckets)))


def _add_prefix(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the canonical form and the literal prefix to expressions; runs as a Spark task."""
    for batch in batches:
        canonical = [KeyExpr.autocanonize(text) for text in batch.column(0).to_pylist()]
        texts = pa.array([str(key_expr) for key_expr in canonical], pa.string())
        prefixes = pa.array([str(key_expr.prefix or "") for key_expr in canonical], pa.string())
        yield pa.RecordBatch.from_arrays(
            [batch.column(0), texts, prefixes], [EXPRESSION_COLUMN, CANONICAL_COLUMN, PREFIX_COLUMN]
        )


def _match_bucket(keys: pa.Table, expressions: pa.Table) -> pa.Table:
    """Match the keys and expressions of one salt of a bucket; runs as a Spark task."""
    tree: KeyTree[list[str]] = KeyTree()
    for original, text in zip(
        *(expressions[name].to_pylist() for name in (EXPRESSION_COLUMN, CANONICAL_COLUMN)), strict=True
    ):
        entry = tree.get(text)
        if entry is None:
            tree.insert(text, [original])
        else:
            entry.append(original)
    pairs: tuple[list[str], list[str]] = ([], [])
    for key in keys[KEY_COLUMN].to_pylist() if len(tree) else ():
        for _, originals in tree.including(canonicalize(key)):
            for original in originals:
                pairs[0].append(key)
                pairs[1].append(original)
    return pa.table({KEY_COLUMN: pa.array(pairs[0], pa.string()), EXPRESSION_COLUMN: pa.array(pairs[1], pa.string())})
