"""PublisherCache: the last samples of an advanced publisher, which subscribers query (protocol section 18)."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable

from zenspark.clock import ns_from_ntp64
from zenspark.errors import ZError
from zenspark.key import KeyExpr
from zenspark.log_throttle import LogThrottle
from zenspark.types.arguments import MAX_DECIMAL_DIGITS, parse_decimal
from zenspark.types.ids import SOURCE_SN_MODULUS, format_source
from zenspark.types.payload_text import log_text
from zenspark.types.query import Query, reply_stored
from zenspark.types.selector import Parameters
from zenspark.types.time_range import TimeRange, time_parameter
from zenspark.wire.messages import Del, Put

logger = logging.getLogger("zenspark.api")

_SEQUENCE_RANGE = re.compile(rf"(\d{{0,{MAX_DECIMAL_DIGITS}}})(?:(\.\.)(\d{{0,{MAX_DECIMAL_DIGITS}}}))?")


class PublisherCache:
    """The last samples on one key; the oldest is dropped first."""

    def __init__(self, key_expr: KeyExpr, size: int, clock: Callable[[], float] = time.time) -> None:
        self._key_expr = key_expr
        self._bodies: deque[Put | Del] = deque(maxlen=size)
        self._clock = clock
        self._throttle = LogThrottle()
        self._lock = threading.Lock()

    def add(self, body: Put | Del) -> None:
        """Add a sample that was published."""
        with self._lock:
            self._bodies.append(body)

    def reply_to(self, query: Query) -> None:
        """Reply to a query with the samples it selects, the oldest first."""
        with query:
            try:
                for body in self.select(query.parameters):
                    reply_stored(query, self._key_expr, body)
            except ZError as error:
                self._log_rejection(query, error)

    def _log_rejection(self, query: Query, error: ZError) -> None:
        """Log a query with parameters that are not valid, unless one was logged lately."""
        total = self._throttle.count("query")
        if total is not None:
            selector, source = log_text(str(query.selector).encode()), format_source(query.source_info)
            logger.warning(
                "rejected query %s for cached samples from %s: %s; %d in all", selector, source, error, total
            )

    def select(self, parameters: Parameters) -> list[Put | Del]:
        """Return the samples that the parameters `_sn`, `_time` and `_max` select."""
        with self._lock:
            bodies = list(self._bodies)
        numbers = parameters.get("_sn")
        if numbers is not None:
            bodies = _select_numbers(bodies, numbers)
        times = time_parameter(parameters)
        if times is not None:
            range_ = TimeRange.parse(times, self._clock())
            bodies = [body for body in bodies if body.timestamp is None or _seconds(body.timestamp.ntp64) in range_]
        max_samples = parse_decimal(parameters.get("_max") or "")
        return bodies[-max_samples:] if max_samples else bodies


def _seconds(ntp64: int) -> float:
    return ns_from_ntp64(ntp64) / 1e9


def _select_numbers(bodies: list[Put | Del], text: str) -> list[Put | Del]:
    """Return the samples with a number in the range `from..to`, whose sides may be empty, or with one number."""
    parts = _SEQUENCE_RANGE.fullmatch(text)
    if parts is None or (not parts[1] and not parts[3]):
        return bodies
    first = int(parts[1] or 0)
    last = first if parts[2] is None else int(parts[3]) if parts[3] else SOURCE_SN_MODULUS
    return [body for body in bodies if body.source_info is not None and first <= body.source_info.sn <= last]
