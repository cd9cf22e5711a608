"""`zenspark.shm`: shared memory is not supported, and every name raises an error that explains it."""

from zenspark.api.shm import NAMES, __getattr__

__all__ = ["NAMES", "__getattr__"]
