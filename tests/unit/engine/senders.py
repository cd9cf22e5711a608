"""A sender of a session that records what is sent."""

from __future__ import annotations

from typing import Any

from zenspark.engine.session_sender import SessionSender
from zenspark.net.io.link_driver import LinkDriver
from zenspark.wire import messages


class RecordingSender(SessionSender):
    """Keeps sent messages instead of routing them."""

    def __init__(self) -> None:
        self.is_closed = False
        self.sent: list[Any] = []

    def send(self, message: messages.NetworkMessage) -> list[LinkDriver]:
        self.sent.append(message)
        return []

    @property
    def declared(self) -> list[Any]:
        """The bodies of the DECLAREs sent."""
        return [message.body for message in self.sent if isinstance(message, messages.Declare)]
