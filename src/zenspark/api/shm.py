"""Names of `zenspark.shm`: shared memory is not supported, and every name raises an error that explains it."""

from __future__ import annotations

from typing import NoReturn

from zenspark.errors import UsageError

NAMES = (
    "AllocAlignment",
    "BlockOn",
    "Deallocate",
    "Defragment",
    "GarbageCollect",
    "JustAlloc",
    "MemoryLayout",
    "ShmProvider",
    "ZShm",
    "ZShmMut",
)


class NoSharedMemory(UsageError, ImportError):
    """A name of eclipse-zenoh's shared memory, which zenspark does not have.

    An ImportError, not an AttributeError: of that one `from zenspark.shm import ZShm` would show nothing.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"zenspark.shm.{self.name}: zenspark offers no shared memory; "
            "payloads travel inside the messages, so put bytes, or any buffer, as they are"
        )


def __getattr__(name: str) -> NoReturn:
    if name in NAMES:
        raise NoSharedMemory(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
