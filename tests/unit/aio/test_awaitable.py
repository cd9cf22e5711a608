"""Something on its way: awaited, or entered."""

from __future__ import annotations

from typing import Self

import pytest

from tests.unit.aio.event_loop import in_loop
from zenspark.aio.awaitable import Pending


class Thing:
    def __init__(self) -> None:
        self.moves: list[str] = []

    async def __aenter__(self) -> Self:
        self.moves.append("in")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.moves.append("out")


async def make() -> Thing:
    return Thing()


@in_loop
async def test_pending_can_be_awaited() -> None:
    assert (await Pending(make())).moves == []


@in_loop
async def test_pending_can_be_entered() -> None:
    async with Pending(make()) as thing:
        assert thing.moves == ["in"]
    assert thing.moves == ["in", "out"]


@in_loop
async def test_awaited_object_can_be_entered() -> None:
    async with await Pending(make()) as thing:
        assert thing.moves == ["in"]
    assert thing.moves == ["in", "out"]


@in_loop
async def test_object_is_closed_when_the_block_raises() -> None:
    with pytest.raises(KeyError):
        async with Pending(make()) as thing:
            raise KeyError
    assert thing.moves == ["in", "out"]


def test_pending_that_is_never_awaited_warns() -> None:
    with pytest.warns(RuntimeWarning, match="never awaited"):
        Pending(make())
