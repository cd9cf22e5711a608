"""Selection and renaming of keys for replay."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.errors import UsageError
from zenspark.key import KeyExpr

SUBTREE_SUFFIX = "/**"


class RemapRule(msgspec.Struct, frozen=True):
    """Replaces the first chunks of keys: `robot1=replay/robot1`, or `robot1/**=replay/robot1/**`."""

    old: str
    new: str

    @staticmethod
    def parse(text: str) -> RemapRule:
        old, equals, new = text.partition("=")
        old, new = old.removesuffix(SUBTREE_SUFFIX), new.removesuffix(SUBTREE_SUFFIX)
        if not equals or not old:
            raise UsageError(f"expected OLD=NEW, found {text!r}")
        for chunks in (old, new):
            if chunks and KeyExpr(chunks).is_wild:
                raise UsageError(f"{text!r}: expected chunks without wildcards, or `/**` at the end of both")
        return RemapRule(old, new)

    def apply(self, key: str) -> str | None:
        """Return the new key; None if the rule does not apply."""
        if key != self.old and not key.startswith(f"{self.old}/"):
            return None
        return f"{self.new}{key.removeprefix(self.old)}".removeprefix("/")


class KeyRemap(msgspec.Struct, frozen=True):
    """Selects keys that match one of the key expressions, or all, and renames them by the first rule that applies."""

    keys: Sequence[KeyExpr] = ()
    rules: Sequence[RemapRule] = ()
    prefix: str = ""
    """Prefix for every key, without trailing slash."""

    def remap_key(self, key: str) -> str | None:
        """Return the new key; None if the key is not selected."""
        if self.keys and not any(key_expr.intersects(key) for key_expr in self.keys):
            return None
        renamed = (rule.apply(key) for rule in self.rules)
        new = next((candidate for candidate in renamed if candidate is not None), key)
        full = f"{self.prefix}/{new}" if self.prefix and new else self.prefix or new
        try:
            return str(KeyExpr(full))
        except UsageError as error:
            raise UsageError(f"the key {key!r} would become {full!r}: {error}") from error

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Select rows and rename their keys; each distinct key is processed once."""
        if not (self.keys or self.rules or self.prefix):
            return batch
        encoded = pc.dictionary_encode(batch.column("key"))
        names = pa.array([self.remap_key(key) for key in encoded.dictionary.to_pylist()], pa.string())
        column_index = batch.schema.get_field_index("key")
        renamed = batch.set_column(column_index, "key", names.take(encoded.indices))
        return renamed.filter(pc.is_valid(renamed.column("key"))) if names.null_count else renamed
