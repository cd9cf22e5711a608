"""Traffic as networks have it, drawn from a seed: what publishers timestamp, number, attach and delete, and how much.

A mixture gives one message after the other. A process of eclipse-zenoh publishes them (publisher.py), or they become
rows of a journal at once (`rows`), which is how tests of tables get thousands of them in no time.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from tests.lake_model import Row

PLAIN_PREFIXES = ("fleet", "cell", "site")
ODD_PREFIXES = (
    "plain",
    "with space",
    " space before",
    "space behind ",
    "ünïcödé",
    "日本",
    "robot😀",
    "100%",
    "%20",
    "a%2Fb",
    "a=b",
    "day=2020-01-01",
    "a+b",
    "it's",
    'the "hall"',
    "back\\slash",
    "tab\there",
    "two\nlines",
    "..",
    "_hidden",
    "null",
    "2026-01-01",
    "17",
    "true",
    "[x]",
    "{y}",
    "a&b;c,d:e",
    "e\u0301",
    "\u00e9",
    "long" * 20,
    "__HIVE_DEFAULT_PARTITION__",
)
"""First chunks of keys that Zenoh allows and that are awkward as names of directories."""
ENCODINGS = (
    "zenoh/bytes",
    "text/plain",
    "application/json",
    "application/cbor;v2",
    "application/octet-stream;cdr",
    "image/jpeg",
)
PRIORITIES = ("DATA", "DATA", "DATA", "INTERACTIVE_LOW", "BACKGROUND")
SIZES = (0, 5, 8, 80, 400, 4_000, 70_000, 200_000)
WRAP = 2**32
HOUR = 3_600_000_000
"""In microseconds."""


class Message(NamedTuple):
    """One publication."""

    publisher: int
    key: str
    payload: bytes | None
    """None for a DELETE."""
    encoding: str
    attachment: bytes | None
    priority: str
    source: int | None
    """The place of its key among those of its publisher, if it carries source information,"""
    sn: int | None
    """and its number there."""

    @property
    def is_put(self) -> bool:
        return self.payload is not None


class Topic(NamedTuple):
    """A key that is published again and again."""

    key: str
    encoding: str
    priority: str


class Shares(NamedTuple):
    """How a mixture is composed; shares are between 0 and 1."""

    hot: float = 0.1
    """Messages on one key,"""
    new: float = 0.0
    """on keys that come once,"""
    deleted: float = 0.02
    wild: float = 0.0005
    """and on key expressions with wildcards."""
    attached: float = 0.3
    numbered: float = 0.4
    """Messages with source information,"""
    skipped: float = 0.0
    """whose numbers leave out some,"""
    repeated: float = 0.0
    """or come again."""
    sizes: tuple[int, ...] = (1, 20, 40, 60, 30, 6, 0, 0)
    """How often each of `SIZES` comes."""

    @classmethod
    def drawn(cls, draw: random.Random) -> Shares:
        """Any mixture."""
        skipped, repeated = draw.choice([(0.0, 0.0), (0.02, 0.01)])
        return cls(
            hot=draw.choice([0.0, 0.1, 0.5]),
            new=draw.choice([0.0, 0.02, 0.3]),
            deleted=draw.choice([0.0, 0.02, 0.15]),
            wild=draw.choice([0.0, 0.002, 0.01]),
            attached=draw.choice([0.0, 0.3, 1.0]),
            numbered=draw.choice([0.0, 0.4, 1.0]),
            skipped=skipped,
            repeated=repeated,
            sizes=draw.choice([(1, 2, 20, 40, 30, 6, 0, 0), (2, 4, 8, 40, 40, 20, 4, 1), (5, 5, 90, 0, 0, 0, 0, 0)]),
        )


STEADY = Shares()
"""A mixture that never needs more: its keys are always the same, and nothing is missing."""


class Mixture:
    """Messages of some publishers, one after the other; the same seed gives the same ones."""

    def __init__(
        self,
        seed: int,
        prefixes: tuple[str, ...] = PLAIN_PREFIXES,
        shares: Shares | None = None,
        publishers: int = 4,
    ) -> None:
        """Without `shares` the seed decides on them, too."""
        self.random = random.Random(seed)
        self.seed = seed
        self.prefixes = prefixes
        self.publishers = publishers
        self.topics = [[self._topic(number, place) for place in range(8)] for number in range(publishers)]
        self.shares = shares or Shares.drawn(self.random)
        self._hot = self.random.choice(self.topics[0])
        self._numbers: dict[tuple[int, int], int] = {}
        self._sent = 0

    def _topic(self, publisher: int, place: int) -> Topic:
        draw = self.random
        prefix = self.prefixes[(publisher * 8 + place) % len(self.prefixes)]
        return Topic(f"{prefix}/p{publisher}/t{place}", draw.choice(ENCODINGS), draw.choice(PRIORITIES))

    def has_timestamps(self, publisher: int) -> bool:
        """Whether a publisher adds timestamps."""
        return publisher % 2 == 1

    def messages(self, count: int) -> Iterator[Message]:
        """The next ones."""
        for _ in range(count):
            yield self._message()

    def _message(self) -> Message:
        draw, self._sent = self.random, self._sent + 1
        publisher = draw.randrange(self.publishers)
        chance = draw.random()
        if chance < self.shares.wild:
            return self._wild(publisher)
        if draw.random() < self.shares.new:
            key = f"{draw.choice(self.prefixes)}/p{publisher}/once/{self.seed}/{self._sent}"
            return Message(publisher, key, self._payload(), draw.choice(ENCODINGS), None, "DATA", None, None)
        if draw.random() < self.shares.hot:
            publisher, topic = 0, self._hot
        else:
            topic = draw.choice(self.topics[publisher])
        return self._on_topic(publisher, topic)

    def _on_topic(self, publisher: int, topic: Topic) -> Message:
        draw = self.random
        is_delete = draw.random() < self.shares.deleted
        payload = None if is_delete else self._payload()
        note = struct.pack("<Q", self._sent) if draw.random() < self.shares.attached else None
        place = self.topics[publisher].index(topic)
        sn = self._number(publisher, place) if draw.random() < self.shares.numbered else None
        encoding = "zenoh/bytes" if is_delete else topic.encoding
        return Message(publisher, topic.key, payload, encoding, note, topic.priority, None if sn is None else place, sn)

    def _wild(self, publisher: int) -> Message:
        draw = self.random
        prefix = draw.choice(self.prefixes)
        key = draw.choice([f"{prefix}/**", f"{prefix}/p{publisher}/*", f"{prefix}/*/t1", f"*/p{publisher}/t$*"])
        payload = None if draw.random() < 0.5 else self._payload()
        return Message(publisher, key, payload, "zenoh/bytes", None, "DATA", None, None)

    def _payload(self) -> bytes:
        draw = self.random
        size = draw.choices(SIZES, self.shares.sizes)[0]
        return (struct.pack("<Q", self._sent) + draw.randbytes(min(size, 64)) * (size // 64 + 1))[:size]

    def _number(self, publisher: int, place: int) -> int:
        """The next number of a source: now and then one is left out or comes again."""
        draw = self.random
        last = self._numbers.get((publisher, place), draw.choice([-1, WRAP - 20]))
        skipped, repeated = self.shares.skipped, self.shares.repeated
        step = draw.choices([1, 3, 0], [1 - skipped - repeated, skipped, repeated])[0]
        self._numbers[publisher, place] = last + max(step, int(last < 0))
        return self._numbers[publisher, place] % WRAP


# --- as rows of a journal ---------------------------------------------------------------------------------------------


class Journals:
    """What recorders would have written of a mixture: rows with offsets of their own for each recorder."""

    def __init__(self, mixture: Mixture, recorders: tuple[str, ...], hours: float) -> None:
        """The first row was received so many hours ago."""
        self.mixture = mixture
        self.recorders = recorders
        self._now = time.time_ns() // 1000 - int(hours * HOUR)
        self._ends = dict.fromkeys(recorders, 0)

    def rows(self, count: int, pause: float = 0) -> list[Row]:
        """The next rows, of any of the recorders, received after a pause of so many hours."""
        self._now += int(pause * HOUR)
        return [self._row(message) for message in self.mixture.messages(count)]

    def _row(self, message: Message) -> Row:
        draw = self.mixture.random
        recorder = draw.choice(self.recorders)
        offset, self._ends[recorder] = self._ends[recorder], self._ends[recorder] + 1
        self._now += draw.choice([0, 1, 700, 20_000, 2_000_000])
        return {
            "key": message.key,
            "kind": "PUT" if message.is_put else "DELETE",
            "payload": message.payload,
            "encoding": message.encoding,
            "attachment": message.attachment,
            **self._timestamp(message.publisher),
            "source_zid": None if message.source is None else f"{message.publisher:x}fe1d",
            "source_eid": message.source,
            "source_sn": message.sn,
            "priority": message.priority,
            "congestion": "BLOCK",
            "express": False,
            "reliable": True,
            "received_at": self._now,
            "via": f"{message.publisher:x}fe1d",
            "recorder": recorder,
            "offset": offset,
        }

    def _timestamp(self, publisher: int) -> Row:
        if not self.mixture.has_timestamps(publisher):
            return {"timestamp": None, "timestamp_ntp64": None, "timestamp_id": None}
        timestamp = self._now - self.mixture.random.choice([0, 0, 400, -3_000, 5_000_000])
        seconds, rest = divmod(timestamp, 1_000_000)
        ntp64 = (seconds << 32) + (rest << 32) // 1_000_000
        return {"timestamp": timestamp, "timestamp_ntp64": ntp64, "timestamp_id": f"a{publisher:x}"}
