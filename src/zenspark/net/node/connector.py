"""Connector: keeps a session to an endpoint open, and reconnects with backoff.

It has a thread, because opening a link blocks. If the other node refuses the session because there is one already
(simultaneous open), that one counts: the connector waits for its end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from zenspark.errors import CloseReason, LinkError, ZError
from zenspark.net.backoff import Backoff, RetryPolicy
from zenspark.net.io.link_driver import ConnectionDriver
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.node import Node
from zenspark.transport.connection import ConnectionEvent
from zenspark.transport.handshake import Opened
from zenspark.transport.receiver import Closed
from zenspark.wire.values import ZenohId

logger = logging.getLogger("zenspark.net")


class ConnectAttempt:
    """One attempt to open a session to one endpoint."""

    def __init__(self, node: Node, endpoint: Endpoint, expected: ZenohId | None = None) -> None:
        self._node = node
        self._endpoint = endpoint
        self._expected = expected
        self._has_link = False
        self._has_result = False
        self.zid: ZenohId | None = None
        """The node with which there is a session, over this link or another one."""
        self.reason: CloseReason | None = None
        self.error: ZError | None = None

    def run(self) -> bool:
        """Connect, and wait for the session; returns whether there is one."""
        try:
            self._node.connect(self._endpoint, self._watch, self._expected)
        except ZError as error:
            self.error = error
            return False
        self._has_link = True
        timeout = self._node.limits.open_timeout + 1
        self._node.wait(lambda: self._has_result or self._node.is_closed, timeout)
        return self.zid is not None

    def _watch(self, driver: ConnectionDriver, event: ConnectionEvent) -> None:
        match event:
            case Opened(parameters):
                self.zid = parameters.peer.zid
            case Closed(reason, text):
                if not self._has_result and reason is CloseReason.MAX_LINKS:
                    self.zid = driver.connection.dialed_zid
                self.reason = reason
                self.error = LinkError(self._endpoint.locator.text, text)
        self._has_result = True

    @property
    def problem(self) -> str:
        """Reason why there is no session, without the endpoint."""
        return self.error.problem if isinstance(self.error, LinkError) else str(self.error or "no session was opened")

    @property
    def is_in_handshake(self) -> bool:
        """Whether the link is open and the handshake has not ended yet."""
        return self._has_link and not self._has_result

    @property
    def is_open(self) -> bool:
        """Whether the session is open."""
        return self.zid is not None and self._node.has_session(self.zid)


class Connector:
    """Keeps a session open to the first of several endpoints that can be reached."""

    def __init__(self, node: Node, endpoints: Sequence[Endpoint], retry: RetryPolicy) -> None:
        self._node = node
        self._endpoints = endpoints
        self._retry = retry.of(endpoints[0])
        self._attempt: ConnectAttempt | None = None
        self._current: ConnectAttempt | None = None
        self._has_ended = False
        self.error: ZError | None = None
        """Error of the last attempt that failed; None if none has failed."""
        self._thread = threading.Thread(target=self._run, name="zenspark-connect", daemon=True)

    @property
    def policy(self) -> RetryPolicy:
        """The retry policy: as configured, or by the options of the endpoint."""
        return self._retry

    @property
    def is_open(self) -> bool:
        """Whether the session is open."""
        return self._attempt is not None and self._attempt.is_open

    @property
    def endpoints(self) -> list[str]:
        """The locators of the endpoints, without their private config."""
        return [endpoint.locator.text for endpoint in self._endpoints]

    @property
    def problem(self) -> ZError | None:
        """Error of the failed attempt or closed session because of which there is no session; None if there is one."""
        if self.is_open:
            return None
        failed = self._current is not None and self._current is not self._attempt and self._current.error
        return failed or (self._attempt.error if self._attempt is not None else self.error)

    @property
    def is_in_handshake(self) -> bool:
        """Whether the link is open and the handshake has not ended yet."""
        return self._current is not None and self._current.is_in_handshake

    @property
    def has_ended(self) -> bool:
        """Whether the connector makes no further attempts: the time limit is over, or it was stopped."""
        return self._has_ended or self._node.is_closed

    def start(self) -> None:
        """Start the thread that connects."""
        self._thread.start()

    def wait_open(self, timeout: float | None) -> bool:
        """Wait until the session is open; False if it is not within `timeout` seconds, or the connector has ended."""
        self._node.wait(lambda: self.is_open or self.has_ended, timeout)
        return self.is_open

    def stop(self, timeout: float = 1.0) -> None:
        """Stop connecting; an attempt in progress may take a while, but its result is ignored."""
        self._has_ended = True
        self._node.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        backoff = Backoff(self._retry, self._node.loop.now())
        while not self.has_ended:
            if self._connect_to_first():
                # A session that was open is reconnected without time limit.
                backoff = Backoff(RetryPolicy(*self._periods), self._node.loop.now())
                self._node.wait(lambda: self.has_ended or not self.is_open)
            retry_at = backoff.next_attempt(self._node.loop.now())
            if retry_at is None:
                self._has_ended = True
            else:
                self._node.wait(lambda: self.has_ended, retry_at - self._node.loop.now())
        self._node.wake()

    @property
    def _periods(self) -> tuple[int, int, float]:
        return self._retry.period_init_ms, self._retry.period_max_ms, self._retry.period_increase_factor

    def _connect_to_first(self) -> bool:
        """Try each endpoint once; returns whether there is a session."""
        for endpoint in self._endpoints:
            if self.has_ended:
                return False
            attempt = self._current = ConnectAttempt(self._node, endpoint)
            if attempt.run() and attempt.is_open:
                self._attempt = attempt
                self._node.wake()
                return True
            self.error = attempt.error or self.error
            if attempt.reason is CloseReason.CONNECTION_TO_SELF:
                logger.warning(
                    "connecting to %s failed: it is this node itself; remove it from connect/endpoints",
                    endpoint.locator.text,
                )
                self._has_ended = len(self._endpoints) == 1
            else:
                logger.debug("connecting to %s failed: %s", endpoint.locator.text, attempt.problem)
        return False
