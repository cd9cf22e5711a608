"""Logs refusals: one line per limit and interval, with a count."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import partial

from zenspark.log_throttle import LOG_INTERVAL_SECONDS
from zenspark.net.io.counters import Timers
from zenspark.router.limits import RefusalReason, Refusals

logger = logging.getLogger("zenspark.net")

REFUSAL_TEXTS = {
    RefusalReason.KEY_BYTES: ("keys", "longer than limits/key/bytes"),
    RefusalReason.KEY_CHUNKS: ("keys", "more chunks than limits/key/chunks"),
    RefusalReason.KEY_WILDCARDS: ("keys", "more wildcards than limits/key/wildcards"),
    RefusalReason.DECLARATIONS: (
        "declarations",
        "more than limits/session/declarations, network_declarations of a router",
    ),
    RefusalReason.DECLARED_BYTES: (
        "declarations and interests",
        "more bytes in keys than limits/session/declared_bytes",
    ),
    RefusalReason.DECLARED_CHUNKS: (
        "declarations and interests",
        "more chunks in keys than limits/session/declared_chunks",
    ),
    RefusalReason.WILDCARD_CHUNKS: (
        "declarations and interests",
        "more chunks in keys with wildcards than limits/session/wild_chunks",
    ),
    RefusalReason.INTERESTS: ("interests", "more than limits/session/interests"),
    RefusalReason.KEY_MAPPINGS: ("key mappings", "more than limits/session/key_numbers"),
    RefusalReason.KEY_MAPPING_BYTES: ("key mappings", "more bytes in keys than limits/session/key_number_bytes"),
    RefusalReason.QUERIES: ("queries", "more in flight than limits/session/queries"),
    RefusalReason.NETWORK_NODES: ("routers of the network", "more than limits/network/nodes"),
    RefusalReason.NETWORK_LINKS: ("link states", "more links than limits/network/node_links or limits/network/links"),
    RefusalReason.ROUTERS: ("routers", "not among routing/router/accept"),
    RefusalReason.PENDING: ("connections without a session", "more than transport/unicast/accept_pending"),
    RefusalReason.PENDING_PER_ADDRESS: (
        "connections without a session",
        "more from one address than limits/address/pending",
    ),
    RefusalReason.SESSIONS: ("sessions", "more than transport/unicast/max_sessions"),
    RefusalReason.SESSIONS_PER_ADDRESS: ("sessions", "more from one address than limits/address/sessions"),
    RefusalReason.HANDSHAKES: ("connections", "the TLS or WebSocket handshake failed"),
    RefusalReason.ACCESS_INGRESS: ("messages", "denied by access_control"),
    RefusalReason.ACCESS_EGRESS: ("messages", "denied by access_control"),
}
"""Unit that is counted, and the reason with its configuration key, as logged, for each limit."""
UNLOGGED = frozenset({RefusalReason.ACCESS_EGRESS})
"""Refusals that are counted but not logged: that access control keeps samples from a subscriber is normal."""


class RefusalLog:
    """Logs the refusals of one node. The first after a quiet interval is logged at once.

    Refusals may be counted in any thread; timers run in the loop.
    """

    def __init__(self, loop: Timers) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._logged: dict[RefusalReason, int] = {}
        self._is_quiet = True

    def on_refusal(self, refusals: Refusals) -> None:
        """Log a refusal at once if none was logged lately; otherwise the next report has it."""
        with self._lock:
            lines = self._report(refusals) if self._is_quiet else ()
        _log(lines)

    def _on_timer(self, refusals: Refusals) -> None:
        with self._lock:
            self._is_quiet = refusals.counts == self._logged
            lines = () if self._is_quiet else self._report(refusals)
        _log(lines)

    def _report(self, refusals: Refusals) -> Sequence[str]:
        """Make the lines about the refusals since the last report, and schedule the next report."""
        self._is_quiet = False
        last, self._logged = self._logged, dict(refusals.counts)
        self._loop.call_at(self._loop.now() + LOG_INTERVAL_SECONDS, partial(self._on_timer, refusals))
        return [
            _describe(limit, count - last.get(limit, 0), count, refusals.latest[limit])
            for limit, count in self._logged.items()
            if count != last.get(limit) and limit not in UNLOGGED
        ]


def _describe(limit: RefusalReason, new: int, count: int, latest: str) -> str:
    unit, reason = REFUSAL_TEXTS[limit]
    return f"refused {new} {unit} ({limit}): {reason}; {count} in all, the latest from {latest}"


def _log(lines: Sequence[str]) -> None:
    """Log lines; without a lock held, because a handler of the application may publish them."""
    for line in lines:
        logger.warning("%s", line)
