"""What an asyncio session reports of its neighbours."""

from __future__ import annotations

from tests.unit.aio.event_loop import client_of, in_loop, until
from zenspark.api.session import Session
from zenspark.types.enums import SampleKind


@in_loop
async def test_async_info_lists_neighbours(router: Session) -> None:
    async with client_of(router) as session:
        assert session.info.zid() == session.zid()
        assert session.info.routers_zid() == [router.zid()]
        assert session.info.peers_zid() == []
        assert [transport.zid for transport in session.info.transports()] == [router.zid()]
        assert [link.zid for link in session.info.links()] == [router.zid()]
        assert [connection.is_connected for connection in session.info.connections()] == [True]
        assert [counters.zid for counters in session.info.link_counters()] == [router.zid()]


@in_loop
async def test_async_event_listeners_receive_history_and_changes(router: Session) -> None:
    async with client_of(router) as session:
        links: list[SampleKind] = []
        await session.info.declare_link_events_listener(lambda event: links.append(event.kind), history=True)
        async with session.info.declare_transport_events_listener(history=True) as listener:
            assert (await listener.recv()).kind is SampleKind.PUT
            router.close()
            assert (await listener.recv()).kind is SampleKind.DELETE
        await until(lambda: links == [SampleKind.PUT, SampleKind.DELETE])
