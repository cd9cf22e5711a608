"""Finding eclipse-zenoh nodes and being found by them: in a multicast group on loopback, and by gossip."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.interop.reference import eventually, ours, reference, unused
from tests.unit.net.ends import free_group
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.net.links.interfaces import find_interface

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(find_spec("zenoh") is None, reason="eclipse-zenoh is not installed"),
]
LO = find_interface("127.0.0.1").name
HERE = ["tcp/127.0.0.1:0"]


@pytest.fixture
def scouting() -> dict[str, object]:
    """A multicast group that no other process uses."""
    return {"scouting__multicast": {"enabled": True, "address": free_group(), "interface": LO}}


def neighbours(session: Session) -> set[str]:
    return {str(transport.zid) for transport in session.info.transports()}


@pytest.mark.parametrize("theirs", ["router", "peer"])
@pytest.mark.parametrize("mode", ["client", "peer"])
def test_zenspark_discovers_eclipse_zenoh_by_scouting(mode: str, theirs: str, scouting: dict[str, object]) -> None:
    received: list[str] = []
    with reference(mode=theirs, listen__endpoints=HERE, **scouting) as node:
        session = open_session(ours(mode=mode, **scouting))
        assert eventually(lambda: neighbours(session) == {node.zid})
        session.declare_subscriber("down/**", lambda sample: received.append(sample.payload.to_string()))

        def is_received() -> bool:
            node.execute("put down/x hello")
            return bool(received)

        assert eventually(is_received)
        session.close()


@pytest.mark.parametrize("theirs", ["client", "peer"])
def test_eclipse_zenoh_discovers_zenspark_by_scouting(theirs: str, scouting: dict[str, object]) -> None:
    session = open_session(ours(mode="peer", listen__endpoints=HERE, **scouting))
    with reference(mode=theirs, **scouting) as node:
        assert node.first.startswith("open")
        assert eventually(lambda: neighbours(session) == {node.zid})
        session.close()


def test_peers_that_find_each_other_have_one_link(scouting: dict[str, object]) -> None:
    with (
        reference(mode="peer", listen__endpoints=HERE, **scouting) as one,
        reference(mode="peer", listen__endpoints=HERE, **scouting) as other,
    ):
        sessions = [open_session(ours(mode="peer", listen__endpoints=HERE, **scouting)) for _ in range(2)]
        everybody = {one.zid, other.zid, *(str(session.info.zid()) for session in sessions)}
        for session in sessions:
            own = str(session.info.zid())
            assert eventually(lambda: neighbours(session) == everybody - {own})  # noqa: B023
            assert len(list(session.info.transports())) == 3
        assert eventually(lambda: one.execute("peers") == [" ".join(["peers", *sorted(everybody - {one.zid})])])
        for session in sessions:
            session.close()


@pytest.mark.parametrize("between", ["router", "peer"])
def test_gossip_of_eclipse_zenoh_connects_zenspark_to_its_peer(between: str) -> None:
    """A node of eclipse-zenoh has links to ours and to another one: both receive gossip, one connects to the other."""
    there = unused()
    with (
        reference(mode=between, listen__endpoints=[there]) as middle,
        reference(mode="peer", listen__endpoints=HERE, connect__endpoints=[there]) as other,
    ):
        session = open_session(ours(mode="peer", listen__endpoints=HERE, connect__endpoints=[there]))
        assert eventually(lambda: neighbours(session) == {middle.zid, other.zid})
        session.close()


@pytest.mark.parametrize("between", ["router", "peer"])
def test_gossip_of_zenspark_connects_eclipse_zenoh_peers(between: str) -> None:
    there = unused()
    middle = open_session(ours(mode=between, listen__endpoints=[there]))
    with (
        reference(mode="peer", listen__endpoints=HERE, connect__endpoints=[there]) as one,
        reference(mode="peer", listen__endpoints=HERE, connect__endpoints=[there]) as other,
    ):
        assert eventually(lambda: neighbours(middle) == {one.zid, other.zid})
        known = [other.zid] if between == "router" else sorted([other.zid, str(middle.info.zid())])
        assert eventually(lambda: one.execute("peers") == [" ".join(["peers", *known])]), one.execute("peers")
        middle.close()


def test_gossip_can_be_turned_off() -> None:
    there = unused()
    off = {"scouting__gossip__enabled": False}
    with (
        reference(mode="router", listen__endpoints=[there], **off) as middle,
        reference(mode="peer", listen__endpoints=HERE, connect__endpoints=[there], **off),
    ):
        session = open_session(ours(mode="peer", listen__endpoints=HERE, connect__endpoints=[there], **off))
        assert neighbours(session) == {middle.zid}
        session.close()
