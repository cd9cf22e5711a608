"""Discovery: answers who looks for us, looks for others, and connects to those it finds.

Nodes are found by asking a multicast group and by what neighbours tell (gossip). A peer connects to everybody it may;
a client to the first who answers, and to nobody else as long as that session lasts. A node that was tried in vain, or
whose session was lost, is tried again when it answers the next question.
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
from zenspark.router.linkstate.gossip import DiscoveredNode
from zenspark.wire.values import Roles, WhatAmI, ZenohId

logger = logging.getLogger("zenspark.net")

MAX_CONCURRENT_ATTEMPTS = 16
"""How many nodes are tried at once: a flood of invented ones must not become a flood of threads."""


class AutoconnectPolicy(msgspec.Struct, frozen=True):
    """Whom to connect to when found: nodes of these roles, and of some of them only those with a smaller id.

    Two nodes that find each other would both connect; with the second rule only one does.
    """

    roles: Roles = Roles(0)
    only_smaller: Roles = Roles(0)

    def wants(self, own: ZenohId, found: DiscoveredNode) -> bool:
        """Whether this node should connect to that one."""
        bit = found.whatami.bit
        return bool(self.roles & bit) and not (self.only_smaller & bit and own < found.zid)


class Discovery:
    """Finding others, for one node. `endpoint_of` gives a locator the options this node is configured with."""

    def __init__(self, node: Node, endpoint_of: Callable[[str], Endpoint], is_single: bool = False) -> None:
        self._node = node
        self._endpoint_of = endpoint_of
        self._is_single = is_single
        self._scouted = self._gossiped = AutoconnectPolicy()
        self._responders: list[Responder] = []
        self._scouter: Scouter | None = None
        self._trying: set[ZenohId] = set()
        self._lock = threading.Lock()

    # -- from any thread

    def respond(self, settings: ScoutingSettings) -> None:
        """Answer who looks for us."""
        self._responders = open_responders(settings, self._node.identity, self._node.locators)
        for responder in self._responders:
            self._node.loop.call_soon(lambda responder=responder: self._listen(responder))  # type: ignore[misc]

    def scout(self, settings: ScoutingSettings, autoconnect: AutoconnectPolicy) -> None:
        """Look for others in a multicast group."""
        if not autoconnect.roles:
            return
        self._scouted = autoconnect
        self._scouter = Scouter(settings, autoconnect.roles, self._node.identity.zid)
        self._node.loop.call_soon(self._begin_scouting)

    def gossip(self, autoconnect: AutoconnectPolicy) -> None:
        """Connect to nodes that neighbours tell of."""
        self._gossiped = autoconnect

    @property
    def is_trying(self) -> bool:
        """Whether it is connecting to somebody it found."""
        return bool(self._trying)

    def close(self) -> None:
        """Look and answer no more; after the node is closed."""
        for responder in self._responders:
            responder.close()
        if self._scouter is not None:
            self._scouter.close()

    # -- in the loop: events of the node

    def on_node_discovered(self, discovered: DiscoveredNode) -> None:
        """Connect to a node that a neighbour's gossip told of, if the policy for gossip says so."""
        self._consider(discovered, self._gossiped)

    def on_session_lost(self, zid: ZenohId) -> None:
        """Report a node again when it replies to the next SCOUT."""
        self._forget(zid)

    # -- in the loop: scouting

    def _listen(self, responder: Responder) -> None:
        self._node.loop.watch(responder, responder.respond)

    def _begin_scouting(self) -> None:
        assert self._scouter is not None
        for descriptor in self._scouter.filenos():
            self._node.loop.watch(_Descriptor(descriptor), self._take_answers)
        self._ask()

    def _ask(self) -> None:
        """Ask, now and whenever it is time to."""
        self._take_answers()
        assert self._scouter is not None
        due = self._scouter.next_timeout()
        if due is not None and not self._node.is_closed:
            self._node.loop.call_at(due, self._ask)

    def _take_answers(self) -> None:
        assert self._scouter is not None
        for hello in self._scouter.handle(self._node.loop.now()):
            self._consider(DiscoveredNode(hello.zid, hello.whatami, hello.locators), self._scouted)

    def _consider(self, found: DiscoveredNode, autoconnect: AutoconnectPolicy) -> None:
        """Connect to a node, if it is one to connect to."""
        node = self._node
        if node.is_closed or found.zid == node.identity.zid or not autoconnect.wants(node.identity.zid, found):
            return
        if self._is_single and found.whatami is WhatAmI.CLIENT:
            return
        with self._lock:
            busy = found.zid in self._trying or len(self._trying) >= (1 if self._is_single else MAX_CONCURRENT_ATTEMPTS)
            if not busy and not self._is_content(found.zid):
                self._trying.add(found.zid)
                threading.Thread(target=self._connect, args=(found,), name="zenspark-found", daemon=True).start()
                return
        if not node.has_session(found.zid):
            self._forget(found.zid)  # so that it is reported again

    def _is_content(self, zid: ZenohId) -> bool:
        return bool(self._node.drivers) if self._is_single else self._node.has_session(zid)

    # -- in a thread of its own

    def _connect(self, found: DiscoveredNode) -> None:
        """Try one locator after the other."""
        node = self._node
        try:
            for locator in found.locators:
                if node.is_closed:
                    return
                try:
                    attempt = ConnectAttempt(node, self._endpoint_of(locator.text), found.zid)
                except UsageError as error:
                    logger.debug("%s cannot be used: %s", locator.text, error)
                    continue
                if attempt.run():
                    break
                logger.debug("%s %s was found but not reached: %s", found.whatami.text, found.zid, attempt.error)
        finally:
            with self._lock:
                self._trying.discard(found.zid)
            node.wake()
        if not node.has_session(found.zid):
            self._forget(found.zid)

    def _forget(self, zid: ZenohId) -> None:
        """Hear of a node again when it answers."""
        if self._scouter is not None:
            self._scouter.asking.forget(zid)


class _Descriptor:
    """A descriptor that the loop can watch."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor
