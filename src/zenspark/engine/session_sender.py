"""SessionSender: sends declarations, queries and replies of a session to its router; publications: `publisher.py`.

It puts the namespace in front of keys, and declares nothing once the session is closed: then the node closes all its
links, which undeclares everything at once.
"""

from __future__ import annotations

from zenspark.engine.namespace import Namespace
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.node.node import Node
from zenspark.wire import messages
from zenspark.wire.values import QoS


class SessionSender:
    """Sends the messages of one session to the router. Guarded by the node's lock."""

    def __init__(self, node: Node, namespace: Namespace) -> None:
        self._node = node
        self._namespace = namespace
        self.is_closed = False
        """Whether the session was closed."""

    def send(self, message: messages.NetworkMessage) -> list[LinkDriver]:
        """Route a message of this session; returns the links it was sent on."""
        return self._node.send_local(self._namespace.add_to_message(message))

    def declare(self, body: messages.AnyDeclaration) -> None:
        """Send a declaration or undeclaration, unless the session is closed."""
        if not self.is_closed:
            self.send(messages.Declare(qos=QoS.DECLARE, body=body))
