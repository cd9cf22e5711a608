"""The interfaces a node calls: the session it serves, the observer of its events, and watchers of single sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from zenspark.net.io.link_driver import ConnectionDriver
from zenspark.router.face import Face
from zenspark.router.linkstate.gossip import DiscoveredNode
from zenspark.transport.connection import ConnectionEvent
from zenspark.transport.counters import ReceiveCounters
from zenspark.wire.columns import PushRun
from zenspark.wire.messages import NetworkMessage
from zenspark.wire.values import TimestampStack, ZenohId

SessionWatcher = Callable[[ConnectionDriver, ConnectionEvent], None]
"""Receives the events of one session that this node opens: `Opened` and `Closed`."""


class GroupMemberInfo(msgspec.Struct, frozen=True):
    """Addresses and counters of a member of a multicast group; a neighbour with a session has a driver instead."""

    src: str
    dst: str
    group: str
    mtu: int
    is_qos: bool
    receive_counters: ReceiveCounters


Neighbour = ConnectionDriver | GroupMemberInfo
"""A neighbour by its link: the driver of its session, or its membership of a group."""


class LocalSession(Protocol):
    """The session of this node, as its router sees it. Called by the loop or by a sending thread, with the lock."""

    def receive(self, message: NetworkMessage, source: Face, reliable: bool) -> None:
        """Receive a message of the router, caused by a message of `source`, which arrived reliably or not.

        Without such a message (a neighbour left, a timeout) the source is the session's own face.
        """

    def try_handle(self, face: Face, message: NetworkMessage) -> bool:
        """Handle a message of a neighbour without the router; False if the router has to."""

    def receive_push_run(self, face: Face, pushes: PushRun, keys: list[str | None]) -> None:
        """Receive publications of a neighbour, valid during the call; `keys` are those of the templates to deliver."""

    def on_neighbour_joined(self, face: Face, neighbour: Neighbour) -> None:
        """A neighbour has joined: by a session, or as a member of a group."""

    def on_neighbour_left(self, face: Face, neighbour: Neighbour) -> None:
        """A neighbour has left."""


class NodeObserver(Protocol):
    """Receives the events of a node, in the loop. Every method does nothing unless it is overridden."""

    def on_callback_waiting(self, is_waiting: bool) -> None:
        """Report that a user callback starts (True) or stops (False) waiting for a link to take its unsent bytes."""
        return

    def on_node_discovered(self, discovered: DiscoveredNode) -> None:
        """A neighbour's gossip contained a node that this node has no session with."""
        return

    def on_session_lost(self, zid: ZenohId) -> None:
        """The session with a neighbour has ended."""
        return

    def record_route(self, stack: TimestampStack | None) -> TimestampStack | None:
        """Return the timestamp stack of a message that is routed here, with the timestamp of this node."""
        return stack

    def on_failed(self) -> None:
        """The loop has failed; the node closes itself afterwards."""
        return


class IgnoredNodeEvents(NodeObserver):
    """A node observer that ignores all events."""
