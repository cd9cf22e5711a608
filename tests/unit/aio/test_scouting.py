"""Scouting in tasks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import zenspark.aio as aio
from tests.unit.aio.event_loop import in_loop, run_other_tasks, until
from tests.unit.net.ends import free_group
from zenspark.config.config import Config
from zenspark.errors import UsageError
from zenspark.net.links.interfaces import find_interface
from zenspark.types.network_info import Hello


def found_by_multicast() -> Config:
    """A configuration with a multicast group that no other process scouts in."""
    config = Config()
    config.insert_json5("listen/endpoints", '["tcp/127.0.0.1:0"]')
    config.insert_json5("scouting/multicast/address", json.dumps(free_group()))
    config.insert_json5("scouting/multicast/interface", json.dumps(find_interface("127.0.0.1").name))
    return config


@pytest.mark.slow
@in_loop
async def test_async_scout_finds_nodes_by_iteration() -> None:
    config = found_by_multicast()
    async with aio.open(config) as session, aio.scout(what="peer", config=config) as scout:
        async for hello in scout:
            assert hello.zid == session.zid()
            break
        assert scout.try_recv() is None
        assert "Channel" in repr(scout.handler)


@in_loop
async def test_stop_ends_waiting_receivers_of_a_scout() -> None:
    scout = await aio.scout(config=found_by_multicast())
    waits = asyncio.create_task(_all(scout))
    await run_other_tasks()
    await scout.stop()
    await scout.stop()
    assert await waits == []


async def _all(scout: aio.Scout[Any]) -> list[Hello]:
    return [hello async for hello in scout]


@pytest.mark.slow
@in_loop
async def test_coroutine_callback_receives_nodes() -> None:
    config, found = found_by_multicast(), list[Hello]()

    async def on_hello(hello: Hello) -> None:
        found.append(hello)

    async with aio.open(config), aio.scout(on_hello, config=config) as scout:
        await until(lambda: found)
        with pytest.raises(UsageError, match="callback gets everything"):
            await scout.recv()  # type: ignore[misc]
