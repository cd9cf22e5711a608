"""PublisherKey: an advanced publisher, as the keys of its cache, token and heartbeats name it (protocol section 18)."""

from __future__ import annotations

import msgspec

from zenspark.api.ext.reorder_buffer import SourceId
from zenspark.errors import ZError
from zenspark.types.arguments import parse_decimal
from zenspark.types.ids import EntityGlobalId, ZenohId
from zenspark.types.timestamps import TimestampId

TIMESTAMPED_PUBLISHER = "uhlc"
"""Takes the place of the entity id in the key of a publisher whose samples have timestamps, not numbers."""


class PublisherKey(msgspec.Struct, frozen=True):
    """An advanced publisher, as the keys of its cache, token and heartbeats name it."""

    zid: ZenohId
    number: str

    @classmethod
    def parse(cls, key: str) -> PublisherKey | None:
        """Parse `<key>/@adv/pub/<zid>/<number>/<more>`; None for other keys."""
        chunks = key.rpartition("/@adv/pub/")[2].split("/")
        try:
            return cls(ZenohId(chunks[0]), chunks[1])
        except (ZError, IndexError):
            return None

    @property
    def source(self) -> SourceId | None:
        """The id by which its samples are recognised: that in their SourceInfo, or in their timestamps."""
        if self.number == TIMESTAMPED_PUBLISHER:
            return TimestampId.from_wire(self.zid.to_wire())
        number = parse_decimal(self.number, bits=32)
        return None if number is None else EntityGlobalId(self.zid, number)
