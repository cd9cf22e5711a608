"""Key expressions: grammar, matching, and a tree for lookup by relation."""

from zenspark.key.keyexpr import KeyExpr, SetIntersectionLevel, canonicalize

__all__ = ["KeyExpr", "SetIntersectionLevel", "canonicalize"]
