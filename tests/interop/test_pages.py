"""What the pages give an application, exercised from the API across routers of zenspark and eclipse-zenoh."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import zenspark
from tests.interop.reference import unused
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.types.ids import SourceInfo
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.codec import encode

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

PACKAGES = {"o": zenspark, "t": zenoh}
"""Ours and theirs, by the letters in NETWORKS."""
NETWORKS = {
    "our router": ("o", False),
    "their router": ("t", False),
    "a line": ("oto", False),
    "a line between theirs": ("tot", False),
    "a ring": ("otot", True),
}
"""The routers, in order, and whether the last is linked to the first; one client hangs on the first, one on the last
of a line, or opposite in a ring."""


def start(package: Any, mode: str, listen: list[str], connect: list[str], **others: object) -> Any:  # noqa: ANN401
    config = package.Config()
    settings = {
        "mode": mode,
        "listen/endpoints": listen,
        "connect/endpoints": connect,
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        **{name.replace("__", "/"): value for name, value in others.items()},
    }
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return package.open(config)


SOURCE = SourceInfo.from_wire(wire.SourceInfo(wire.ZenohId(0xABCDEF), 5, 77))


class Ends:
    """Where the two clients of a network connect to."""

    def __init__(self, near: str, far: str) -> None:
        self.near = near
        self.far = far


@pytest.fixture(params=list(NETWORKS), scope="module")
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    letters, is_ring = NETWORKS[request.param]
    places = [unused() for _ in letters]
    calls: dict[str, list[str]] = {place: [] for place in places}
    for before, after in pairwise(places):
        calls[after].append(before)
    if is_ring:
        calls[places[-1]].append(places[0])
    with contextlib.ExitStack() as stack:
        for letter, place in zip(letters, places, strict=True):
            stack.enter_context(start(PACKAGES[letter], "router", [place], calls[place]))
        yield Ends(places[0], places[len(places) // 2 if is_ring else -1])


@contextlib.contextmanager
def querier_with(
    ends: Ends,
    on_query: Callable[[Any], object],
    queryable: Any = zenspark,  # noqa: ANN401
    querier: Any = zenspark,  # noqa: ANN401
    **options: Any,  # noqa: ANN401
) -> Iterator[Any]:
    """A client at one end, and at the other one with a queryable on `q/**`, which it has found; of which package."""
    with start(querier, "client", [], [ends.near]) as one, start(queryable, "client", [], [ends.far]) as other:
        other.declare_queryable("q/**", on_query, **options)
        with one.declare_querier("q/a") as probe:
            until(lambda: probe.matching_status.matching)
        yield one


def texts(replies: Any) -> list[str]:  # noqa: ANN401
    return [reply.ok.payload.to_string() if reply.ok else reply.err.payload.to_string().upper() for reply in replies]


@pytest.mark.parametrize("package", [zenspark, zenoh], ids=["ours replies", "theirs replies"])
def test_query_budget_limits_replies(ends: Ends, package: Any) -> None:  # noqa: ANN401
    """QU-37, QU-76, RE-38."""
    budgets: list[int | None] = []

    def on_query(query: Any) -> None:  # noqa: ANN401
        if package is zenspark:
            budgets.append(query.budget)
        with query:
            query.reply_err("error")
            for number in range(4):
                query.reply("q/a", str(number))

    with querier_with(ends, on_query, package) as querier:
        options = {"consolidation": zenspark.ConsolidationMode.NONE, "timeout": TIMEOUT_SECONDS}
        assert texts(querier.get("q/a", budget=1, **options)) == ["ERROR"]
        assert texts(querier.get("q/a", budget=3, **options)) == ["ERROR", "0", "1"]
        assert texts(querier.declare_querier("q/a", budget=2, **options).get()) == ["ERROR", "0"]
        assert texts(querier.get("q/a", **options)) == ["ERROR", "0", "1", "2", "3"]
    assert budgets == ([1, 3, 2, None] if package is zenspark else [])


def test_queryable_receives_target_budget_timeout_and_consolidation(ends: Ends) -> None:
    """QU-28, QU-35, QU-39, QU-52: target, budget, timeout and consolidation arrive as they were sent."""
    seen: list[tuple[object, ...]] = []

    def on_query(query: Any) -> None:  # noqa: ANN401
        with query:
            seen.append((query.target, query.budget, query.timeout, query.consolidation))

    with querier_with(ends, on_query, complete=True) as querier:
        for target in zenspark.QueryTarget:
            list(querier.get("q/a", target=target, timeout=12.5, consolidation=zenspark.ConsolidationMode.MONOTONIC))
    assert seen == [(target, None, 12.5, zenspark.ConsolidationMode.MONOTONIC) for target in zenspark.QueryTarget]


@pytest.mark.parametrize("package", [zenspark, zenoh], ids=["ours queries", "theirs queries"])
def test_consolidation_preferred_by_the_queryable_applies_with_auto(ends: Ends, package: Any) -> None:  # noqa: ANN401
    """QU-56, RE-50: our querier uses the consolidation of REPLY if it has none itself; eclipse-zenoh's LATEST."""
    seen: list[object] = []

    def on_query(query: Any) -> None:  # noqa: ANN401
        seen.append(query.consolidation)
        with query:
            for number in range(3):
                query.reply("q/a", str(number), consolidation=zenspark.ConsolidationMode.NONE)

    with querier_with(ends, on_query, querier=package) as querier:
        found = list(querier.get("q/a", timeout=TIMEOUT_SECONDS))
    if package is zenspark:
        assert texts(found) == ["0", "1", "2"]
        assert {reply.consolidation for reply in found} == {zenspark.ConsolidationMode.NONE}
        assert seen == [zenspark.ConsolidationMode.AUTO]
    else:
        assert texts(found) == ["2"]
        assert seen == [zenspark.ConsolidationMode.LATEST]


def test_infinite_timeout_sends_no_timeout(ends: Ends) -> None:
    """QU-41."""
    seen: list[float | None] = []

    def on_query(query: Any) -> None:  # noqa: ANN401
        seen.append(query.timeout)
        with query:
            query.reply("q/a", "yes")

    with querier_with(ends, on_query) as querier:
        assert texts(querier.get("q/a", timeout=math.inf)) == ["yes"]
    assert seen == [None]


@pytest.mark.parametrize("package", [zenspark, zenoh], ids=["ours queries", "theirs queries"])
def test_replies_and_errors_have_source_info(ends: Ends, package: Any) -> None:  # noqa: ANN401
    """RE-45, RE-66: of a value, of a removal and of an error."""

    def on_query(query: Any) -> None:  # noqa: ANN401
        with query:
            query.reply("q/put", "1", source_info=SOURCE)
            query.reply_del("q/del", source_info=SOURCE)
            query.reply_err("why", source_info=SOURCE)

    with querier_with(ends, on_query, querier=package) as querier:
        found = list(querier.get("q/**", timeout=TIMEOUT_SECONDS))
    sources = {str(reply.ok.key_expr): reply.ok.source_info for reply in found if reply.ok}
    assert {key: (str(one.source_id.zid), one.source_id.eid, one.source_sn) for key, one in sources.items()} == {
        "q/put": (str(SOURCE.source_id.zid), 5, 77),
        "q/del": (str(SOURCE.source_id.zid), 5, 77),
    }
    (error,) = (reply.err for reply in found if reply.err)
    assert error.payload.to_string() == "why"
    if package is zenspark:
        assert error.source_info == SOURCE


@pytest.mark.parametrize("role", ["client", "peer"])
def test_session_close_is_understood_by_eclipse_zenoh(role: str) -> None:
    """MR-53: CLOSE with S = 1 ends the session at eclipse-zenoh at once, and leaves the others alone."""
    place = unused()
    with start(zenoh, "router", [place], []) as router, start(zenspark, role, [], [place]) as other:
        with start(zenspark, role, [], [place]) as leaving:
            until(lambda: len(router.info.transports()) == 2)
            gone = str(leaving.zid())
        until(lambda: gone not in {str(one.zid) for one in router.info.transports()})
        assert {str(one.zid) for one in router.info.transports()} == {str(other.zid())}


def test_a_request_with_the_node_id_third_is_understood_between_routers() -> None:
    """MR-158, QU-26, QU-80: a router of ours between two of theirs names the one where the request entered."""
    places = [unused() for _ in range(3)]
    sent: list[tuple[int, bytes]] = []
    with (
        start(zenoh, "router", [places[0]], []),
        start(zenspark, "router", [places[1]], [places[0]]) as middle,
        start(zenoh, "router", [places[2]], [places[1]]),
        querier_with(Ends(places[0], places[2]), lambda query: query.reply("q/a", "yes"), zenoh, zenoh) as querier,
    ):
        for driver in middle._runtime.node.link_drivers:
            driver.send_message = partial(send_and_record, driver.send_message, sent)
        assert texts(querier.get("q/a", timeout=TIMEOUT_SECONDS)) == ["yes"]
    ((node_id, written),) = sent
    assert node_id > 0
    assert 0 < written.find(bytes([0xB3, node_id])) < written.find(b"\x26")


def send_and_record(send_message: Callable[..., None], sent: list[tuple[int, bytes]], message: Any, *rest: Any) -> None:  # noqa: ANN401
    """Send a message; of a request, note its NodeId and its bytes."""
    if isinstance(message, messages.Request):
        sent.append((message.node_id, encode(message)))
    send_message(message, *rest)


@pytest.mark.parametrize("package", [zenspark, zenoh], ids=["ours queries", "theirs queries"])
def test_a_final_in_a_frame_of_its_own_is_understood(package: Any) -> None:  # noqa: ANN401
    """RE-73: an option of the session or router that sends it."""
    place = unused()
    with (
        start(zenspark, "router", [place], [], transport__link__tx__separate_finals=True) as router,
        start(package, "client", [], [place]) as querier,
    ):
        router.declare_queryable("q", lambda query: query.reply("q", "yes"))
        for _ in range(3):
            assert texts(querier.get("q", timeout=TIMEOUT_SECONDS)) == ["yes"]


def test_network_messages_have_timestamps(ends: Ends) -> None:
    """PU-72: that of a PUSH is the sample's where DEL has none; that of a REQUEST arrives."""
    seen: list[object] = []

    def on_query(query: Any) -> None:  # noqa: ANN401
        with query:
            seen.append(query.timestamp)
            query.reply_err("no", timestamp=query.timestamp)

    with querier_with(ends, on_query) as querier:
        stamp = querier.new_timestamp()
        (reply,) = querier.get("q/a", timestamp=stamp, timeout=TIMEOUT_SECONDS)
        assert seen == [reply.err.timestamp] == [stamp]
        with start(zenspark, "client", [], [ends.far]) as subscribing:
            found = subscribing.declare_subscriber("k")
            with querier.declare_publisher("k") as publisher:
                until(lambda: publisher.matching_status.matching)
            push = messages.Push(wire_expr=wire.WireExpr(0, "k"), timestamp=stamp.to_wire(), body=messages.Del())
            querier._runtime.node.send_local(push)
            assert found.recv(TIMEOUT_SECONDS).timestamp == stamp
