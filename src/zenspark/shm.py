"""`zenspark.shm`: shared memory is not offered, and every name of it says so."""

from zenspark.api.shm import NAMES, __getattr__

__all__ = ["NAMES", "__getattr__"]
