"""Liveliness tokens of tasks."""

from __future__ import annotations

from tests.unit.aio.event_loop import client_of, in_loop, isolated_session, until
from zenspark.api.session import Session
from zenspark.types.enums import SampleKind


@in_loop
async def test_async_liveliness_subscriber_receives_changes(router: Session) -> None:
    async with client_of(router) as session:
        async with session.liveliness().declare_subscriber("alive/*", history=True) as subscriber:
            token = router.liveliness().declare_token("alive/a")
            assert (await subscriber.recv()).kind is SampleKind.PUT
            token.undeclare()
            assert (await subscriber.recv()).kind is SampleKind.DELETE
        async with session.liveliness().declare_token("alive/b"):
            await until(lambda: [*router.liveliness().get("alive/b")])
        await until(lambda: not [*router.liveliness().get("alive/b")])


@in_loop
async def test_async_liveliness_get_receives_tokens() -> None:
    async with isolated_session() as session:
        async with session.liveliness().declare_token("alive/a"):
            found = [reply async for reply in session.liveliness().get("alive/*")]
            assert [str(reply.ok.key_expr) for reply in found if reply.ok] == ["alive/a"]
        assert [reply async for reply in session.liveliness().get("alive/*")] == []
