"""Which keys a storage answers for, and what they are called in the tables: there without `strip_prefix`."""

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
"""Names that are not plain keys: with wildcards, with verbatim chunks, which no wildcard matches, or no keys at all."""


class LiteralPrefix(NamedTuple):
    """The part of a key expression before its first wildcard, chunk by chunk."""

    text: str
    is_exact: bool
    """It is all of it: the expression has no wildcards."""


class KeyScope:
    """The keys that match one of some key expressions. A prefix to strip must be a prefix of each of them."""

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

    def select_rows(
        self, rows: pa.RecordBatch, asked: str | None = None, owner: int | None = None
    ) -> tuple[pa.DictionaryArray, pa.RecordBatch]:
        """The rows of these keys, and the full key of each.

        Only those that match what is asked for; only those whose first matching key expression is the `owner`.
        """
        if rows.column("key").null_count:  # as another tool may have inserted them
            rows = rows.filter(pc.is_valid(rows.column("key")))
        encoded = pc.dictionary_encode(rows.column("key"))
        codes = encoded.indices
        is_wanted = self.match(encoded.dictionary, asked, owner)
        if not is_wanted.all():
            keep = pa.array(is_wanted[codes.to_numpy()])
            codes, rows = codes.filter(keep), rows.filter(keep)
        return pa.DictionaryArray.from_arrays(codes, self.full_keys(encoded.dictionary)), rows

    def full_keys(self, names: pa.Array) -> pa.Array:
        """The keys that names in the tables stand for."""
        return names if self.strip_prefix is None else pc.binary_join_element_wise(self.strip_prefix, names, "/")

    def match(self, names: pa.Array, asked: str | None = None, owner: int | None = None) -> BoolMask:
        """Of each name in the tables whether its key is one of these, as `select` has it."""
        keys = self.full_keys(names)
        is_wanted = _match_names(keys, self.key_exprs if owner is None else self.key_exprs[owner : owner + 1])
        if owner:
            is_wanted &= ~_match_names(keys, self.key_exprs[:owner])
        if asked is not None:
            is_wanted &= _match_names(keys, [asked])
        return is_wanted

    def owns(self, owner: int, key: str) -> bool:
        """Whether this is the first of the key expressions that matches a key of the scope."""
        if len(self.key_exprs) == 1:
            return True
        return next((at for at, each in enumerate(self.key_exprs) if intersects(each, key)), None) == owner

    def literal_prefix(self, asked: str, owner: int) -> LiteralPrefix | None:
        """What names in the tables begin with if they match, unless they have wildcards; None if with anything."""
        found = [known for known in map(self._local_prefix, (asked, self.key_exprs[owner])) if known is not None]
        return max(found, key=lambda known: (known.is_exact, len(known.text)), default=None)

    def _local_prefix(self, key_expr: str) -> LiteralPrefix | None:
        known = literal_prefix(key_expr)
        if known is None or self.strip_prefix is None:
            return known
        inside = known.text.removeprefix(f"{self.strip_prefix}/")
        return None if inside == known.text else LiteralPrefix(inside, known.is_exact)


@lru_cache(maxsize=1024)
def literal_prefix(key_expr: str) -> LiteralPrefix | None:
    """The literal part of a key expression; None if it begins with a wildcard."""
    known = KeyExpr(key_expr)
    prefix = known.prefix
    return None if prefix is None else LiteralPrefix(str(prefix), not known.is_wild)


@lru_cache(maxsize=4096)
def _is_key_expr(text: str) -> bool:
    try:
        KeyExpr(text)
    except UsageError:
        return False
    return True


def _match_names(names: pa.Array, key_exprs: Sequence[str]) -> BoolMask:
    """Of each name whether it matches one of the key expressions; what is no key expression does not.

    Plain names are compared column by column as far as possible, the others one by one.
    """
    found = np.zeros(len(names), bool)
    is_odd = _to_mask(pc.match_substring_regex(names, NOT_A_PLAIN_KEY))
    for key_expr in key_exprs:
        known, is_likely = _compare_plain_names(names, key_expr)
        found |= known & ~is_odd
        places = np.flatnonzero((is_likely | is_odd) & ~found)
        texts = names.take(pa.array(places)).to_pylist()
        odd = is_odd[places].tolist()
        found[places] = [
            intersects(key_expr, text) and (not check or _is_key_expr(text))
            for text, check in zip(texts, odd, strict=True)
        ]
    return found


def _compare_plain_names(names: pa.Array, key_expr: str) -> tuple[BoolMask, BoolMask]:
    """Of plain names which match for certain, and which may match beside them."""
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
    found: BoolMask = column.to_numpy(zero_copy_only=False)
    return found
