"""Queries that tasks reply to."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import zenspark.aio as aio
from tests.unit.aio.event_loop import in_loop, isolated_session
from zenspark.errors import UsageError
from zenspark.types.encoding import Encoding
from zenspark.types.enums import ConsolidationMode, QueryTarget, ReplyKeyExpr, SampleKind


async def send_query(session: aio.Session) -> tuple[aio.Replies[Any], aio.Query]:
    queryable = await session.declare_queryable("k/**")
    options: Any = {"payload": "why", "encoding": "text/plain", "attachment": b"more", "budget": 9, "timeout": 8.0}
    replies = await session.get("k/*?a=1", target=QueryTarget.ALL, consolidation=ConsolidationMode.NONE, **options)
    query = await queryable.recv()
    return replies, query


@in_loop
async def test_async_query_has_the_properties_of_the_query() -> None:
    async with isolated_session() as session:
        _replies, query = await send_query(session)
        assert isinstance(query, aio.Query)
        assert query.key_expr == "k/*"
        assert query.parameters["a"] == "1"
        assert str(query.selector) == "k/*?a=1"
        assert query.payload == b"why"
        assert query.encoding == Encoding.TEXT_PLAIN
        assert query.attachment == b"more"
        assert query.source_info is None
        assert (query.target, query.consolidation) == (QueryTarget.ALL, ConsolidationMode.NONE)
        assert (query.budget, query.timeout) == (9, 8.0)
        assert query.timestamp_stack is None
        assert query.accepts_replies() is ReplyKeyExpr.MATCHING_QUERY
        assert "k/*?a=1" in str(query)
        query.drop()
        assert repr(query) == "Query { dropped }"


@in_loop
async def test_async_query_replies_with_value_deletion_and_error() -> None:
    async with isolated_session() as session:
        replies, query = await send_query(session)
        async with query:
            await query.reply("k/a", "value", encoding="text/plain")
            await query.reply_del("k/b")
            await query.reply_err("error")
        found = [reply async for reply in replies]
    good = {str(reply.ok.key_expr): reply.ok.kind for reply in found if reply.ok}
    assert good == {"k/a": SampleKind.PUT, "k/b": SampleKind.DELETE}
    assert [reply.err.payload.to_string() for reply in found if reply.err] == ["error"]


@pytest.mark.parametrize("way", ["drop", "with", "async with", "forgotten"])
@in_loop
async def test_async_query_ends_by_drop_block_and_garbage_collection(way: str) -> None:
    async with isolated_session() as session:
        replies, query = await send_query(session)
        await query.reply("k/a", "value")
        match way:
            case "drop":
                query.drop()
            case "with":
                with query:
                    pass
            case "async with":
                async with query:
                    pass
        if way == "forgotten":
            del query
            gc.collect()
        assert len([reply async for reply in replies]) == 1


@in_loop
async def test_dropped_async_query_rejects_replies() -> None:
    async with isolated_session() as session:
        _replies, query = await send_query(session)
        query.drop()
        with pytest.raises(UsageError, match="dropped"):
            await query.reply("k/a", "value")
        await asyncio.sleep(0)
