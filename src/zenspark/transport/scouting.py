"""Scouting: a node sends SCOUT to a multicast group, and matching nodes reply with HELLO.

`ScoutClient` searches. It sends SCOUT at once, then after 1, 2, 4, 8 seconds and every 8 from there on, until its owner
stops it, and reports each node once, or again when its HELLO changes. `ScoutResponder` replies; it keeps no state.

Datagrams may come from any host: those that are no scouting message, and those sent by this node, are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenspark.errors import DecodeError
from zenspark.transport.handshake import Identity
from zenspark.wire.codec import decode_scouting, encode
from zenspark.wire.messages import Hello, Scout, ScoutingMessage
from zenspark.wire.values import PROTOCOL_VERSION, Locator, Roles, ZenohId

FIRST_PERIOD_SECONDS, MAX_PERIOD_SECONDS = 1.0, 8.0
"""Seconds between SCOUTs, at first and at most."""
MAX_KNOWN_NODES = 10_000
"""Nodes remembered: a flood of forged HELLOs must not fill the memory."""
MAX_LOCATOR_BYTES = 255
"""Longest locator whose length fits its one-byte field."""


class ScoutClient:
    """Searches for nodes of certain roles. `zid` is this node's; without it, the client may find itself.

    The owner sends the result of `handle_timeout`, at the start and whenever `next_timeout` has come.
    """

    def __init__(self, what: Roles, zid: ZenohId | None = None) -> None:
        self.what = what
        self.zid = zid
        self.scout = encode(Scout(version=PROTOCOL_VERSION, what=what, zid=zid))
        """The encoded SCOUT."""
        self._hellos: dict[ZenohId, Hello] = {}
        self._period = FIRST_PERIOD_SECONDS
        self._due: float | None = None

    def next_timeout(self) -> float | None:
        """Time of the next SCOUT; None before the first."""
        return self._due

    def handle_timeout(self, now: float) -> bytes | None:
        """Return the SCOUT to send if it is due, and schedule the next one."""
        if self._due is None:
            self._due = now + self._period
            return self.scout
        if now < self._due:
            return None
        self._period = min(2 * self._period, MAX_PERIOD_SECONDS)
        self._due = now + self._period
        return self.scout

    def receive(self, datagram: bytes) -> Hello | None:
        """Store and return the HELLO in a datagram, if it has a requested role and is new or changed.

        A HELLO without locators cannot be connected to: clients reply like that.
        """
        hello = _decode(datagram)
        if not isinstance(hello, Hello) or hello.zid == self.zid or not self.what & hello.whatami.bit:
            return None
        previous = self._hellos.get(hello.zid)
        if previous == hello or (previous is None and len(self._hellos) >= MAX_KNOWN_NODES):
            return None
        self._hellos[hello.zid] = hello
        return hello

    @property
    def hellos(self) -> tuple[Hello, ...]:
        """Latest HELLO of every node found so far."""
        return tuple(self._hellos.values())

    def forget(self, zid: ZenohId) -> None:
        """Report a node again on its next HELLO: its session was lost."""
        self._hellos.pop(zid, None)


class ScoutResponder:
    """Replies to other nodes' SCOUTs: send `hello` when `should_reply`."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def should_reply(self, datagram: bytes) -> bool:
        """Whether a datagram is another node's SCOUT for this node's role.

        The protocol version is ignored: compatibility is for the handshake to check.
        """
        scout = _decode(datagram)
        if not isinstance(scout, Scout) or scout.zid == self.identity.zid:
            return False
        return bool(scout.what & self.identity.whatami.bit)

    def hello(self, locators: Sequence[Locator]) -> bytes:
        """Encode the HELLO; `locators` are this node's addresses as reachable from the sender of the SCOUT."""
        encodable = tuple(locator for locator in locators if len(locator.text.encode()) <= MAX_LOCATOR_BYTES)
        return encode(
            Hello(
                version=PROTOCOL_VERSION,
                whatami=self.identity.whatami,
                zid=self.identity.zid,
                locators=encodable,
            )
        )


def _decode(datagram: bytes) -> ScoutingMessage | None:
    try:
        return decode_scouting(datagram)
    except DecodeError:
        return None
