"""Random samples of several recorders, with everything in them that makes derived tables difficult.

Some are stamped and some not, stamps repeat and are late, some DELETE, some have wildcards in their keys; sources
number them in SourceInfo or in attachments as rmw_zenoh does, lose some and repeat others, and wrap around.
"""

from __future__ import annotations

import random

from zenoh.ext import Int64, z_serialize

from tests.lake_model import Row
from tests.rows import EPOCH, sample

KEYS = [f"{a}/{b}" for a in "xyz" for b in "12345"] + ["x", "long" * 30 + "/1", "ü/ß"]
WILD = ["x/*", "**", "y/**", "x/$*", "*/3"]
STAMPS = [*range(1, 60), -1, -2, -(2**63)]  # the last are the greatest: the bits are unsigned
RECORDERS = ("robot", "base")


class RandomSamples:
    """Makes random samples, each of a recorder that counts its offsets."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rows: list[Row] = []
        self._offsets = dict.fromkeys(RECORDERS, 0)
        self._numbers: dict[tuple[str, int | None], int] = {
            ("a", 1): 2**32 - 20,
            ("a", 2): 5,
            ("gid", None): 2**32 - 20,
        }

    def batch(self, count: int) -> list[Row]:
        """New samples, those of each recorder one behind the other."""
        made = [self._sample() for _ in range(count)]
        found = []
        for recorder in RECORDERS:
            own = [row for row in made if row["recorder"] == recorder]
            found += numbered(own, self._offsets[recorder], recorder)
            self._offsets[recorder] += len(own)
        self.rows += found
        return found

    def _sample(self) -> Row:
        dice = self.dice
        key = dice.choice(KEYS) if dice.random() < 0.93 else dice.choice(WILD)
        received = EPOCH + dice.randrange(0, 300_000_000)
        deletes = dice.random() < 0.2
        row: Row = {
            "key": key,
            "kind": "DELETE" if deletes else "PUT",
            "payload": None if deletes else dice.randbytes(dice.randrange(0, 20)),
            "received_at": received,
            "recorder": dice.choice(RECORDERS),
        }
        return row | self._timestamp(received) | self._source()

    def _timestamp(self, received: int) -> Row:
        if self.dice.random() < 0.4:
            return {"timestamp": None, "timestamp_ntp64": None, "timestamp_id": None}
        clock = self.dice.choice(["9", "a", "10"])
        stamp = self.dice.choice(STAMPS) if self.dice.random() < 0.5 else received // 1_000_000 << 32
        late = self.dice.randrange(-1000, 100_000)
        return {"timestamp": received - late, "timestamp_ntp64": stamp, "timestamp_id": clock}

    def _source(self) -> Row:
        nothing: Row = {"source_zid": None, "source_eid": None, "source_sn": None, "attachment": None}
        if self.dice.random() < 0.3:
            return nothing | {"attachment": self.dice.choice([None, b"note", b"x" * 33])}
        zid, eid = self.dice.choice(list(self._numbers))
        self._numbers[zid, eid] += self.dice.choice([1, 1, 1, 1, 1, 2, 4])
        number = self._numbers[zid, eid] - (self.dice.randrange(0, 8) if self.dice.random() < 0.1 else 0)
        if eid is not None:
            return nothing | {"source_zid": zid, "source_eid": eid, "source_sn": number % 2**32}
        return nothing | {"attachment": bytes(z_serialize((Int64(number), Int64(5), bytes(range(16)))))}


def numbered(rows: list[Row], start: int, recorder: str) -> list[Row]:
    """Rows of a journal from an offset on: what is not given for one is that of a sample with its number."""
    return [sample(offset) | row | {"recorder": recorder, "offset": offset} for offset, row in enumerate(rows, start)]
