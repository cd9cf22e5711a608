"""Configuration that changes the messages sent: zenspark's and eclipse-zenoh's, on either side, mean the same."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

import zenspark
from tests.interop.reference import unused
from tests.wait import until

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

Api: TypeAlias = Any
Found: TypeAlias = Any


def start(api: Api, **config: object) -> Found:
    made = api.Config()
    settings = {"scouting/multicast/enabled": False, "transport/shared_memory/enabled": False, "listen/endpoints": []}
    settings.update({name.replace("__", "/"): value for name, value in config.items()})
    for key, value in settings.items():
        made.insert_json5(key, json.dumps(value))
    return api.open(made)


@pytest.fixture(params=["ours is configured", "theirs is configured"])
def apis(request: pytest.FixtureRequest) -> tuple[Api, Api]:
    """Who has the configuration under test, and who is the plain other."""
    return (zenspark, zenoh) if request.param.startswith("ours") else (zenoh, zenspark)


@contextlib.contextmanager
def joined(apis: tuple[Api, Api], mode: str = "peer", **config: object) -> Iterator[tuple[Any, Any]]:
    """The configured session and the plain one."""
    there = unused()
    with (
        start(apis[1], mode="router" if mode == "client" else "peer", listen__endpoints=[there]) as plain,
        start(apis[0], mode=mode, connect__endpoints=[there], **config) as configured,
    ):
        until(lambda: configured.info.transports() and plain.info.transports())
        yield configured, plain


def keys(replies: Found) -> list[str]:
    return sorted(str(reply.ok.key_expr) for reply in replies)


def alive(api: Api, session: Found) -> list[str]:
    """The tokens there are, exactly as zenspark returns them, and each once as eclipse-zenoh does."""
    found = keys(session.liveliness().get("**"))
    return found if api is zenspark else sorted(set(found))


def matched(publisher: Found) -> bool:
    return bool(publisher.matching_status.matching)


# --- namespace ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["peer", "client"])
def test_publications_in_a_namespace(apis: tuple[Api, Api], mode: str) -> None:
    with joined(apis, mode, namespace="a/b") as (inside, outside):
        here: list[str] = []
        there: list[str] = []
        with (
            inside.declare_subscriber("**", lambda sample: here.append(str(sample.key_expr))),
            outside.declare_subscriber("**", lambda sample: there.append(str(sample.key_expr))),
            inside.declare_publisher("up") as up,
            inside.declare_publisher("probe", allowed_destination=apis[0].Locality.REMOTE) as probe,
            outside.declare_publisher("a/b/down", allowed_destination=apis[1].Locality.REMOTE) as down,
        ):
            until(lambda: matched(probe) and matched(down))
            assert str(up.key_expr) == "up"
            up.put("")
            inside.put("up/too", "")
            until(lambda: {"a/b/up", "a/b/up/too"} <= set(there) and {"up", "up/too"} <= set(here))
            here.clear()
            for key in ("elsewhere", "a/b", "a/*/wild", "**/any", "@x/verbatim", "a/b/@x/1", "a/b/last"):
                outside.put(key, "")
            until(lambda: "last" in here)
            assert here == ["wild", "**/any", "last"]


@pytest.mark.parametrize("mode", ["peer", "client"])
def test_queries_in_a_namespace(apis: tuple[Api, Api], mode: str) -> None:
    with joined(apis, mode, namespace="a/b") as (inside, outside):
        queried: list[str] = []

        def on_query(query: Found) -> None:
            with query:
                queried.append(str(query.selector))
                query.reply("q/1", "")

        def on_query_outside(query: Found) -> None:
            with query:
                queried.append(str(query.selector))
                query.reply("a/b/n/1", "")

        with (
            inside.declare_queryable("q/**", on_query),
            outside.declare_queryable("a/b/n/**", on_query_outside),
            inside.declare_querier("n/1") as up,
            outside.declare_querier("a/b/q/1") as down,
        ):
            until(lambda: matched(up) and matched(down))
            assert keys(outside.get("a/b/q/*?x=1")) == ["a/b/q/1"]
            assert keys(outside.get("q/*")) == []
            assert keys(inside.get("n/*?y")) == ["n/1"]
            assert keys(up.get()) == ["n/1"]
            assert queried == ["q/*?x=1", "a/b/n/*?y", "a/b/n/1"]


@pytest.mark.parametrize("mode", ["peer", "client"])
def test_liveliness_in_a_namespace(apis: tuple[Api, Api], mode: str) -> None:
    with joined(apis, mode, namespace="a/b") as (inside, outside):
        announced: list[tuple[str, str]] = []
        with (
            inside.liveliness().declare_token("in"),
            outside.liveliness().declare_token("out"),
        ):
            with inside.liveliness().declare_subscriber(
                "**", lambda sample: announced.append((str(sample.key_expr), str(sample.kind))), history=True
            ):
                until(lambda: announced)
                with outside.liveliness().declare_token("a/b/their"):
                    until(lambda: len(announced) == 2)
                until(lambda: len(announced) == 3)
            assert announced == [
                ("in", "SampleKind.PUT"),
                ("their", "SampleKind.PUT"),
                ("their", "SampleKind.DELETE"),
            ]
            # Only now that the subscriber is gone: a loaded eclipse-zenoh would hand it replies that come too late.
            # It also gives replies twice, which ours must not.
            with outside.liveliness().declare_token("a/b/their"):
                until(lambda: alive(apis[1], outside) == ["a/b/in", "a/b/their", "out"])
                until(lambda: alive(apis[0], inside) == ["in", "their"])


# --- aggregation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["peer", "client"])
def test_aggregated_subscribers_receive_only_matching_samples(apis: tuple[Api, Api], mode: str) -> None:
    """The plain side only has the aggregate, so a publisher of a key without subscriber matches as well."""
    with joined(apis, mode, aggregation__subscribers=["a/**"]) as (configured, plain):
        one: list[str] = []
        two: list[str] = []
        with configured.declare_subscriber("a/2", lambda sample: two.append(str(sample.key_expr))):
            with (
                configured.declare_subscriber("a/1", lambda sample: one.append(str(sample.key_expr))),
                plain.declare_publisher("a/unwanted") as unwanted,
            ):
                until(lambda: matched(unwanted))
                for key in ("a/0", "a/1", "a/2"):
                    plain.put(key, "")
                until(lambda: one and two)
            plain.put("a/2", "")
            until(lambda: len(two) == 2)
            assert one == ["a/1"]
        with plain.declare_publisher("a/2") as publisher:
            until(lambda: not matched(publisher))


@pytest.mark.parametrize("mode", ["peer", "client"])
def test_aggregated_publishers_reach_their_subscribers(apis: tuple[Api, Api], mode: str) -> None:
    with joined(apis, mode, aggregation__publishers=["p/**"]) as (configured, plain):
        found: list[str] = []
        with (
            configured.declare_publisher("p/1") as one,
            configured.declare_publisher("p/2") as two,
            plain.declare_subscriber("p/2", lambda sample: found.append(str(sample.key_expr))),
        ):
            until(lambda: matched(two))
            assert not matched(one)
            one.put("")
            two.put("")
            until(lambda: found)
            assert found == ["p/2"]


# --- how publications are sent --------------------------------------------------------------------


def test_publications_are_sent_as_configured(apis: tuple[Api, Api]) -> None:
    treatment = {"congestion_control": "block", "priority": "data_high", "express": True}
    rules = [{"key_exprs": ["o/**"], "config": treatment}]
    api, other = apis
    with joined(apis, qos__publication=rules) as (configured, plain):
        found: list[Any] = []
        with (
            plain.declare_subscriber("**", found.append),
            configured.declare_publisher("o/1", priority=api.Priority.BACKGROUND) as publisher,
        ):
            until(lambda: matched(publisher))
            assert publisher.priority == api.Priority.DATA_HIGH
            publisher.put("")
            configured.put("o/2", "", priority=api.Priority.REAL_TIME)
            configured.delete("o/3")
            configured.put("other", "")
            until(lambda: len(found) == 4)
            found.sort(key=lambda sample: str(sample.key_expr))
            for sample in found[:3]:
                assert sample.priority == other.Priority.DATA_HIGH
                assert sample.congestion_control == other.CongestionControl.BLOCK
                assert sample.express
            assert found[3].priority == other.Priority.DATA


def test_timestamping_setting_stamps_publications(apis: tuple[Api, Api]) -> None:
    for enabled in (True, False):
        with joined(apis, timestamping__enabled=enabled) as (configured, plain):
            found: list[Any] = []
            with (
                plain.declare_subscriber("t", found.append),
                configured.declare_publisher("t") as publisher,
            ):
                until(lambda: matched(publisher))
                publisher.put("")
                configured.delete("t")
                until(lambda: len(found) == 2)  # noqa: B023 - called at once
                assert [sample.timestamp is not None for sample in found] == [enabled] * 2
                if enabled:
                    assert str(found[0].timestamp).endswith(str(configured.zid()))


def test_queries_end_after_the_configured_time(apis: tuple[Api, Api]) -> None:
    held: list[Any] = []
    with (
        joined(apis, queries_default_timeout=200) as (configured, plain),
        plain.declare_queryable("slow", held.append),
    ):
        with configured.declare_querier("slow") as querier:
            until(lambda: matched(querier))
            *_, reply = querier.get()  # the node that was queried may report it too
            assert reply.err.payload.to_string() == "Timeout"
        *_, reply = configured.get("slow")
        assert reply.err.payload.to_string() == "Timeout"
        held.clear()
