"""Storages: reply to Zenoh queries from journals and the lake, like the storages of zenohd; without Spark."""

from zenspark.storage.queryable import Storage

__all__ = ["Storage"]
