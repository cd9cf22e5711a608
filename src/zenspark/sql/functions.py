"""SQL functions on keys, payloads and timestamps, on Arrow columns: the same for Spark and the embedded engine.

A null gives a null. A key expression need not be canonical. One that cannot be parsed raises a UsageError that names
it; functions whose names begin with `try_` return null instead.

Python code runs once for each distinct pair of values in an Arrow batch: keys repeat, and the expression is mostly the
same in all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow import UTC
from zenspark.arrow.decode import ntp64_to_microseconds
from zenspark.errors import UsageError
from zenspark.key import canonicalize
from zenspark.key.match import includes, intersects
from zenspark.sql.payloads import decode_payloads

CANONICAL_CACHE_SIZE = 100_000
"""Entries of the canonicalization cache: expressions repeat in every batch; the size bounds the memory for new keys."""

_canonical = lru_cache(maxsize=CANONICAL_CACHE_SIZE)(canonicalize)


@lru_cache(maxsize=CANONICAL_CACHE_SIZE)
def _try_canonical(text: str) -> str | None:
    try:
        return canonicalize(text)
    except UsageError:
        return None


def zenoh_intersects(a: pa.Array, b: pa.Array) -> pa.Array:
    """Return whether some key matches both expressions.

    Args:
        a: Column of key expressions.
        b: Column of key expressions.

    Returns:
        A column of booleans; null where an argument is null.

    Raises:
        UsageError: A text is no key expression; the query fails with it.

    Example:
        >>> engine.query("select zenoh_intersects('a/*', '*/b') as result").to_pylist()
        [{'result': True}]
    """
    return compare_key_exprs(a, b, intersects)


def zenoh_includes(a: pa.Array, b: pa.Array) -> pa.Array:
    """Return whether every key that matches `b` also matches `a`.

    Args:
        a: Column of key expressions.
        b: Column of key expressions.

    Returns:
        A column of booleans; null where an argument is null.

    Raises:
        UsageError: A text is no key expression; the query fails with it.

    Example:
        >>> engine.query("select zenoh_includes('a/**', 'a/*/b') as result").to_pylist()
        [{'result': True}]
    """
    return compare_key_exprs(a, b, includes)


def zenoh_key_match(key: pa.Array, keyexpr: pa.Array) -> pa.Array:
    """Return whether the expression includes the key, or all keys it matches if it has wildcards (of a DELETE).

    Args:
        key: Column of keys.
        keyexpr: Column of key expressions.

    Returns:
        A column of booleans; null where an argument is null.

    Raises:
        UsageError: A text is no key expression; the query fails with it.

    Example:
        >>> engine.query("select zenoh_key_match('fleet/r1/pose', 'fleet/*/pose') as result").to_pylist()
        [{'result': True}]
    """
    return compare_key_exprs(keyexpr, key, includes)


def try_zenoh_intersects(a: pa.Array, b: pa.Array) -> pa.Array:
    """Return whether some key matches both expressions; null where one of them is not a key expression.

    Args:
        a: Column of key expressions.
        b: Column of key expressions.

    Returns:
        A column of booleans; null where an argument is null or not a key expression.

    Example:
        >>> engine.query("select try_zenoh_intersects('a/*', 'a//b') as result").to_pylist()
        [{'result': None}]
    """
    return compare_key_exprs(a, b, intersects, _try_canonical)


def try_zenoh_includes(a: pa.Array, b: pa.Array) -> pa.Array:
    """Return whether every key that matches `b` also matches `a`; null where one of them is not a key expression.

    Args:
        a: Column of key expressions.
        b: Column of key expressions.

    Returns:
        A column of booleans; null where an argument is null or not a key expression.

    Example:
        >>> engine.query("select try_zenoh_includes('a/**', 'a//b') as result").to_pylist()
        [{'result': None}]
    """
    return compare_key_exprs(a, b, includes, _try_canonical)


def try_zenoh_key_match(key: pa.Array, keyexpr: pa.Array) -> pa.Array:
    """Return whether the expression includes the key; null where one of them is not a key expression.

    Args:
        key: Column of keys.
        keyexpr: Column of key expressions.

    Returns:
        A column of booleans; null where an argument is null or not a key expression.

    Example:
        >>> engine.query("select try_zenoh_key_match('a/b', 'a//b') as result").to_pylist()
        [{'result': None}]
    """
    return compare_key_exprs(keyexpr, key, includes, _try_canonical)


def zenoh_decode_payload(encoding: pa.Array, payload: pa.Array) -> pa.Array:
    """Decode a payload to text by its encoding (table in `zenspark.sql.payloads`); null if it cannot be decoded.

    Args:
        encoding: Column of encodings, such as `text/plain`.
        payload: Column of payloads, in bytes.

    Returns:
        A column of texts; null where the payload has none.

    Example:
        >>> rows = engine.query("select zenoh_decode_payload(encoding, payload) as value from samples")
    """
    return decode_payloads(_cast_nulls(encoding, pa.string()), _cast_nulls(payload, pa.binary()))


def zenoh_ntp64_to_timestamp(ntp64: pa.Array) -> pa.Array:
    """Convert an NTP64 time (`timestamp_ntp64`) to a timestamp in microseconds.

    Args:
        ntp64: Column of NTP64 times: 32 bits of seconds since 1970, 32 bits of their fraction.

    Returns:
        A column of timestamps in UTC.

    Example:
        >>> rows = engine.query("select zenoh_ntp64_to_timestamp(4294967296) as time")
    """
    # a time after 2038 is negative as a long, and a decimal if it is a literal of Spark
    is_unsigned = pa.types.is_decimal(ntp64.type) or pa.types.is_uint64(ntp64.type)
    readings = ntp64.cast(pa.uint64()) if is_unsigned else ntp64.cast(pa.int64()).view(pa.uint64())
    return ntp64_to_microseconds(readings).cast(UTC)


KEY_FUNCTIONS: tuple[Callable[[pa.Array, pa.Array], pa.Array], ...] = (
    zenoh_intersects,
    zenoh_includes,
    zenoh_key_match,
    try_zenoh_intersects,
    try_zenoh_includes,
    try_zenoh_key_match,
)
"""Functions of two key expressions that return a boolean."""

FUNCTION_NAMES = tuple(
    function.__name__ for function in (*KEY_FUNCTIONS, zenoh_decode_payload, zenoh_ntp64_to_timestamp)
)


def compare_key_exprs(
    a: pa.Array,
    b: pa.Array,
    relation: Callable[[str, str], bool],
    canonical: Callable[[str], str | None] = _canonical,
) -> pa.Array:
    """Apply a relation to the key expressions of each row; null where one has no canonical form."""
    left, right = (pc.dictionary_encode(_cast_nulls(column, pa.string())) for column in (a, b))
    lefts = [canonical(text) for text in left.dictionary.to_pylist()]
    rights = [canonical(text) for text in right.dictionary.to_pylist()]
    pairs = pc.dictionary_encode(
        pc.add(pc.multiply(left.indices.cast(pa.int64()), len(rights)), right.indices.cast(pa.int64()))
    )
    results: list[bool | None] = []
    for code in pairs.dictionary.to_pylist():
        left_expr, right_expr = lefts[code // len(rights)], rights[code % len(rights)]
        results.append(None if left_expr is None or right_expr is None else relation(left_expr, right_expr))
    return pa.array(results, pa.bool_()).take(pairs.indices)


def _cast_nulls(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column of SQL null literals, which have no type."""
    return values.cast(kind) if pa.types.is_null(values.type) else values
