"""SQL functions on keys, payloads and clock readings, as Arrow UDFs: one call registers them all.

    from zenspark.spark.functions import register
    register(spark)
    spark.sql("select key from samples where zenoh_key_match(key, 'fleet/*/pose')")

They are columns in Python too: `df.where(zenoh_key_match("key", lit("fleet/*/pose")))`. A null gives a null. A key
expression need not be canonical; one that does not parse in any spelling is an error that names it, and a null in those
whose names begin with `try_`.

What is done row by row in Python is done once for each pair of values that occurs in an Arrow batch: keys repeat, and
an expression is mostly the same in all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # it is there, but not in its types
from pyspark.sql.types import BooleanType, StringType, TimestampType

from zenspark.arrow import UTC
from zenspark.arrow.decode import microseconds
from zenspark.errors import UsageError
from zenspark.key import canonise
from zenspark.key.match import includes, intersects
from zenspark.spark.payloads import decoded

CANONICAL_CACHE_SIZE = 100_000
"""Expressions come back in every batch; the size bounds what ever new keys may take."""

_canonical = lru_cache(maxsize=CANONICAL_CACHE_SIZE)(canonise)


@lru_cache(maxsize=CANONICAL_CACHE_SIZE)
def _try_canonical(text: str) -> str | None:
    try:
        return canonise(text)
    except UsageError:
        return None


@arrow_udf(BooleanType())
def zenoh_intersects(a: pa.Array, b: pa.Array) -> pa.Array:
    """Whether some key matches both expressions."""
    return related(a, b, intersects)


@arrow_udf(BooleanType())
def zenoh_includes(a: pa.Array, b: pa.Array) -> pa.Array:
    """Whether every key that matches `b` also matches `a`."""
    return related(a, b, includes)


@arrow_udf(BooleanType())
def zenoh_key_match(key: pa.Array, keyexpr: pa.Array) -> pa.Array:
    """Whether the expression takes this key; all keys of it, if it has wildcards itself, as that of a DELETE may."""
    return related(keyexpr, key, includes)


@arrow_udf(BooleanType())
def try_zenoh_intersects(a: pa.Array, b: pa.Array) -> pa.Array:
    """As `zenoh_intersects`; null where one of them is no key expression."""
    return related(a, b, intersects, _try_canonical)


@arrow_udf(BooleanType())
def try_zenoh_includes(a: pa.Array, b: pa.Array) -> pa.Array:
    """As `zenoh_includes`; null where one of them is no key expression."""
    return related(a, b, includes, _try_canonical)


@arrow_udf(BooleanType())
def try_zenoh_key_match(key: pa.Array, keyexpr: pa.Array) -> pa.Array:
    """As `zenoh_key_match`; null where one of them is no key expression."""
    return related(keyexpr, key, includes, _try_canonical)


@arrow_udf(StringType())
def zenoh_decode_payload(encoding: pa.Array, payload: pa.Array) -> pa.Array:
    """The payload as text, by its encoding: `zenspark.spark.payloads` has the table. Null if it cannot be decoded."""
    return decoded(_typed(encoding, pa.string()), _typed(payload, pa.binary()))


@arrow_udf(TimestampType())
def zenoh_ntp64_to_timestamp(ntp64: pa.Array) -> pa.Array:
    """The time of a clock reading (`timestamp_ntp64`), in microseconds."""
    # a reading of after 2038 is negative as a long, and a decimal if it is written out
    is_decimal = pa.types.is_decimal(ntp64.type)
    readings = ntp64.cast(pa.uint64()) if is_decimal else ntp64.cast(pa.int64()).view(pa.uint64())
    return microseconds(readings).cast(UTC)


FUNCTIONS = (
    zenoh_intersects,
    zenoh_includes,
    zenoh_key_match,
    try_zenoh_intersects,
    try_zenoh_includes,
    try_zenoh_key_match,
    zenoh_decode_payload,
    zenoh_ntp64_to_timestamp,
)


def register(spark: SparkSession) -> None:
    """Makes all of them known to SQL in this session."""
    for function in FUNCTIONS:
        spark.udf.register(function.func.__name__, function)


def related(
    a: pa.Array,
    b: pa.Array,
    relation: Callable[[str, str], bool],
    canonical: Callable[[str], str | None] = _canonical,
) -> pa.Array:
    """Whether a relation holds between the key expressions of each row; null where one has no canonical form."""
    left, right = (pc.dictionary_encode(_typed(each, pa.string())) for each in (a, b))
    lefts = [canonical(text) for text in left.dictionary.to_pylist()]
    rights = [canonical(text) for text in right.dictionary.to_pylist()]
    pairs = pc.dictionary_encode(
        pc.add(pc.multiply(left.indices.cast(pa.int64()), len(rights)), right.indices.cast(pa.int64()))
    )
    found: list[bool | None] = []
    for code in pairs.dictionary.to_pylist():
        one, other = lefts[code // len(rights)], rights[code % len(rights)]
        found.append(None if one is None or other is None else relation(one, other))
    return pa.array(found, pa.bool_()).take(pairs.indices)


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a type: a null that is written out in SQL has none."""
    return values.cast(kind) if pa.types.is_null(values.type) else values
