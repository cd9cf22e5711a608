"""Ids and finalizers of a session's entities."""

from __future__ import annotations

from zenspark.engine.entity_registry import EntityRegistry
from zenspark.wire.values import EntityId, ZenohId

ZID = ZenohId(7)


def test_ids_are_unique_and_positive() -> None:
    entities = EntityRegistry(ZID)
    assert [entities.next_id() for _ in range(3)] == [1, 2, 3]
    assert entities.global_id(3) == EntityId(ZID, 3)


def test_an_entity_is_finalized_once() -> None:
    entities, finalized = EntityRegistry(ZID), list[str]()
    entities.add(1, lambda: finalized.append("one"))
    assert len(entities) == 1
    entities.undeclare(1)
    entities.undeclare(1)
    entities.undeclare(2)
    assert finalized == ["one"]
    assert len(entities) == 0


def test_undeclare_all_keeps_the_order_and_allows_finalizers_that_undeclare() -> None:
    entities, finalized = EntityRegistry(ZID), list[int]()

    def finalize_first() -> None:
        finalized.append(1)
        entities.undeclare(3)

    entities.add(1, finalize_first)
    entities.add(2, lambda: finalized.append(2))
    entities.add(3, lambda: finalized.append(3))
    entities.undeclare_all()
    assert finalized == [1, 3, 2]
    assert len(entities) == 0
