"""Counts of the HTTP server, for metrics: requests, refused and disconnected clients, open streams."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Literal, get_args

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of latency histograms, in seconds."""

DisconnectReason = Literal["stalled", "slow_stream", "server_overload"]
"""Reason to disconnect a client: it reads nothing for seconds, it reads events slower than they arrive, or this server
encodes events slower than they arrive."""
DISCONNECT_REASONS: tuple[DisconnectReason, ...] = get_args(DisconnectReason)
REFUSAL_REASONS = (
    "connections",
    "header_bytes",
    "malformed",
    "slow_headers",
    "streams",
    "host",
    "origin",
    "login",
    "read_only",
)
"""Reasons for which requests are refused."""


class Histogram:
    """Counts durations in buckets."""

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BUCKETS) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def add(self, seconds: float) -> None:
        """Count a duration; from any thread."""
        bucket = next((index for index, bound in enumerate(self.bounds) if seconds <= bound), len(self.bounds))
        with self._lock:
            self._counts[bucket] += 1
            self._sum += seconds

    def read(self) -> tuple[list[int], float]:
        """Return the count of each bucket, the last without a bound, and the sum of all durations."""
        with self._lock:
            return list(self._counts), self._sum


class HttpCounts:
    """Counts since the server started; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._disconnected: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self.query_seconds = Histogram()
        """Duration of queries of HTTP clients."""
        self.connections = 0
        self.event_streams = 0
        self.stream_bytes = 0
        """Bytes that wait for clients of event streams; only changed in the loop."""
        self.sockets = 0

    def request(self, kind: str, status: int) -> None:
        """Count a response, by the kind of path and status."""
        with self._lock:
            self._requests[kind, status] += 1

    def disconnect(self, reason: DisconnectReason) -> None:
        """Count a client that was disconnected."""
        with self._lock:
            self._disconnected[reason] += 1

    def refuse(self, reason: str) -> None:
        """Count a request that was refused."""
        with self._lock:
            self._refused[reason] += 1

    @property
    def requests(self) -> dict[tuple[str, int], int]:
        with self._lock:
            return dict(self._requests)

    @property
    def disconnected(self) -> dict[str, int]:
        with self._lock:
            return dict(self._disconnected)

    @property
    def refused(self) -> dict[str, int]:
        with self._lock:
            return dict(self._refused)
