"""ListenerRetry: binds a listener, and retries while its address is in use."""

from __future__ import annotations

import logging
import threading

from zenspark.errors import LinkError, SessionClosed
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.backoff import Backoff, RetryPolicy
from zenspark.net.node.node import Node

logger = logging.getLogger("zenspark.net")


class ListenerRetry:
    """Binds a listener, or joins a multicast group, with the retries of a policy."""

    def __init__(self, node: Node, endpoint: Endpoint, retry: RetryPolicy) -> None:
        self._node = node
        self._endpoint = endpoint
        self.policy = retry.of(endpoint)

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
                again = backoff.next_attempt(self._node.loop.now())
                if again is None:
                    raise
                logger.debug("listening failed, retrying in %g s: %s", again - self._node.loop.now(), error)
            self._node.wait(lambda: self._node.is_closed, again - self._node.loop.now())

    def start(self) -> None:
        """Try in a thread, and log a warning if it fails."""
        threading.Thread(target=self._try, name="zenspark-listen", daemon=True).start()

    def _try(self) -> None:
        try:
            self.run()
        except LinkError as error:
            logger.warning("listening failed, no further attempt: %s", error)
