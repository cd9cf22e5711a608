"""Key expressions: grammar, matching, and a tree for lookup by relation."""

from zenspark.key.keyexpr import KeyExpr, SetIntersectionLevel, canonise

__all__ = ["KeyExpr", "SetIntersectionLevel", "canonise"]
