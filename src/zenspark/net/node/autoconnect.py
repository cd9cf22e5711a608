"""Autoconnect: replies to SCOUT messages, scouts for other nodes, and connects to those it discovers.

Nodes are discovered by scouting in a multicast group and by the gossip of neighbours. A peer connects to every node its
policy allows; a client to the first one that replies, and to no other while that session is open. A node that could not
be reached, or whose session was lost, is tried again when it replies to the next SCOUT.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec

from zenspark.errors import UsageError
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node.connector import ConnectAttempt
from zenspark.net.node.node import Node
from zenspark.net.node.scouting import Responder, Scouter, ScoutingSettings, open_responders
from zenspark.router.face import describe_neighbour
from zenspark.router.linkstate.gossip import DiscoveredNode
from zenspark.wire.values import Roles, WhatAmI, ZenohId

logger = logging.getLogger("zenspark.net")

MAX_CONCURRENT_ATTEMPTS = 16
"""Maximum of discovered nodes to connect to at a time: a flood of forged ones must not become a flood of threads."""


class AutoconnectPolicy(msgspec.Struct, frozen=True):
    """Selects the discovered nodes to connect to: those of `roles`, and of `only_smaller` only those with a smaller id.

    Two nodes that discover each other would both connect; with the second rule only one does.
    """

    roles: Roles = Roles(0)
    only_smaller: Roles = Roles(0)

    def allows(self, zid: ZenohId, discovered: DiscoveredNode) -> bool:
        """Return whether the node with an id should connect to a discovered one."""
        bit = discovered.whatami.bit
        return bool(self.roles & bit) and not (self.only_smaller & bit and zid < discovered.zid)


class Autoconnector:
    """Connects one node to those it discovers. `endpoint_of` adds the configured options to a locator.

    `is_single` is for clients, which have one session at a time.
    """

    def __init__(self, node: Node, endpoint_of: Callable[[str], Endpoint], is_single: bool = False) -> None:
        self._node = node
        self._endpoint_of = endpoint_of
        self._is_single = is_single
        self._scout_policy = self._gossip_policy = AutoconnectPolicy()
        self._responders: list[Responder] = []
        self._scouter: Scouter | None = None
        self._connecting: set[ZenohId] = set()
        self._lock = threading.Lock()

    # -- from any thread

    def respond(self, settings: ScoutingSettings) -> None:
        """Start to reply to SCOUT messages."""
        self._responders = open_responders(settings, self._node.identity, self._node.locators)
        for responder in self._responders:
            self._node.loop.call_soon(lambda responder=responder: self._watch(responder))  # type: ignore[misc]

    def scout(self, settings: ScoutingSettings, policy: AutoconnectPolicy) -> None:
        """Start to scout in a multicast group, and connect to the nodes that a policy allows."""
        if not policy.roles:
            return
        self._scout_policy = policy
        self._scouter = Scouter(settings, policy.roles, self._node.identity.zid)
        self._node.loop.call_soon(self._start_scouting)

    def set_gossip_policy(self, policy: AutoconnectPolicy) -> None:
        """Set the policy for nodes discovered by gossip."""
        self._gossip_policy = policy

    @property
    def is_connecting(self) -> bool:
        """Whether a connection to a discovered node is in progress."""
        return bool(self._connecting)

    def close(self) -> None:
        """Stop scouting and replying, after the node is closed."""
        for responder in self._responders:
            responder.close()
        if self._scouter is not None:
            self._scouter.close()

    # -- in the loop: events of the node

    def on_node_discovered(self, discovered: DiscoveredNode) -> None:
        """Connect to a node in a neighbour's gossip, if the policy for gossip allows it."""
        self._connect_if_allowed(discovered, self._gossip_policy)

    def on_session_lost(self, zid: ZenohId) -> None:
        """Have the next HELLO of a node whose session was lost reported again, so that it is connected to once more."""
        self._forget(zid)

    # -- in the loop: scouting

    def _watch(self, responder: Responder) -> None:
        self._node.loop.watch(responder, responder.respond)

    def _start_scouting(self) -> None:
        assert self._scouter is not None
        for descriptor in self._scouter.filenos():
            self._node.loop.watch(_Descriptor(descriptor), self._receive_hellos)
        self._scout()

    def _scout(self) -> None:
        """Send SCOUT if it is due, and schedule the next one."""
        self._receive_hellos()
        assert self._scouter is not None
        due = self._scouter.next_timeout()
        if due is not None and not self._node.is_closed:
            self._node.loop.call_at(due, self._scout)

    def _receive_hellos(self) -> None:
        assert self._scouter is not None
        for hello in self._scouter.handle(self._node.loop.now()):
            self._connect_if_allowed(DiscoveredNode(hello.zid, hello.whatami, hello.locators), self._scout_policy)

    def _connect_if_allowed(self, discovered: DiscoveredNode, policy: AutoconnectPolicy) -> None:
        """Connect to a discovered node, if the policy allows it and there is no session."""
        node = self._node
        if node.is_closed or discovered.zid == node.identity.zid or not policy.allows(node.identity.zid, discovered):
            return
        if self._is_single and discovered.whatami is WhatAmI.CLIENT:
            return
        with self._lock:
            is_busy = discovered.zid in self._connecting or len(self._connecting) >= (
                1 if self._is_single else MAX_CONCURRENT_ATTEMPTS
            )
            if not is_busy and not self._has_enough_sessions(discovered.zid):
                self._connecting.add(discovered.zid)
                threading.Thread(
                    target=self._connect, args=(discovered,), name="zenspark-autoconnect", daemon=True
                ).start()
                return
        if not node.has_session(discovered.zid):
            self._forget(discovered.zid)  # so that its next HELLO is reported again

    def _has_enough_sessions(self, zid: ZenohId) -> bool:
        return bool(self._node.drivers) if self._is_single else self._node.has_session(zid)

    # -- in a thread per node

    def _connect(self, discovered: DiscoveredNode) -> None:
        """Connect to the first locator of a discovered node that can be reached."""
        node = self._node
        try:
            for locator in discovered.locators:
                if node.is_closed:
                    return
                neighbour = describe_neighbour(discovered.whatami, discovered.zid, locator.text)
                try:
                    attempt = ConnectAttempt(node, self._endpoint_of(locator.text), discovered.zid)
                except UsageError as error:
                    logger.debug("ignored locator of discovered %s: %s", neighbour, error)
                    continue
                if attempt.run():
                    break
                logger.debug("connecting to discovered %s failed: %s", neighbour, attempt.problem)
        finally:
            with self._lock:
                self._connecting.discard(discovered.zid)
            node.wake()
        if not node.has_session(discovered.zid):
            self._forget(discovered.zid)

    def _forget(self, zid: ZenohId) -> None:
        """Have the next HELLO of a node reported again."""
        if self._scouter is not None:
            self._scouter.client.forget(zid)


class _Descriptor:
    """A descriptor as an object that the loop can watch."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor
