"""ClientLog: log lines about HTTP clients whose login is refused, or that are disconnected; addresses of clients."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from zenspark.log_throttle import LogThrottle

logger = logging.getLogger("zenspark.web")

UNKNOWN_HOST = "an unknown address"
"""Text in log lines for a client without an address, such as one of a Unix socket."""


class ClientLog:
    """Logs refused logins and disconnected clients: of each reason the first one per interval, with the total.

    Only used in the loop of the server.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._throttle = LogThrottle(clock)

    def refuse_login(self, address: str, reason: str) -> None:
        """Log a login that is refused; the reason has no secret of the client."""
        self._add("refused HTTP login from", address, reason)

    def disconnect(self, address: str, reason: str) -> None:
        """Log a client that is disconnected."""
        self._add("disconnected HTTP client", address, reason)

    def _add(self, event: str, address: str, reason: str) -> None:
        total = self._throttle.count(f"{event}: {reason}")
        if total is not None:
            logger.warning("%s %s: %s; %d in all", event, address, reason, total)


def format_address(client: tuple[str, int | None] | None) -> str:
    """Format the address of a client, as ASGI has it."""
    host, port = client or (UNKNOWN_HOST, None)
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def client_host(client: tuple[str, int | None] | None) -> str:
    """Return the address of a client without its port: failed logins are counted by it."""
    return UNKNOWN_HOST if client is None else client[0]
