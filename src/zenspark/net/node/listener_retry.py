"""ListenerRetry: binds a listener or joins a multicast group, and retries while that fails."""

from __future__ import annotations

import logging
import threading

from zenspark.errors import LinkError, SessionClosed
from zenspark.net.backoff import Backoff, RetryPolicy
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.node import Node

logger = logging.getLogger("zenspark.net")


class ListenerRetry:
    """Binds a listener, or joins a multicast group, with the retries of a policy."""

    def __init__(self, node: Node, endpoint: Endpoint, retry: RetryPolicy) -> None:
        self._node = node
        self._endpoint = endpoint
        self.policy = retry.of(endpoint)
        self._action = "joining a multicast group" if endpoint.is_group else "listening"

    def run(self) -> None:
        """Try until it succeeds or the node is closed; raises the last LinkError when the time limit is over."""
        backoff = Backoff(self.policy, self._node.loop.now())
        while not self._node.is_closed:
            try:
                self._node.join(self._endpoint) if self._endpoint.is_group else self._node.listen(self._endpoint)
                return
            except SessionClosed:
                return
            except LinkError as error:
                retry_at = backoff.next_attempt(self._node.loop.now())
                if retry_at is None:
                    raise
                delay = retry_at - self._node.loop.now()
                logger.debug("%s failed, retrying in %g s: %s", self._action, delay, error)
            self._node.wait(lambda: self._node.is_closed, retry_at - self._node.loop.now())

    def start(self) -> None:
        """Try in a thread, and log a warning if it fails."""
        threading.Thread(target=self._try, name="zenspark-listen", daemon=True).start()

    def _try(self) -> None:
        try:
            self.run()
        except LinkError as error:
            self.log_failure(error)

    def log_failure(self, error: LinkError) -> None:
        """Log that the last attempt has failed."""
        logger.warning("%s failed, no further attempt: %s", self._action, error)
