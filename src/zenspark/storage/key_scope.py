"""KeyScope: the keys of a storage, and their names in the tables, which omit `strip_prefix`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.key.match import intersects

BoolMask: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"

MATCH_ALL = "**"
NOT_A_PLAIN_KEY = r"^$|^/|/$|//|[#?$*@]"
"""Names that are not plain keys: with wildcards, with verbatim chunks, which no wildcard matches, or invalid."""


class LiteralPrefix(NamedTuple):
    """The chunks of a key expression before its first wildcard."""

    text: str
    is_exact: bool
    """Whether it is the whole expression, which has no wildcards."""


class KeyScope:
    """The keys that match one of several key expressions; `strip_prefix` must be a prefix of each of them."""

    def __init__(self, key_exprs: Sequence[str], strip_prefix: str | None = None) -> None:
        self.key_exprs = [str(KeyExpr(key)) for key in key_exprs]
        self.strip_prefix = None if strip_prefix is None else str(KeyExpr(strip_prefix))
        if strip_prefix is None:
            return
        if KeyExpr(strip_prefix).is_wild:
            raise UsageError(f"strip_prefix: expected a key without wildcards, found {strip_prefix!r}")
        for key in self.key_exprs:
            if not key.startswith(f"{strip_prefix}/"):
                raise UsageError(f"strip_prefix: expected a prefix of key_expr {key!r}, found {strip_prefix!r}")

    def __str__(self) -> str:
        return ", ".join(self.key_exprs)

    def select_rows(
        self, rows: pa.RecordBatch, query: str | None = None, key_expr_index: int | None = None
    ) -> tuple[pa.DictionaryArray, pa.RecordBatch]:
        """Select the rows in scope, with the full key of each.

        Optionally only those that match a query's key expression, and whose first matching key expression has the index
        `key_expr_index`.
        """
        if rows.column("key").null_count:  # another tool may have inserted them
            rows = rows.filter(pc.is_valid(rows.column("key")))
        encoded = pc.dictionary_encode(rows.column("key"))
        codes = encoded.indices
        matches = self.match(encoded.dictionary, query, key_expr_index)
        if not matches.all():
            keep = pa.array(matches[codes.to_numpy()])
            codes, rows = codes.filter(keep), rows.filter(keep)
        return pa.DictionaryArray.from_arrays(codes, self.full_keys(encoded.dictionary)), rows

    def full_keys(self, names: pa.Array) -> pa.Array:
        """The full keys of names in the tables."""
        return names if self.strip_prefix is None else pc.binary_join_element_wise(self.strip_prefix, names, "/")

    def match(self, names: pa.Array, query: str | None = None, key_expr_index: int | None = None) -> BoolMask:
        """Mask of the names in the tables whose key is selected, by the same conditions as in `select_rows`."""
        keys = self.full_keys(names)
        matches = _match_names(
            keys, self.key_exprs if key_expr_index is None else self.key_exprs[key_expr_index : key_expr_index + 1]
        )
        if key_expr_index:
            matches &= ~_match_names(keys, self.key_exprs[:key_expr_index])
        if query is not None:
            matches &= _match_names(keys, [query])
        return matches

    def owns(self, key_expr_index: int, key: str) -> bool:
        """Whether key expression number `key_expr_index` is the first that matches a key of the scope."""
        if len(self.key_exprs) == 1:
            return True
        return (
            next((at for at, key_expr in enumerate(self.key_exprs) if intersects(key_expr, key)), None)
            == key_expr_index
        )

    def literal_prefix(self, query: str, key_expr_index: int) -> LiteralPrefix | None:
        """The prefix of all matching names in the tables that have no wildcards; None if there is none."""
        prefixes = [
            prefix for prefix in map(self._local_prefix, (query, self.key_exprs[key_expr_index])) if prefix is not None
        ]
        return max(prefixes, key=lambda prefix: (prefix.is_exact, len(prefix.text)), default=None)

    def _local_prefix(self, key_expr: str) -> LiteralPrefix | None:
        prefix = literal_prefix(key_expr)
        if prefix is None or self.strip_prefix is None:
            return prefix
        stripped = prefix.text.removeprefix(f"{self.strip_prefix}/")
        return None if stripped == prefix.text else LiteralPrefix(stripped, prefix.is_exact)


@lru_cache(maxsize=1024)
def literal_prefix(key_expr: str) -> LiteralPrefix | None:
    """The literal prefix of a key expression; None if it begins with a wildcard."""
    parsed = KeyExpr(key_expr)
    prefix = parsed.prefix
    return None if prefix is None else LiteralPrefix(str(prefix), not parsed.is_wild)


@lru_cache(maxsize=4096)
def _is_key_expr(text: str) -> bool:
    try:
        KeyExpr(text)
    except UsageError:
        return False
    return True


def _match_names(names: pa.Array, key_exprs: Sequence[str]) -> BoolMask:
    """Mask of the names that match one of the key expressions; invalid key expressions do not match.

    Plain names are compared by column operations where possible, others one by one.
    """
    matches = np.zeros(len(names), bool)
    is_special = _to_mask(pc.match_substring_regex(names, NOT_A_PLAIN_KEY))
    for key_expr in key_exprs:
        is_match, is_likely = _compare_plain_names(names, key_expr)
        matches |= is_match & ~is_special
        indices = np.flatnonzero((is_likely | is_special) & ~matches)
        texts = names.take(pa.array(indices)).to_pylist()
        special = is_special[indices].tolist()
        matches[indices] = [
            intersects(key_expr, text) and (not check or _is_key_expr(text))
            for text, check in zip(texts, special, strict=True)
        ]
    return matches


def _compare_plain_names(names: pa.Array, key_expr: str) -> tuple[BoolMask, BoolMask]:
    """Masks of plain names that match, and of others that may match."""
    none = np.zeros(len(names), bool)
    literal = literal_prefix(key_expr)
    if key_expr == MATCH_ALL:
        return ~none, none
    if literal is None:
        return none, ~none
    is_same = _to_mask(pc.equal(names, literal.text))
    if literal.is_exact:
        return is_same, none
    is_below = _to_mask(pc.starts_with(names, f"{literal.text}/"))
    if key_expr == f"{literal.text}/{MATCH_ALL}":
        return is_same | is_below, none
    return none, is_same | is_below


def _to_mask(column: pa.Array) -> BoolMask:
    mask: BoolMask = column.to_numpy(zero_copy_only=False)
    return mask
