"""ReorderBuffer: samples of advanced publishers in order, without duplicates or gaps unnoticed (protocol section 18).

A publisher that numbers its samples is known by its id, one that only timestamps them by the id in the timestamps.
While samples of a publisher are queried, those that arrive out of order are held back; when all queries have finished,
they are delivered, and what is still missing is reported. Nothing here does I/O: every method returns what is to be
delivered, in order. Not thread-safe.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeAlias, TypeVar

import msgspec

from zenspark.types.ids import SOURCE_SN_MODULUS, EntityGlobalId
from zenspark.types.sample import Sample
from zenspark.types.timestamps import Timestamp, TimestampId

MAX_PUBLISHERS = 10_000
"""Most publishers whose state is kept; that of the one silent for the longest time is dropped first."""
_HALF_MODULUS = SOURCE_SN_MODULUS // 2
"""Distance from which on a number counts as an earlier one: numbers start again at 0 after the largest."""

P = TypeVar("P")


class Miss(msgspec.Struct, frozen=True):
    """Samples that were published and never arrived.

    Attributes:
        source: Id of the publisher.
        nb: How many samples are missing.

    Example:
        >>> for miss in subscriber.sample_miss_listener():
        ...     print(miss.source, "lost", miss.nb)
    """

    source: EntityGlobalId
    nb: int


Delivery: TypeAlias = Sample | Miss


class PublisherState(Generic[P]):
    """The last sample of one publisher that was delivered, and those that are held back."""

    __slots__ = ("held", "last", "pending_queries")

    def __init__(self) -> None:
        self.last: P | None = None
        self.held: dict[P, Sample] = {}
        self.pending_queries = 0
        """Number of pending queries for its samples."""


SourceId: TypeAlias = EntityGlobalId | TimestampId


class ReorderBuffer:
    """The publishers of one advanced subscriber.

    `recovers`: whether missing samples will be queried. `depth`: how many samples of a publisher are held back while
    the history of all publishers is queried. `awaits_history`: whether that is the case from the start.
    """

    def __init__(self, recovers: bool = False, awaits_history: bool = False, depth: int | None = None) -> None:
        self._recovers = recovers
        self._awaits_history = awaits_history
        self._depth = depth
        self._numbered: OrderedDict[EntityGlobalId, PublisherState[int]] = OrderedDict()
        self._timestamped: OrderedDict[TimestampId, PublisherState[Timestamp]] = OrderedDict()

    @property
    def numbered_publishers(self) -> list[EntityGlobalId]:
        """The publishers that number their samples, which can be queried for missing ones."""
        return list(self._numbered)

    def receive(self, sample: Sample) -> list[Delivery]:
        """Add a sample that was received as a publication or in a reply."""
        source, timestamp = sample.source_info, sample.timestamp
        if source is not None:
            return self._receive_numbered(source.source_id, source.source_sn, sample)
        if timestamp is not None:
            return self._receive_timestamped(timestamp, sample)
        return [sample]

    # -- numbers

    def _receive_numbered(self, publisher_id: EntityGlobalId, sn: int, sample: Sample) -> list[Delivery]:
        source = _get(self._numbered, publisher_id)
        if source.last is None:
            if not self._awaits_history and not source.pending_queries:
                return self._deliver_from(source, sn, sample)
            source.held[sn] = sample
            return self._first_of(source) if self._is_full(source) else []
        ahead = (sn - source.last) % SOURCE_SN_MODULUS
        if ahead == 1:
            return self._deliver_from(source, sn, sample)
        if ahead == 0 or ahead >= _HALF_MODULUS:
            return []
        if self._recovers:
            source.held[sn] = sample
            return []
        return [Miss(publisher_id, ahead - 1), *self._deliver_from(source, sn, sample)]

    def _first_of(self, source: PublisherState[int]) -> list[Delivery]:
        sn = _in_order(source.held)[0]
        return self._deliver_from(source, sn, source.held.pop(sn))

    def _deliver_from(self, source: PublisherState[int], sn: int, sample: Sample) -> list[Delivery]:
        """Return this sample, and those held back that follow it without a gap."""
        deliveries: list[Delivery] = [sample]
        while (after := source.held.pop((sn + 1) % SOURCE_SN_MODULUS, None)) is not None:
            deliveries.append(after)
            sn = (sn + 1) % SOURCE_SN_MODULUS
        source.last = sn
        return deliveries

    def _release_numbered(self, publisher_id: EntityGlobalId, source: PublisherState[int]) -> list[Delivery]:
        """Return the samples held back, and report those missing in between: no query is pending any more."""
        deliveries: list[Delivery] = []
        held, source.held = source.held, {}
        for sn in _in_order(held):
            ahead = 1 if source.last is None else (sn - source.last) % SOURCE_SN_MODULUS
            if ahead == 0 or ahead >= _HALF_MODULUS:
                continue
            if ahead > 1:
                deliveries.append(Miss(publisher_id, ahead - 1))
            deliveries.append(held[sn])
            source.last = sn
        return deliveries

    # -- timestamps

    def _receive_timestamped(self, timestamp: Timestamp, sample: Sample) -> list[Delivery]:
        source = _get(self._timestamped, timestamp.get_id())
        if source.last is not None and not timestamp > source.last:
            return []
        if not self._awaits_history and not source.pending_queries:
            source.last = timestamp
            return [sample]
        source.held.setdefault(timestamp, sample)
        return self._release_timestamped(source) if self._is_full(source) and not source.pending_queries else []

    def _release_timestamped(self, source: PublisherState[Timestamp]) -> list[Delivery]:
        deliveries: list[Delivery] = []
        held, source.held = source.held, {}
        for timestamp in sorted(held):
            if source.last is None or timestamp > source.last:
                deliveries.append(held[timestamp])
                source.last = timestamp
        return deliveries

    # -- queries

    def _is_full(self, source: PublisherState[P]) -> bool:
        return self._depth is not None and len(source.held) >= self._depth

    def history_finished(self) -> list[Delivery]:
        """Return the samples held back: the query for the history of all publishers has finished."""
        self._awaits_history = False
        deliveries: list[Delivery] = []
        for publisher_id, numbered in self._numbered.items():
            if not numbered.pending_queries:
                deliveries += self._release_numbered(publisher_id, numbered)
        for timestamped in self._timestamped.values():
            if not timestamped.pending_queries:
                deliveries += self._release_timestamped(timestamped)
        return deliveries

    def query_started(self, publisher_id: SourceId) -> None:
        """Count a query for samples of a publisher as pending, so that samples out of order are held back."""
        self._source(publisher_id).pending_queries += 1

    def query_finished(self, publisher_id: SourceId) -> list[Delivery]:
        """End a query for samples of a publisher. Returns the samples that were held back for it."""
        source = self._source(publisher_id)
        source.pending_queries = max(source.pending_queries - 1, 0)
        if source.pending_queries or self._awaits_history:
            return []
        if isinstance(publisher_id, EntityGlobalId):
            return self._release_numbered(publisher_id, self._numbered[publisher_id])
        return self._release_timestamped(self._timestamped[publisher_id])

    def _source(self, publisher_id: SourceId) -> PublisherState[int] | PublisherState[Timestamp]:
        return (
            _get(self._numbered, publisher_id)
            if isinstance(publisher_id, EntityGlobalId)
            else _get(self._timestamped, publisher_id)
        )

    def missing_range(self, publisher_id: EntityGlobalId) -> str | None:
        """Return the numbers to query because a later one has arrived; None if none has, or a query is pending."""
        source = self._numbered.get(publisher_id)
        if not self._recovers or source is None or source.pending_queries or not source.held or source.last is None:
            return None
        return self.range_after_last(publisher_id)

    def range_after_last(self, publisher_id: EntityGlobalId) -> str:
        """Return the numbers after the last one delivered."""
        last = _get(self._numbered, publisher_id).last
        return ".." if last is None else f"{(last + 1) % SOURCE_SN_MODULUS}.."

    def range_up_to(self, publisher_id: EntityGlobalId, newest: int) -> str | None:
        """Return the numbers to query after a heartbeat; None if all have arrived, or a query for samples of this
        publisher is pending; also for a new publisher while the history of all publishers is queried."""
        is_new = publisher_id not in self._numbered
        source = _get(self._numbered, publisher_id)
        if source.pending_queries or (is_new and self._awaits_history):
            return None
        if source.last is not None and not 0 < (newest - source.last) % SOURCE_SN_MODULUS < _HALF_MODULUS:
            return None
        return f"{self.range_after_last(publisher_id)}{newest}"


K = TypeVar("K")


def _get(sources: OrderedDict[K, PublisherState[P]], publisher_id: K) -> PublisherState[P]:
    source = sources.get(publisher_id)
    if source is None:
        source = sources[publisher_id] = PublisherState()
        if len(sources) > MAX_PUBLISHERS:
            sources.popitem(last=False)
    else:
        sources.move_to_end(publisher_id)
    return source


def _in_order(held: dict[int, Sample]) -> list[int]:
    """Sort sequence numbers in the order the publisher assigned them, also across the wrap to 0."""
    if not held:
        return []
    pivot = next(iter(held))
    return sorted(held, key=lambda sn: (sn - pivot + _HALF_MODULUS) % SOURCE_SN_MODULUS)
