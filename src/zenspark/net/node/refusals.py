"""Logs refusals: one line per limit and interval, with a count."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from zenspark.net.io.counters import Timers
from zenspark.router.limits import Limit, Refusals

logger = logging.getLogger("zenspark.net")

REPORT_SECONDS = 10.0
"""Seconds between two log lines: short enough to see when refusals began, long enough to leave a log readable."""
REFUSAL_TEXTS = {
    Limit.KEY_BYTES: ("keys", "longer than limits/key/bytes"),
    Limit.KEY_CHUNKS: ("keys", "more chunks than limits/key/chunks"),
    Limit.KEY_WILDCARDS: ("keys", "more wildcards than limits/key/wildcards"),
    Limit.DECLARATIONS: ("declarations", "more than limits/session/declarations, network_declarations of a router"),
    Limit.DECLARED_BYTES: ("declarations and interests", "more bytes in keys than limits/session/declared_bytes"),
    Limit.DECLARED_CHUNKS: ("declarations and interests", "more chunks in keys than limits/session/declared_chunks"),
    Limit.WILD_CHUNKS: (
        "declarations and interests",
        "more chunks in keys with wildcards than limits/session/wild_chunks",
    ),
    Limit.INTERESTS: ("interests", "more than limits/session/interests"),
    Limit.KEY_NUMBERS: ("key mappings", "more than limits/session/key_numbers"),
    Limit.KEY_NUMBER_BYTES: ("key mappings", "more bytes in keys than limits/session/key_number_bytes"),
    Limit.QUERIES: ("queries", "more in flight than limits/session/queries"),
    Limit.NETWORK_NODES: ("routers of the network", "more than limits/network/nodes"),
    Limit.NETWORK_LINKS: ("link states", "more links than limits/network/node_links or limits/network/links"),
    Limit.ROUTERS: ("routers", "not among routing/router/accept"),
    Limit.PENDING: ("connections without a session", "more than transport/unicast/accept_pending"),
    Limit.PENDING_PER_ADDRESS: ("connections without a session", "more from one address than limits/address/pending"),
    Limit.SESSIONS: ("sessions", "more than transport/unicast/max_sessions"),
    Limit.SESSIONS_PER_ADDRESS: ("sessions", "more from one address than limits/address/sessions"),
    Limit.HANDSHAKES: ("connections", "the TLS or WebSocket handshake failed"),
    Limit.ACCESS_INGRESS: ("messages", "denied by access_control"),
    Limit.ACCESS_EGRESS: ("messages", "denied by access_control"),
}
"""Unit that is counted, and the reason with its configuration key, as logged, for each limit."""
UNLOGGED = frozenset({Limit.ACCESS_EGRESS})
"""Refusals that are counted but not logged: that access control keeps samples from a subscriber is normal."""


class RefusalLog:
    """Logs the refusals of one node. The first after a quiet interval is logged at once.

    `lock` guards the refusals; they may be counted in any thread, timers run in the loop.
    """

    def __init__(self, refusals: Refusals, loop: Timers, lock: AbstractContextManager[object]) -> None:
        self._refusals = refusals
        self._loop = loop
        self._lock = lock
        self._logged: dict[Limit, int] = {}
        self._is_quiet = True
        refusals.on_count = self._on_count

    def _on_count(self) -> None:
        if self._is_quiet:
            self._is_quiet = False
            self._report()

    def _on_time(self) -> None:
        with self._lock:
            if self._refusals.counts == self._logged:
                self._is_quiet = True
            else:
                self._report()

    def _report(self) -> None:
        """Log the refusals since the last report, and schedule the next report."""
        for limit, count in self._refusals.counts.items():
            new = count - self._logged.get(limit, 0)
            if new and limit not in UNLOGGED:
                latest = self._refusals.latest[limit]
                unit, reason = REFUSAL_TEXTS[limit]
                logger.warning(
                    "refused %d %s (%s): %s; %d in all, the latest from %s", new, unit, limit, reason, count, latest
                )
        self._logged = dict(self._refusals.counts)
        self._loop.call_at(self._loop.now() + REPORT_SECONDS, self._on_time)
