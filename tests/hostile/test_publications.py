"""Publications under keys that are none: those beside them arrive, and the session goes on."""

from __future__ import annotations

from tests.hostile.raw import RawPeer
from tests.unit.api.sessions import address, listening
from zenspark.handlers.arrow import ArrowBatches
from zenspark.handlers.handler import FifoChannel
from zenspark.wire.messages import Push, Put
from zenspark.wire.values import WireExpr

KEYS = ("a/b", "a//b", "c", "", "d$*$*", "last")


def test_publication_with_an_invalid_key_is_ignored() -> None:
    with listening("router") as router:
        batches = router.declare_subscriber("**", ArrowBatches(max_delay=0.0))
        samples = router.declare_subscriber("**", FifoChannel(len(KEYS)))
        with RawPeer(address(router)) as peer:
            for _ in range(2):  # they are remembered from the first time
                assert peer.send(*(Push(wire_expr=WireExpr(0, key), body=Put(payload=b"1")) for key in KEYS))
                assert batches.recv()["key"].to_pylist() == ["a/b", "c", "last"]
                assert [str(samples.recv().key_expr) for _ in range(3)] == ["a/b", "c", "last"]
            assert router.info.transports()
