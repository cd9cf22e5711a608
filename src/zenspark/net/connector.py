"""Connector: keeps one session to an endpoint, trying again when it cannot be had or is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import msgspec

from zenspark.errors import CloseReason, LinkError, ZError
from zenspark.net.driver import Driver
from zenspark.net.endpoints import Endpoint
from zenspark.net.node import Node
from zenspark.transport.connection import Closed, Event
from zenspark.transport.handshake import Opened

logger = logging.getLogger("zenspark.net")


class Retry(msgspec.Struct, frozen=True):
    """How long to wait before the next try, in seconds: longer each time, up to a limit."""

    first: float = 1.0
    longest: float = 4.0
    factor: float = 2.0

    def delay(self, tries: int) -> float:
        """The pause after so many tries in vain."""
        return min(self.longest, self.first * self.factor ** min(tries, 64))


class Connector:
    """Keeps a session to the first of several endpoints that answers. Its thread ends with `stop`."""

    def __init__(self, node: Node, endpoints: Sequence[Endpoint], retry: Retry) -> None:
        self._node = node
        self._endpoints = endpoints
        self._retry = retry
        self._stopped = threading.Event()
        self._settled = threading.Event()
        self._lost = threading.Event()
        self.error: ZError | None = None
        """Why the last try failed."""
        self._is_open = False
        self._thread = threading.Thread(target=self._run, name="zenspark-connect", daemon=True)

    def start(self) -> None:
        """Begin to try."""
        self._thread.start()

    def wait_open(self, timeout: float | None) -> bool:
        """Wait for the session; False if it is not there in time."""
        deadline = None if timeout is None else self._node.loop.now() + timeout
        while not self._is_open and not self._stopped.is_set():
            left = None if deadline is None else deadline - self._node.loop.now()
            if left is not None and left <= 0:
                return False
            self._settled.wait(0.1 if left is None else min(left, 0.1))  # short, so that Ctrl-C is noticed
        return self._is_open

    def try_once(self) -> bool:
        """Try each endpoint once; whether one answered."""
        return any(self._connect(endpoint) for endpoint in self._endpoints)

    def stop(self) -> None:
        """Try no more."""
        self._stopped.set()
        self._lost.set()

    def _run(self) -> None:
        tries = 0
        while not self._stopped.is_set():
            if self._is_open or self.try_once():
                tries = 0
                self._lost.wait()
                self._lost.clear()
                if self._is_open:
                    continue
            if self._stopped.wait(self._retry.delay(tries)):
                return
            tries += 1

    def _connect(self, endpoint: Endpoint) -> bool:
        answered = threading.Event()

        def watch(driver: Driver, event: Event) -> None:
            match event:
                case Opened():
                    self._is_open = True
                    self._settled.set()
                case Closed(reason, text):
                    was_open, self._is_open = self._is_open, reason is CloseReason.MAX_LINKS and not self._is_open
                    self.error = LinkError(str(endpoint), text)
                    if was_open:
                        self._lost.set()
            answered.set()

        try:
            self._node.connect(endpoint, watch)
        except ZError as error:
            self.error = error
            logger.debug("no link to %s: %s", endpoint, error)
            return False
        answered.wait(self._node.limits.open_timeout + 1)
        return self._is_open
