"""Commands that run inside the process of the tests change signal handlers and log levels; both are restored."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restored_process() -> Iterator[None]:
    """Restore the signal handlers, and the level and handlers of the log."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    logger = logging.getLogger("zenspark")
    level, log_handlers = logger.level, list(logger.handlers)
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    logger.setLevel(level)
    logger.handlers[:] = log_handlers
