"""Ordering: samples of advanced publishers, brought into order, each once, and what is missing (protocol section 18).

A publisher that numbers its samples is a source by its id, one that only stamps them by the id in the stamp. While
somebody is being asked for samples of a source, what comes out of order is held back; when all have answered, it is
handed over, and what is still missing is reported. Nothing here does I/O: every method returns what is to be handed
over, in order. Not for several threads at once.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeAlias, TypeVar

import msgspec

from zenspark.types.ids import EntityGlobalId
from zenspark.types.sample import Sample
from zenspark.types.timestamps import Timestamp, TimestampId

MAX_SOURCES = 10_000
"""So many are remembered; the one unheard of for the longest time is forgotten first."""
_SEQUENCE_MODULUS = 1 << 32
_HALF_MODULUS = 1 << 31
"""From this distance on, a number counts as an earlier one: numbers begin again after the largest."""

P = TypeVar("P")


class Miss(msgspec.Struct, frozen=True):
    """Samples that were published and never arrived."""

    source: EntityGlobalId
    """Who published them."""
    nb: int
    """How many they are."""


Delivery: TypeAlias = Sample | Miss


class PublisherState(Generic[P]):
    """One publisher: how far its samples were handed over, and those that are held back."""

    __slots__ = ("held", "last", "pending_queries")

    def __init__(self) -> None:
        self.last: P | None = None
        self.held: dict[P, Sample] = {}
        self.pending_queries = 0
        """How many queries for its samples are in flight."""


SourceId: TypeAlias = EntityGlobalId | TimestampId


class ReorderBuffer:
    """The sources of one advanced subscriber.

    `recovers`: whether what is missing will be asked for. `depth`: how many samples of a source are held back while
    everybody's past samples are asked for. `awaits_history`: whether that is the case from the start.
    """

    def __init__(self, recovers: bool = False, awaits_history: bool = False, depth: int | None = None) -> None:
        self._recovers = recovers
        self._awaits_history = awaits_history
        self._depth = depth
        self._numbered: OrderedDict[EntityGlobalId, PublisherState[int]] = OrderedDict()
        self._stamped: OrderedDict[TimestampId, PublisherState[Timestamp]] = OrderedDict()

    @property
    def numbered(self) -> list[EntityGlobalId]:
        """The sources with numbers, which can be asked for what is missing."""
        return list(self._numbered)

    def receive(self, sample: Sample) -> list[Delivery]:
        """A sample came, by itself or as an answer."""
        source, stamp = sample.source_info, sample.timestamp
        if source is not None:
            return self._receive_numbered(source.source_id, source.source_sn, sample)
        if stamp is not None:
            return self._receive_stamped(stamp, sample)
        return [sample]

    # -- numbers

    def _receive_numbered(self, who: EntityGlobalId, sn: int, sample: Sample) -> list[Delivery]:
        source = _get(self._numbered, who)
        if source.last is None:
            if not self._awaits_history and not source.pending_queries:
                return self._hand_over(source, sn, sample)
            source.held[sn] = sample
            return self._first_of(source) if self._is_full(source) else []
        ahead = (sn - source.last) % _SEQUENCE_MODULUS
        if ahead == 1:
            return self._hand_over(source, sn, sample)
        if ahead == 0 or ahead >= _HALF_MODULUS:
            return []
        if self._recovers:
            source.held[sn] = sample
            return []
        return [Miss(who, ahead - 1), *self._hand_over(source, sn, sample)]

    def _first_of(self, source: PublisherState[int]) -> list[Delivery]:
        sn = _in_order(source.held)[0]
        return self._hand_over(source, sn, source.held.pop(sn))

    def _hand_over(self, source: PublisherState[int], sn: int, sample: Sample) -> list[Delivery]:
        """This sample, and those held back that follow it without a gap."""
        found: list[Delivery] = [sample]
        while (after := source.held.pop((sn + 1) % _SEQUENCE_MODULUS, None)) is not None:
            found.append(after)
            sn = (sn + 1) % _SEQUENCE_MODULUS
        source.last = sn
        return found

    def _release_numbered(self, who: EntityGlobalId, source: PublisherState[int]) -> list[Delivery]:
        """Nobody is asked any more: hand over what there is, and report what is missing in between."""
        found: list[Delivery] = []
        held, source.held = source.held, {}
        for sn in _in_order(held):
            ahead = 1 if source.last is None else (sn - source.last) % _SEQUENCE_MODULUS
            if ahead == 0 or ahead >= _HALF_MODULUS:
                continue
            if ahead > 1:
                found.append(Miss(who, ahead - 1))
            found.append(held[sn])
            source.last = sn
        return found

    # -- stamps

    def _receive_stamped(self, stamp: Timestamp, sample: Sample) -> list[Delivery]:
        source = _get(self._stamped, stamp.get_id())
        if source.last is not None and not stamp > source.last:
            return []
        if not self._awaits_history and not source.pending_queries:
            source.last = stamp
            return [sample]
        source.held.setdefault(stamp, sample)
        return self._release_stamped(source) if self._is_full(source) and not source.pending_queries else []

    def _release_stamped(self, source: PublisherState[Timestamp]) -> list[Delivery]:
        found: list[Delivery] = []
        held, source.held = source.held, {}
        for stamp in sorted(held):
            if source.last is None or stamp > source.last:
                found.append(held[stamp])
                source.last = stamp
        return found

    # -- questions

    def _is_full(self, source: PublisherState[P]) -> bool:
        return self._depth is not None and len(source.held) >= self._depth

    def history_finished(self) -> list[Delivery]:
        """Everybody's past samples have come."""
        self._awaits_history = False
        found: list[Delivery] = []
        for who, numbered in self._numbered.items():
            if not numbered.pending_queries:
                found += self._release_numbered(who, numbered)
        for stamped in self._stamped.values():
            if not stamped.pending_queries:
                found += self._release_stamped(stamped)
        return found

    def query_started(self, who: SourceId) -> None:
        """Somebody asks for samples of this source."""
        self._source(who).pending_queries += 1

    def query_finished(self, who: SourceId) -> list[Delivery]:
        """What was asked of this source was answered."""
        source = self._source(who)
        source.pending_queries = max(source.pending_queries - 1, 0)
        if source.pending_queries or self._awaits_history:
            return []
        if isinstance(who, EntityGlobalId):
            return self._release_numbered(who, self._numbered[who])
        return self._release_stamped(self._stamped[who])

    def _source(self, who: SourceId) -> PublisherState[int] | PublisherState[Timestamp]:
        return _get(self._numbered, who) if isinstance(who, EntityGlobalId) else _get(self._stamped, who)

    def missing_range(self, who: EntityGlobalId) -> str | None:
        """The numbers to ask for because a later one has come; None if none has, or somebody asks already."""
        source = self._numbered.get(who)
        if not self._recovers or source is None or source.pending_queries or not source.held or source.last is None:
            return None
        return self.range_after_last(who)

    def range_after_last(self, who: EntityGlobalId) -> str:
        """The numbers behind the last one handed over."""
        last = _get(self._numbered, who).last
        return ".." if last is None else f"{(last + 1) % _SEQUENCE_MODULUS}.."

    def range_up_to(self, who: EntityGlobalId, newest: int) -> str | None:
        """The numbers to ask for when a source says which is its newest; None if all are there or asked for."""
        is_new = who not in self._numbered
        source = _get(self._numbered, who)
        if source.pending_queries or (is_new and self._awaits_history):
            return None
        if source.last is not None and not 0 < (newest - source.last) % _SEQUENCE_MODULUS < _HALF_MODULUS:
            return None
        return f"{self.range_after_last(who)}{newest}"


K = TypeVar("K")


def _get(sources: OrderedDict[K, PublisherState[P]], who: K) -> PublisherState[P]:
    source = sources.get(who)
    if source is None:
        source = sources[who] = PublisherState()
        if len(sources) > MAX_SOURCES:
            sources.popitem(last=False)
    else:
        sources.move_to_end(who)
    return source


def _in_order(held: dict[int, Sample]) -> list[int]:
    """Numbers in the order they were given, also where they begin again."""
    if not held:
        return []
    one = next(iter(held))
    return sorted(held, key=lambda sn: (sn - one + _HALF_MODULUS) % _SEQUENCE_MODULUS)
