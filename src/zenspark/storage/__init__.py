"""Answers Zenoh queries from the journal and the lake, as a storage of zenohd would; it needs no Spark."""

from zenspark.storage.queryable import Storage

__all__ = ["Storage"]
