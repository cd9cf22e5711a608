"""Which keys a storage answers for, and what they are called in the tables: there without `strip_prefix`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.key.match import intersects

Flags: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"

EVERYTHING = "**"


class Scope:
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

    def select(
        self, rows: pa.RecordBatch, asked: str | None = None, owner: int | None = None
    ) -> tuple[pa.DictionaryArray, pa.RecordBatch]:
        """The rows of these keys, and the full key of each.

        Only those that match what is asked for; only those whose first matching key expression is the `owner`.
        """
        encoded = pc.dictionary_encode(rows.column("key"))
        names, codes = encoded.dictionary, encoded.indices
        if self.strip_prefix is not None:
            names = pc.binary_join_element_wise(self.strip_prefix, names, "/")
        is_wanted = _matching(names, self.key_exprs if owner is None else self.key_exprs[owner : owner + 1])
        if owner:
            is_wanted &= ~_matching(names, self.key_exprs[:owner])
        if asked is not None:
            is_wanted &= _matching(names, [asked])
        if not is_wanted.all():
            keep = pa.array(is_wanted[codes.to_numpy()])
            codes, rows = codes.filter(keep), rows.filter(keep)
        return pa.DictionaryArray.from_arrays(codes, names), rows

    def owns(self, owner: int, key: str) -> bool:
        """Whether this is the first of the key expressions that matches a key of the scope."""
        if len(self.key_exprs) == 1:
            return True
        return next((at for at, each in enumerate(self.key_exprs) if intersects(each, key)), None) == owner

    def literal_prefix(self, key_expr: str) -> str | None:
        """What the keys in the tables start with, chunk by chunk, if they match; None if that may be anything."""
        known = KeyExpr(key_expr).prefix
        if known is None:
            return None
        if self.strip_prefix is None:
            return str(known)
        inside = str(known).removeprefix(f"{self.strip_prefix}/")
        return None if inside == str(known) else inside


def _matching(names: pa.Array, key_exprs: Sequence[str]) -> Flags:
    """Of each name whether it matches one of the key expressions."""
    if EVERYTHING in key_exprs and not pc.any(pc.match_substring_regex(names, "[@*]")).as_py():
        return np.ones(len(names), bool)
    return np.array([any(intersects(key, name) for key in key_exprs) for name in names.to_pylist()], bool)
