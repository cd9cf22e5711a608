"""Counters of a recorder over time: rows received, recorded and lost, by neighbour and reason.

Each is a total since the recorder started, with a name, and optionally the zid of a neighbour and a reason:

- `received` without a neighbour: rows that the recorder received; `recorded`: rows that were acknowledged;
- `dropped` by neighbour: rows that were received and lost, because the journal could not be written;
- `received` by neighbour: messages of any kind received on its links; `lost` by neighbour and reason: messages that
  were sent and not received completely; both from `session.info.link_counters()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from zenspark.api.session import Session

RECEIVED, RECORDED, DROPPED, LOST = "received", "recorded", "dropped", "lost"
JOURNAL_FULL = "journal full"
"""Reason of rows that were lost, whatever the cause of the failed write."""

Counter: TypeAlias = tuple[str, str | None, str | None]
"""Name, zid of the neighbour, reason."""
Counts: TypeAlias = Mapping[Counter, int]


class Counters:
    """Finds the counters that have changed since the last call."""

    def __init__(self, session: Session, recorder: Callable[[], Counts]) -> None:
        self._session = session
        self._recorder = recorder
        self._before = read_link_counters(session)
        """Link counters at the time the recorder was created."""
        self._reported: dict[Counter, int] = {}

    def take_changes(self) -> dict[Counter, int]:
        """Return the counters that have changed since the last call; initially all are 0."""
        changes = {name: value - self._before.get(name, 0) for name, value in read_link_counters(self._session).items()}
        changes |= self._recorder()
        changed = {name: value for name, value in changes.items() if value != self._reported.get(name, 0)}
        self._reported |= changed
        return changed


def read_link_counters(session: Session) -> dict[Counter, int]:
    """Read the link counters of a session; empty if it is closed."""
    if session.is_closed():
        return {}
    counters = session.info.link_counters()
    received: dict[Counter, int] = {(RECEIVED, str(link.zid), None): link.received for link in counters}
    return received | {(LOST, str(link.zid), reason): count for link in counters for reason, count in link.lost.items()}


def recorder_counters(received: int, recorded: int, discarded: Mapping[str, int]) -> dict[Counter, int]:
    """Make the counters of a recorder."""
    totals: dict[Counter, int] = {(RECEIVED, None, None): received, (RECORDED, None, None): recorded}
    return totals | {(DROPPED, zid, JOURNAL_FULL): rows for zid, rows in discarded.items()}
