"""Which keys of recorded rows are published again, and under which names."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.errors import UsageError
from zenspark.key import KeyExpr

SUBTREE_SUFFIX = "/**"


class RemapRule(msgspec.Struct, frozen=True):
    """Keys that begin with some chunks get others instead: `robot1=replay/robot1`, or `robot1/**=replay/robot1/**`."""

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
        """The new key; None if it does not begin with these chunks."""
        if key != self.old and not key.startswith(f"{self.old}/"):
            return None
        return f"{self.new}{key.removeprefix(self.old)}".removeprefix("/")


class KeyRemap(msgspec.Struct, frozen=True):
    """Only keys that match one of the key expressions, if there are any; renamed by the first rule that applies."""

    keys: Sequence[KeyExpr] = ()
    rules: Sequence[RemapRule] = ()
    prefix: str = ""
    """Put before every key, with a slash."""

    def remap_key(self, key: str) -> str | None:
        """The key under which it is published, None if it is not."""
        if self.keys and not any(one.intersects(key) for one in self.keys):
            return None
        found = (rule.apply(key) for rule in self.rules)
        new = next((one for one in found if one is not None), key)
        whole = f"{self.prefix}/{new}" if self.prefix and new else self.prefix or new
        try:
            return str(KeyExpr(whole))
        except UsageError as error:
            raise UsageError(f"the key {key!r} would become {whole!r}: {error}") from error

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are wanted, with the keys they are to have; each key is looked at once."""
        if not (self.keys or self.rules or self.prefix):
            return batch
        known = pc.dictionary_encode(batch.column("key"))
        names = pa.array([self.remap_key(key) for key in known.dictionary.to_pylist()], pa.string())
        place = batch.schema.get_field_index("key")
        renamed = batch.set_column(place, "key", names.take(known.indices))
        return renamed.filter(pc.is_valid(renamed.column("key"))) if names.null_count else renamed
