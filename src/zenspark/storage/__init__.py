"""Storages: Zenoh queries answered from the journal and the lake, as a storage of zenohd would; without Spark."""

from zenspark.storage.queryable import Storage

__all__ = ["Storage"]
