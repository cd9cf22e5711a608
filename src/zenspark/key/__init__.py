"""Key expressions: their grammar, matching, and a tree that finds the ones that match."""

from zenspark.key.keyexpr import KeyExpr, SetIntersectionLevel, canonise

__all__ = ["KeyExpr", "SetIntersectionLevel", "canonise"]
