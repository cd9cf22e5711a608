"""The key-expression join: which expressions take which keys, as a join that Spark spreads over its tasks.

A cross join compares every key with every expression. Here both sides go into buckets by prefix, and what shares a
bucket meets in one task, where the expressions stand in a tree and each key is looked up once:

* An expression goes into the bucket of its prefix: the chunks before its first wildcard. A literal chunk takes only
  itself, so a key that it takes begins with the same chunks.
* A key goes into the buckets of all its prefixes, the empty one among them.
* So that the keys of one prefix are not the work of one task, keys are also divided into shares, by hash, and every
  share of a bucket gets all its expressions.

How many buckets there are follows from how many expressions there are: a bucket should fit a task's memory, and fewer
buckets send each key to fewer places. Up to `BUCKET` expressions that is one, and each key is sent once.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from zenspark.errors import UsageError
from zenspark.key import KeyExpr, canonise
from zenspark.key.tree import KeyTree

BUCKET = 50_000
"""How many expressions a bucket should have at most: their tree takes some ten megabytes."""
KEY, EXPRESSION, BUCKETS, SHARE = "zenoh_key", "zenoh_expression", "zenoh_bucket", "zenoh_share"
CANONICAL, PREFIX = "zenoh_canonical", "zenoh_prefix"
PAIRS = f"{KEY} string, {EXPRESSION} string"


def match_keys(
    df: DataFrame, expressions_df: DataFrame, key: str = "key", expression: str = "keyexpr", buckets: int | None = None
) -> DataFrame:
    """Rows of `df` joined with the rows of `expressions_df` whose expression takes their key.

    The result has the columns of both and the rows for which `zenoh_key_match(key, expression)` holds. Without
    `buckets` the expressions are counted, which runs a Spark job. For streams: call it inside `foreachBatch`.
    """
    _check(df, key)
    _check(expressions_df, expression)
    twice = sorted(set(df.columns) & set(expressions_df.columns))
    if twice:
        raise UsageError(f"both sides have a column {twice[0]!r}: rename one of them")
    keys = df.select(F.col(key).alias(KEY)).where(F.col(KEY).isNotNull()).distinct()
    expressions = expressions_df.select(F.col(expression).alias(EXPRESSION)).where(F.col(EXPRESSION).isNotNull())
    pairs = matches(keys, expressions.distinct(), buckets).toDF(key, expression)
    # by name: both sides may come from one table, and then a column cannot tell which of the two it is of
    return df.join(pairs, key).join(expressions_df, expression).select(*df.columns, *expressions_df.columns)


def _check(df: DataFrame, column: str) -> None:
    if df.isStreaming:
        raise UsageError("match_keys joins tables: call it inside foreachBatch of a stream")
    if column not in df.columns:
        raise UsageError(f"there is no column {column!r}; there are {', '.join(df.columns)}")


def matches(keys: DataFrame, expressions: DataFrame, buckets: int | None = None) -> DataFrame:
    """Which of the distinct expressions take which of the distinct keys, as pairs."""
    spark = keys.sparkSession
    shares = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    if buckets is None:
        buckets = 1 + expressions.count() // BUCKET
    left = keys.select(
        KEY, F.explode(_buckets(buckets)).alias(BUCKETS), F.pmod(F.hash(KEY), F.lit(shares)).alias(SHARE)
    )
    placed = expressions.mapInArrow(_placed, f"{EXPRESSION} string, {CANONICAL} string, {PREFIX} string")
    right = placed.select(
        EXPRESSION,
        CANONICAL,
        _bucket(F.col(PREFIX), buckets).alias(BUCKETS),
        F.explode(F.sequence(F.lit(0), F.lit(shares - 1))).alias(SHARE),
    )
    return left.groupBy(SHARE, BUCKETS).cogroup(right.groupBy(SHARE, BUCKETS)).applyInArrow(_matched, PAIRS)


def _bucket(prefix: Column, buckets: int) -> Column:
    return F.lit(0) if buckets == 1 else F.pmod(F.hash(prefix), F.lit(buckets))


def _buckets(buckets: int) -> Column:
    """The buckets of all prefixes of a key."""
    chunks = F.split(KEY, "/")
    depths = F.sequence(F.lit(0), F.size(chunks))
    prefixes = F.transform(depths, lambda depth: F.array_join(F.slice(chunks, F.lit(1), depth), "/"))
    return F.array_distinct(F.transform(prefixes, lambda prefix: _bucket(prefix, buckets)))


def _placed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Expressions with their canonical form and the chunks before their first wildcard."""
    for batch in batches:
        canonical = [KeyExpr.autocanonize(text) for text in batch.column(0).to_pylist()]
        texts = pa.array([str(each) for each in canonical], pa.string())
        prefixes = pa.array([str(each.prefix or "") for each in canonical], pa.string())
        yield pa.RecordBatch.from_arrays([batch.column(0), texts, prefixes], [EXPRESSION, CANONICAL, PREFIX])


def _matched(keys: pa.Table, expressions: pa.Table) -> pa.Table:
    """The pairs of one share of a bucket."""
    tree: KeyTree[list[str]] = KeyTree()
    for spelling, text in zip(*(expressions[name].to_pylist() for name in (EXPRESSION, CANONICAL)), strict=True):
        known = tree.get(text)
        if known is None:
            tree.insert(text, [spelling])
        else:
            known.append(spelling)
    found: tuple[list[str], list[str]] = ([], [])
    for key in keys[KEY].to_pylist() if len(tree) else ():
        for _, spellings in tree.including(canonise(key)):
            for spelling in spellings:
                found[0].append(key)
                found[1].append(spelling)
    return pa.table({KEY: pa.array(found[0], pa.string()), EXPRESSION: pa.array(found[1], pa.string())})
