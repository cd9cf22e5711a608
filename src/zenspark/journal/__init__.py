"""Durable samples with offsets: segments that one recorder writes and any number of processes read."""

from zenspark.errors import CorruptJournal, JournalError, JournalFull, JournalLocked, NoJournal, OffsetOutOfRange
from zenspark.journal.policy import Policy
from zenspark.journal.reader import Journal, Slice
from zenspark.journal.writer import JournalWriter

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
    "Slice",
]
