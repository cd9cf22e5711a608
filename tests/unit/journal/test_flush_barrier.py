from __future__ import annotations

import pytest

from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.errors import LinkError
from zenspark.handlers.handler import FifoChannel
from zenspark.journal.flush_barrier import FLUSH_BARRIER_KEY, FlushBarrier
from zenspark.types.enums import CongestionControl
from zenspark.types.query import Query


@pytest.mark.slow
def test_flush_barrier_waits_until_the_neighbour_has_read_everything() -> None:
    with listening("router") as router, connected("client", router) as client:
        subscriber = router.declare_subscriber("a", FifoChannel(1))
        fence = FlushBarrier(client, "there")
        for _ in range(1000):
            client.put("a", b"x" * 100, congestion_control=CongestionControl.BLOCK)
        with pytest.raises(LinkError, match="no reply"):
            fence.wait(0.2)  # the subscriber takes nothing, so the router reads no further
        for _ in range(1000):
            subscriber.recv(TIMEOUT_SECONDS)
        fence.wait(TIMEOUT_SECONDS)


def test_flush_barrier_raises_if_the_connection_was_lost() -> None:
    with listening("router") as router, connected("client", router) as client:
        fence = FlushBarrier(client, "there")
        router.close()
        until(lambda: fence.losses)
        with pytest.raises(LinkError, match="there: the connection was lost: what was published may not have arrived"):
            fence.wait(TIMEOUT_SECONDS)


@pytest.mark.slow
def test_flush_barrier_raises_if_the_neighbour_does_not_reply() -> None:
    held: list[Query] = []
    with listening("router") as router, connected("client", router) as client:
        router.declare_queryable(FLUSH_BARRIER_KEY, held.append)
        with pytest.raises(LinkError, match=r"there: no reply within 0\.1 s: what was published may not have arrived"):
            FlushBarrier(client, "there").wait(0.1)
