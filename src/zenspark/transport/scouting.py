"""Finding other nodes: one asks a multicast group with SCOUT, who fits the question answers with HELLO.

`ScoutClient` is who looks for others. It asks at once, then after 1, 2, 4, 8 seconds and every 8 from there on, for as long
as its owner likes, and reports each node once, or again when the node is to be found elsewhere. `ScoutResponder` is who
can be found; it keeps no state.

Datagrams come from anybody: what is not a scouting message, and what this node said itself, is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenspark.errors import DecodeError
from zenspark.transport.handshake import Identity
from zenspark.wire.codec import decode_scouting, encode
from zenspark.wire.messages import Hello, Scout, ScoutingMessage
from zenspark.wire.values import PROTOCOL_VERSION, Locator, Roles, ZenohId

FIRST_PERIOD, LONGEST_PERIOD = 1.0, 8.0
"""Seconds between questions, at first and at last."""
MAX_KNOWN_NODES = 10_000
"""Nodes remembered: a flood of invented HELLOs must not fill the memory."""
MAX_LOCATOR_BYTES = 255
"""What the length of a locator can say."""


class ScoutClient:
    """Looks for nodes of certain roles. `zid` is our own; without one, we may find ourselves.

    The owner sends what `handle_timeout` returns, at the start and whenever `next_timeout` has come.
    """

    def __init__(self, what: Roles, zid: ZenohId | None = None) -> None:
        self.what = what
        self.zid = zid
        self.scout = encode(Scout(version=PROTOCOL_VERSION, what=what, zid=zid))
        """The question, as bytes."""
        self._found: dict[ZenohId, Hello] = {}
        self._period = FIRST_PERIOD
        self._due: float | None = None

    def next_timeout(self) -> float | None:
        """When to ask again; None before the first question."""
        return self._due

    def handle_timeout(self, now: float) -> bytes | None:
        """The question, if it is time for it."""
        if self._due is None:
            self._due = now + self._period
            return self.scout
        if now < self._due:
            return None
        self._period = min(2 * self._period, LONGEST_PERIOD)
        self._due = now + self._period
        return self.scout

    def receive(self, datagram: bytes) -> Hello | None:
        """The node that answered, if it is one we asked for and did not know.

        One without locators cannot be connected to: that is how clients answer.
        """
        hello = _decode(datagram)
        if not isinstance(hello, Hello) or hello.zid == self.zid or not self.what & hello.whatami.bit:
            return None
        known = self._found.get(hello.zid)
        if known == hello or (known is None and len(self._found) >= MAX_KNOWN_NODES):
            return None
        self._found[hello.zid] = hello
        return hello

    @property
    def found(self) -> tuple[Hello, ...]:
        """Every node that answered so far."""
        return tuple(self._found.values())

    def forget(self, zid: ZenohId) -> None:
        """Report this node again when it answers: its session was lost."""
        self._found.pop(zid, None)


class ScoutResponder:
    """Can be found by others: `hello` is what to send back when `is_asked`."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def is_asked(self, datagram: bytes) -> bool:
        """Whether this is somebody else's question for nodes such as we are.

        Its protocol version does not matter: whether we can talk is for the handshake to find out.
        """
        scout = _decode(datagram)
        if not isinstance(scout, Scout) or scout.zid == self.identity.zid:
            return False
        return bool(scout.what & self.identity.whatami.bit)

    def hello(self, locators: Sequence[Locator]) -> bytes:
        """The answer; `locators` is where we can be reached from where the question came."""
        sayable = tuple(locator for locator in locators if len(locator.text.encode()) <= MAX_LOCATOR_BYTES)
        return encode(
            Hello(
                version=PROTOCOL_VERSION,
                whatami=self.identity.whatami,
                zid=self.identity.zid,
                locators=sayable,
            )
        )


def _decode(datagram: bytes) -> ScoutingMessage | None:
    try:
        return decode_scouting(datagram)
    except DecodeError:
        return None
