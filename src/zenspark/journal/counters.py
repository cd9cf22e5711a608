"""Counters of a recorder over time: what came, what was recorded, and what was lost by whom and why.

Each is a total since the recorder started, with a name, the neighbour it is about and a reason, where it has them:

- `received` without a neighbour: rows that the recorder took; `recorded`: rows that were acknowledged;
- `dropped` by neighbour, because the journal was full: rows that were taken and discarded;
- `received` by neighbour: messages of any kind that came over its links; `lost` by neighbour and reason: those that
  were sent and did not arrive whole, as `session.info.link_counters()` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from zenspark.api.session import Session

RECEIVED, RECORDED, DROPPED, LOST = "received", "recorded", "dropped", "lost"
JOURNAL_FULL = "journal full"

Counter: TypeAlias = tuple[str, str | None, str | None]
"""Name, zid of the neighbour, reason."""
Counts: TypeAlias = Mapping[Counter, int]


class Counters:
    """Finds the counters that have changed since the last time."""

    def __init__(self, session: Session, own: Callable[[], Counts]) -> None:
        self._session = session
        self._own = own
        self._before = read_link_counters(session)
        """What links had counted before the recorder was made."""
        self._told: dict[Counter, int] = {}

    def take_changes(self) -> dict[Counter, int]:
        """Those that are not as they were when this was last called, or 0 before."""
        found = {name: value - self._before.get(name, 0) for name, value in read_link_counters(self._session).items()}
        found |= self._own()
        changed = {name: value for name, value in found.items() if value != self._told.get(name, 0)}
        self._told |= changed
        return changed


def read_link_counters(session: Session) -> dict[Counter, int]:
    """The counters of links; none where the session is closed."""
    if session.is_closed():
        return {}
    counters = session.info.link_counters()
    found: dict[Counter, int] = {(RECEIVED, str(one.zid), None): one.received for one in counters}
    return found | {(LOST, str(one.zid), reason): count for one in counters for reason, count in one.lost.items()}


def recorder_counters(received: int, recorded: int, dropped: Mapping[str, int]) -> dict[Counter, int]:
    """The counters of a recorder."""
    totals: dict[Counter, int] = {(RECEIVED, None, None): received, (RECORDED, None, None): recorded}
    return totals | {(DROPPED, zid, JOURNAL_FULL): rows for zid, rows in dropped.items()}
