"""Messages lost between eclipse-zenoh and zenspark are counted if the loss is visible; any node can read the counts."""

from __future__ import annotations

import json

import pytest

import zenspark
from tests.interop.reference import unused
from tests.interop.test_failures import Api, LossyUdpProxy, start
from tests.unit.net.ends import meanwhile
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.handlers import FifoChannel
from zenspark.types.network_info import LinkCounters

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

LARGE = bytes(1 << 20)
"""A payload of many fragments."""
PUTS = 150
"""More of them than the buffers between two sockets hold."""
ROUNDS = 10
FRAME = 0x05
LOSE = "lose this"


def test_messages_dropped_between_fragments_are_counted_as_interrupted() -> None:
    """A publisher that may drop, beside a subscriber that does not receive: messages end half way.

    In a round no message may: if the buffers are full just when one ends, all further ones are dropped whole.
    """
    endpoint = unused()
    with (
        start(zenspark, mode="peer", listen__endpoints=[endpoint]) as ours,
        start(zenoh, mode="peer", connect__endpoints=[endpoint]) as theirs,
    ):
        subscriber = ours.declare_subscriber("flood/*", FifoChannel(1))
        publisher = theirs.declare_publisher("flood/large", congestion_control=zenoh.CongestionControl.DROP)
        until(lambda: publisher.matching_status.matching)
        whole = sent = 0
        counters = link_counters(ours)
        while "interrupted" not in counters.lost and sent < ROUNDS * PUTS:
            for _ in range(PUTS):
                publisher.put(LARGE)
            sent += PUTS
            with meanwhile(lambda: theirs.put("flood/last", b"", congestion_control=zenoh.CongestionControl.BLOCK)):
                while str(subscriber.recv(TIMEOUT_SECONDS).key_expr) != "flood/last":
                    whole += 1
            counters = link_counters(ours)
        assert str(counters.zid) == str(theirs.zid())
        assert counters.lost.keys() == {"interrupted"}
        assert 0 < whole + counters.lost["interrupted"] <= sent
        assert counters.received > whole
        assert counters.dropped == {}


def link_counters(session: zenspark.Session) -> LinkCounters:
    """Return the counters of a session's only link."""
    (counters,) = session.info.link_counters()
    return counters


def test_large_messages_that_arrive_leave_no_gap() -> None:
    """Behind each message in fragments eclipse-zenoh leaves a sequence number unused: that is no loss."""
    endpoint = unused()
    with (
        start(zenspark, mode="peer", listen__endpoints=[endpoint]) as ours,
        start(zenoh, mode="peer", connect__endpoints=[endpoint]) as theirs,
    ):
        subscriber = ours.declare_subscriber("flood/*")
        publisher = theirs.declare_publisher("flood/large", congestion_control=zenoh.CongestionControl.BLOCK)
        until(lambda: publisher.matching_status.matching)
        sizes = [1 << 20, 10, 100_000, 200_000, 10, 10, 1 << 20]
        for size in sizes:
            publisher.put(bytes(size))
        assert [len(subscriber.recv(TIMEOUT_SECONDS).payload) for _ in sizes] == sizes
        (counters,) = ours.info.link_counters()
        assert counters.lost == {}


class FrameDroppingProxy(LossyUdpProxy):
    """Drops the frames that contain `LOSE`."""

    def _passes(self, way: str, batch: bytes) -> bool:
        if batch[0] & 0x1F == FRAME and LOSE.encode() in batch:
            self.dropped.append(batch)
            return False
        return True

    def wait_dropped(self, count: int) -> None:
        """Wait until so many were lost."""
        until(lambda: len(self.dropped) == count)


@pytest.mark.parametrize("api", [zenoh, zenspark], ids=["from eclipse-zenoh", "from zenspark"])
def test_frames_that_are_lost_are_counted_one_by_one(api: Api) -> None:
    endpoint = unused("udp")
    with start(zenspark, mode="peer", listen__endpoints=[endpoint]) as ours:
        network = FrameDroppingProxy(endpoint, ("nothing", 0))
        try:
            with start(api, mode="peer", connect__endpoints=[network.endpoint]) as theirs:
                subscriber = ours.declare_subscriber("some/*")
                block = api.CongestionControl.BLOCK
                publisher = theirs.declare_publisher("some/key", congestion_control=block, express=True)
                until(lambda: publisher.matching_status.matching)
                for text in ["1", LOSE, "2", LOSE, LOSE, "3"]:
                    lost = len(network.dropped)
                    publisher.put(text)  # one frame each: the next one waits for what becomes of it
                    if text == LOSE:
                        network.wait_dropped(lost + 1)
                    else:
                        assert subscriber.recv(TIMEOUT_SECONDS).payload.to_string() == text
                (counters,) = ours.info.link_counters()
                assert counters.lost == {"sequence_gap": 3}
        finally:
            network.close()


def test_a_client_of_eclipse_zenoh_reads_the_counters_in_the_admin_space() -> None:
    endpoint = unused()
    admin = {"enabled": True, "permissions": {"read": True, "write": False}}
    with (
        start(zenspark, mode="router", listen__endpoints=[endpoint], adminspace=admin) as ours,
        start(zenoh, mode="client", connect__endpoints=[endpoint]) as theirs,
    ):
        (reply,) = theirs.get(f"@/{ours.zid()}/router/counters", timeout=TIMEOUT_SECONDS)
        assert str(reply.ok.encoding) == "application/json"
        (counted,) = json.loads(reply.ok.payload.to_bytes())
        assert counted.keys() == {"zid", "received", "lost", "dropped"}
        assert (counted["zid"], counted["lost"], counted["dropped"]) == (str(theirs.zid()), {}, {})
        assert counted["received"] > 0
