"""SessionLifecycle: the end of a session, by its owner, at exit of the process, or in a forked child."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import ClassVar

from zenspark.engine.connectivity import Connectivity
from zenspark.engine.runtime import SessionRuntime

logger = logging.getLogger("zenspark.api")


class SessionLifecycle:
    """Ends one session exactly once, from any thread, and at exit of the process at the latest."""

    _all: ClassVar[set[SessionLifecycle]] = set()

    def __init__(self, runtime: SessionRuntime, connectivity: Connectivity) -> None:
        self._runtime = runtime
        self._connectivity = connectivity
        self._lock = threading.RLock()
        self._has_ended = False
        self._all.add(self)

    def end(self) -> None:
        """Write all published messages, send CLOSE, close the node. A second caller waits for that, except the loop."""
        in_loop = self._runtime.node.loop.is_in_loop_task
        if not self._lock.acquire(blocking=not in_loop):
            return
        try:
            if not self._has_ended:
                self._has_ended = True
                self._end(in_loop)
        finally:
            self._lock.release()

    def _end(self, in_loop: bool) -> None:
        node = self._runtime.node
        logger.info("close session zid=%s", node.identity.zid)  # the words of eclipse-zenoh, which operators know
        self._connectivity.stop_connecting()
        try:
            self._runtime.close()
            if not in_loop:  # the loop itself cannot wait: it has to do the writing
                for driver in node.link_drivers:
                    driver.flush_and_wait()
        finally:
            node.close()
            self._connectivity.close()
            self._all.discard(self)

    @classmethod
    def end_all(cls) -> None:
        """Close all sessions at exit: afterwards daemon threads do not run, and their unsent messages are lost."""
        for lifecycle in list(cls._all):
            lifecycle.end()

    @classmethod
    def forget_all(cls) -> None:
        """Forget all sessions in a forked child: their threads do not run there, and the parent keeps them."""
        for lifecycle in cls._all:
            lifecycle._runtime.sender.is_closed = lifecycle._has_ended = True
            lifecycle._lock = threading.RLock()
        cls._all.clear()


atexit.register(SessionLifecycle.end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SessionLifecycle.forget_all)
