"""Publications that only this node's session wants: it gets them as they came, in columns, stamped where need be."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from zenspark.router.stamping import Stamping
from zenspark.transport.hearing import Pushes, Stamps, needs_stamp
from zenspark.wire.columns import Kind, Shape


class Stay(Enum):
    """What a node that stamps has to do with the publications of one shape."""

    AS_IT_IS = "a DEL"
    STAMPED = "has a stamp, to be checked"
    UNSTAMPED = "has none"

    @classmethod
    def of(cls, shape: Shape) -> Stay:
        """What it is."""
        if needs_stamp(shape):
            return cls.UNSTAMPED
        return cls.STAMPED if shape.kind is Kind.PUT else cls.AS_IT_IS


def stamped(pushes: Pushes, stays: Sequence[Stay], stamping: Stamping) -> Pushes | None:
    """Publications with stamps, without a look at each; None if each must be looked at."""
    readings = pushes.columns.timestamp[pushes.start : pushes.stop]
    if Stay.STAMPED in stays and not stamping.accepts(max(readings)):
        return None
    if Stay.UNSTAMPED not in stays:
        return pushes
    given: Iterable[int] = stamping.readings(len(readings))
    if len(set(stays)) > 1:
        is_needed = [stay is Stay.UNSTAMPED for stay in stays]
        places = pushes.columns.shape[pushes.start : pushes.stop]
        given = (new if is_needed[place] else own for new, own, place in zip(given, readings, places, strict=True))
    all_rows = array("Q", bytes(8 * pushes.start)) + array("Q", given)
    return msgspec.structs.replace(pushes, stamps=Stamps(stamping.zid, memoryview(all_rows)))
