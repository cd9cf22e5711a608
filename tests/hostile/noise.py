"""Hostile sessions drawn from a seed: messages of every kind in any order, valid, mutated and nonsensical.

A session of any role sends batches of what a neighbour may send, of what it may not, and of what is no message at all.
When the router closes it, another one takes its place; some leave by themselves, half of those by a reset.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Self

from fuzz.draws import Draws, network_message
from tests.hostile.raw import RawPeer
from zenspark.wire.codec import encode
from zenspark.wire.messages import (
    Close,
    Fragment,
    Frame,
    InitSyn,
    Join,
    KeepAlive,
    NetworkMessage,
    OpenSyn,
    TransportMessage,
    TransportOam,
)
from zenspark.wire.values import Priority, TimeUnit, WhatAmI, ZenohId

SESSIONS = 12
"""Hostile sessions at any time."""
DEAF = 4
"""One session of so many never reads what it is sent."""
BROKEN = 20
"""One batch of so many is not what it should be: more would only make for more handshakes."""
STAY = 300
"""A session leaves by itself after so many batches, on average."""
MAX_MESSAGES_IN_FRAME = 16
MESSAGE_BYTES = 48
"""The input that one message is drawn from."""
SEND_SECONDS = 1.0
"""A session that the router does not read from for so long leaves."""


class Noise:
    """Hostile sessions with one router, and how much they have sent."""

    def __init__(self, locator: str, seed: int) -> None:
        self.messages = 0
        self.kinds: Counter[str] = Counter()
        """Messages and batches that were sent, by kind."""
        self.sessions = 0
        self._locator = locator
        self._random = Random(seed)
        self._live: list[Session] = []

    def send(self, messages: int) -> None:
        """Send at least so many messages more."""
        stop = self.messages + messages
        while self.messages < stop:
            while len(self._live) < SESSIONS:
                self._join()
            session = self._random.choice(self._live)
            kinds, batch = session.draw()
            if session.exchange(batch):
                self.messages += len(kinds)
                self.kinds.update(kinds)
            else:
                self._live.remove(session)

    def _join(self) -> None:
        with contextlib.suppress(ConnectionError, AssertionError):  # refused, which is a reply
            self._live.append(Session(self._locator, self._random))
        self.sessions += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave with all sessions."""
        for session in self._live:
            session.leave()
        self._live.clear()


class Session:
    """One hostile session."""

    def __init__(self, locator: str, random: Random) -> None:
        self._random = random
        self._reads = bool(random.randrange(DEAF))
        zid = random.choice([None, random.randrange(1, 17)])  # the few that link states are about, or any
        self._peer = RawPeer(locator, zid=zid, whatami=random.choice(list(WhatAmI)), receive_buffer=4096)

    def draw(self) -> tuple[list[str], bytes]:
        """A batch as it goes over the link, and the kinds of the messages in it."""
        if self._random.randrange(BROKEN):
            return self._valid()
        return self._random.choice([self._mutated, self._transport, self._fragment, self._nonsense])()

    def exchange(self, batch: bytes) -> bool:
        """Send a batch and take what there is to read; False if this was the end of the session."""
        try:
            if self._peer.send_bytes(batch, SEND_SECONDS) and self._random.randrange(STAY) and self._drain():
                return True
        except ConnectionError:
            pass
        self.leave()
        return False

    def leave(self) -> None:
        self._random.choice([self._peer.reset, self._peer.close])()

    def _drain(self) -> bool:
        """Read without looking at it; False at the end."""
        with contextlib.suppress(BlockingIOError):
            while self._reads:
                if not self._peer.socket.recv(1 << 16):
                    return False
        return True

    # -- what is sent

    def _messages(self) -> list[NetworkMessage]:
        count = self._random.randint(1, MAX_MESSAGES_IN_FRAME)
        drawn = (network_message(Draws(self._random.randbytes(MESSAGE_BYTES))) for _ in range(count))
        return [message for message in drawn if message is not None]

    def _valid(self) -> tuple[list[str], bytes]:
        messages = self._messages()
        return [type(message).__name__ for message in messages], self._peer.framed(messages)

    def _mutated(self) -> tuple[list[str], bytes]:
        """A frame in which some bytes have changed, or which is cut, or which claims another length."""
        kinds, batch = self._valid()
        changed = bytearray(batch)
        for _ in range(self._random.randint(1, 4)):
            if changed:
                changed[self._random.randrange(len(changed))] = self._random.randrange(256)
        cut = self._random.choice([len(changed), self._random.randint(0, len(changed))])
        return [f"mutated {kind}" for kind in kinds], bytes(changed[:cut])

    def _transport(self) -> tuple[list[str], bytes]:
        """A transport message, most of which have no place in an open session."""
        random = self._random
        zid, number = ZenohId(random.getrandbits(128) | 1), random.getrandbits(random.choice([8, 28, 32]))
        makers: list[Callable[[], TransportMessage]] = [
            KeepAlive,
            lambda: Close(session=bool(number & 1), reason=number & 0xFF),
            lambda: InitSyn(version=9, whatami=WhatAmI.CLIENT, zid=zid),
            lambda: OpenSyn(unit=TimeUnit.S, lease=number, initial_sn=number, cookie=random.randbytes(20)),
            lambda: Join(
                version=9, whatami=WhatAmI.PEER, zid=zid, unit=TimeUnit.S, lease=number, sn_re=0, sn_be=number
            ),
            lambda: TransportOam(id=number & 0xFFFF, zbuf=random.randbytes(9)),
            lambda: Frame(reliable=False, sn=number, priority=random.choice(list(Priority)), msgs=(self._one(),)),
        ]
        message = random.choice(makers)()
        return [type(message).__name__], batch_of(encode(message))

    def _one(self) -> NetworkMessage:
        return next(message for _ in range(100) for message in self._messages())

    def _fragment(self) -> tuple[list[str], bytes]:
        """A part of a message that may have no other parts."""
        random = self._random
        fragment = Fragment(
            more=random.random() < 0.9,
            reliable=random.random() < 0.5,
            sn=random.getrandbits(28),
            priority=random.choice(list(Priority)),
            first=random.random() < 0.5,
            drop=random.random() < 0.1,
            payload=random.randbytes(random.choice([0, 10, 10_000])),
        )
        return ["Fragment"], batch_of(encode(fragment))

    def _nonsense(self) -> tuple[list[str], bytes]:
        return ["nonsense"], batch_of(self._random.randbytes(self._random.choice([0, 1, 8, 300, 60_000])))


def batch_of(data: bytes) -> bytes:
    """Bytes as a batch of a stream."""
    return len(data).to_bytes(2, "little") + data
