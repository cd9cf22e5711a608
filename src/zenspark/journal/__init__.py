"""Durable samples with offsets: segments that one recorder writes and any number of processes read.

The recorder is imported on first use: readers are many short-lived processes, and do not need it.
"""

from typing import TYPE_CHECKING, Any

from zenspark.errors import CorruptJournal, JournalError, JournalFull, JournalLocked, NoJournal, OffsetOutOfRange
from zenspark.journal.journal import Journal, Slice
from zenspark.journal.policy import Policy
from zenspark.journal.writer import JournalWriter

if TYPE_CHECKING:
    from zenspark.journal.recorder import Recorder, State, Status

__all__ = [
    "CorruptJournal",
    "Journal",
    "JournalError",
    "JournalFull",
    "JournalLocked",
    "JournalWriter",
    "NoJournal",
    "OffsetOutOfRange",
    "Policy",
    "Recorder",
    "Slice",
    "State",
    "Status",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from zenspark.journal import recorder

    return getattr(recorder, name)
