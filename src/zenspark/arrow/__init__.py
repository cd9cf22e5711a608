"""Samples as Arrow record batches: their schema, decoded from the wire and encoded for it."""

from zenspark.arrow.schema import SCHEMA, UTC

__all__ = ["SCHEMA", "UTC"]
