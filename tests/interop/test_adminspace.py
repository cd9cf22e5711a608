"""The admin space of our nodes beside that of eclipse-zenoh's in the same situation: the same keys, the same documents.

What differs by nature is left out of the comparison: addresses, numbers of links, versions and metrics of our own.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

import zenspark
from tests.interop.reference import eventually, unused
from tests.unit.net.ends import free_group
from zenspark.net.links.interfaces import find_interface

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

Api: TypeAlias = Any
Session: TypeAlias = Any
"""Of either side."""

API: dict[str, Api] = {"ours": zenspark, "theirs": zenoh}
BOTH = pytest.mark.parametrize("asker", list(API))
METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@contextlib.contextmanager
def node(api: Api, mode: str, zid: str, listen: str | None = None, connect: str | None = None, **others: object) -> Any:  # noqa: ANN401 - a session of either side
    settings = {
        "mode": mode,
        "id": zid,
        "listen/endpoints": [] if listen is None else [listen],
        "connect/endpoints": [] if connect is None else [connect],
        "scouting/multicast/enabled": False,
        "scouting/gossip/autoconnect": {"router": [], "peer": []},
        "transport/shared_memory/enabled": False,
        "metadata": {"name": zid},
        **{name.replace("__", "/"): value for name, value in others.items()},
    }
    config = api.Config()
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    with api.open(config) as session:
        yield session


ADMIN = {"enabled": True, "permissions": {"read": True, "write": True}}


@contextlib.contextmanager
def situation(api: Api, mode: str, asker: Api) -> Iterator[tuple[Session, Session]]:
    """A node with everything around it that it can have: the node, and a client that queries it."""
    here, above = unused(), unused()
    with contextlib.ExitStack() as stack:
        if mode == "peer":
            stack.enter_context(node(zenoh, "router", "a2", above))
        connect = above if mode == "peer" else None
        centre = stack.enter_context(node(api, mode, "a1", here, connect, adminspace=ADMIN))
        if mode == "router":
            router = stack.enter_context(node(zenoh, "router", "a2", above, here))
            stack.enter_context(_declared(router.declare_subscriber("demo/r2", lambda _: None)))
        peer = stack.enter_context(node(zenoh, "peer", "b1", unused(), here))
        client = stack.enter_context(node(zenoh, "client", "c1", None, here))
        for each in (
            peer.declare_subscriber("demo/sub/**", lambda _: None),
            client.declare_subscriber("demo/sub/**", lambda _: None),
            client.declare_queryable("demo/q", lambda _: None, complete=True),
            client.liveliness().declare_token("demo/tok"),
            client.declare_publisher("demo/pub"),
            client.declare_querier("demo/querier"),
            centre.declare_subscriber("demo/local", lambda _: None),
            centre.declare_publisher("demo/own"),
        ):
            stack.enter_context(_declared(each))
        yield centre, stack.enter_context(node(asker, "client", "c2", None, here))


@contextlib.contextmanager
def _declared(entity: Any) -> Iterator[None]:  # noqa: ANN401 - an entity of either side
    """Held as long as it is needed."""
    yield
    entity.undeclare()


ZENSPARK_ONLY_SUFFIX = "/counters"
"""What ends the key of the document that eclipse-zenoh does not have."""


def query_payloads(session: Session, selector: str) -> dict[str, tuple[str, bytes]]:
    """Encodings and payloads by key, of what both have."""
    found = [reply.ok for reply in session.get(selector, timeout=5)]
    return {
        str(sample.key_expr): (str(sample.encoding), sample.payload.to_bytes())
        for sample in found
        if sample is not None and not str(sample.key_expr).endswith(ZENSPARK_ONLY_SUFFIX)
    }


def comparable(key: str, encoding: str, payload: bytes) -> tuple[str, str]:
    """A document without what differs by nature; the order of names in it counts."""
    if encoding != "application/json":
        return encoding, "" if key.endswith("/metrics") else payload.decode()
    value = json.loads(payload)
    if isinstance(value, dict):
        for name in {"routers", "peers", "clients"} & value.keys():
            value[name] = sorted(set(value[name]))  # 1.10.2 may list a node twice
        if "version" in value:
            assert isinstance(value["version"], str)
            value["version"] = "any"
            value["sessions"].sort(key=lambda session: session["peer"])
    return encoding, re.sub(r":\d{4,5}\"", ':0"', json.dumps(value))


def documents(found: dict[str, tuple[str, bytes]]) -> dict[str, tuple[str, str]]:
    return {re.sub(r"/link/\d+$", "/link/0", key): comparable(key, *rest) for key, rest in found.items()}


DECLARED = {
    *("subscriber/demo/sub/**", "queryable/demo/q", "token/demo/tok", "publisher/demo/pub", "querier/demo/querier"),
    *("subscriber/demo/local", "publisher/demo/own"),
}
EXPECTED = {
    "router": {
        *DECLARED,
        *("subscriber/demo/r2", "linkstate/north", "linkstate/south:0:peer", "metrics"),
        *("route/successor/src/a1/dst/a2", "route/successor/src/a2/dst/a2"),
    },
    "peer": {*DECLARED, "linkstate/north", "metrics"},
}


@BOTH
@pytest.mark.parametrize("mode", list(EXPECTED))
def test_admin_keys_and_documents_equal_eclipse_zenoh(mode: str, asker: str) -> None:
    found = {}
    keys = {f"@/a1/{mode}", *(f"@/a1/{mode}/{key}" for key in EXPECTED[mode])}
    for name, api in API.items():
        with situation(api, mode, API[asker]) as (_, client):
            assert eventually(lambda: query_payloads(client, f"@/a1/{mode}/**").keys() == keys), query_payloads(
                client, "@/**"
            )
            found[name] = documents(query_payloads(client, f"@/*/{mode}/**"))
            assert query_payloads(client, f"@/a1/{mode}/config/**") == {}
            assert f"@/a1/{mode}/subscriber/demo/sub/**" in query_payloads(client, "@/*/*/subscriber/demo/sub/x")
    assert found["ours"] == found["theirs"]


def test_client_admin_space_equals_eclipse_zenoh() -> None:
    found = {}
    for name, api in API.items():
        endpoint = unused()
        with (
            node(zenoh, "router", "a1", endpoint) as router,
            node(api, "client", "c1", None, endpoint, adminspace=ADMIN),
        ):
            assert eventually(lambda: query_payloads(router, "@/c1/client/**"))
            found[name] = documents(query_payloads(router, "@/c1/**"))
    assert found["ours"] == found["theirs"]
    assert found["ours"].keys() == {"@/c1/client", "@/c1/client/metrics"}


def test_multicast_members_are_in_the_admin_space() -> None:
    found = {}
    interface = find_interface("127.0.0.1").name
    for name, api in API.items():
        group = f"udp/{free_group()}#iface={interface}"
        with (
            node(api, "peer", "a1", group, adminspace=ADMIN) as session,
            node(zenoh, "peer", "b1", group),
        ):
            assert eventually(lambda: len(query_payloads(session, "@/a1/session/**")) == 2)
            documented = documents(query_payloads(session, "@/a1/**"))
        place = re.compile(r"udp/2[23]\d\.[0-9.]+:\d+")
        found[name] = {key: (kind, place.sub("the group", text)) for key, (kind, text) in documented.items()}
    assert found["ours"] == found["theirs"]
    assert "@/a1/session/transport/multicast/b1/link/0" in found["ours"]


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_admin_documents_of_links_without_qos_equal_eclipse_zenoh(protocol: str) -> None:
    found = {}
    for name, api in API.items():
        endpoint = unused(protocol)
        with (
            node(zenoh, "router", "a1", endpoint, transport__unicast__qos__enabled=False),
            node(api, "client", "c1", None, endpoint, transport__unicast__qos__enabled=False) as client,
        ):
            found[name] = documents(query_payloads(client, "@/c1/session/**"))
    assert found["ours"] == found["theirs"]
    assert len(found["ours"]) == 2


def names(metrics: bytes) -> list[str]:
    """Lines without their numbers: each question is one more message received."""
    return [re.sub(r" \d+$", "", line) for line in metrics.decode().splitlines()]


@BOTH
def test_metrics_are_gzipped_unless_compression_is_false(asker: str) -> None:
    for api in API.values():
        endpoint = unused()
        with (
            node(api, "router", "a1", endpoint, adminspace=ADMIN),
            node(API[asker], "client", "c1", None, endpoint) as client,
        ):
            key = "@/a1/router/metrics"
            (packed,), (plain,) = (
                query_payloads(client, key).values(),
                query_payloads(client, f"{key}?compression=false").values(),
            )
            (bare,) = query_payloads(client, f"{key}?compression=false;descriptors=false").values()
            assert (packed[0], plain[0]) == (f"{METRICS};content-encoding=gzip", METRICS)
            assert names(gzip.decompress(packed[1])) == names(plain[1])
            build = 'zenoh_build_info{local_id="a1",local_whatami="router",version="'
            for text in (plain[1].decode(), bare[1].decode()):
                assert any(line.startswith(build) and line.endswith('"} 1') for line in text.splitlines())
                assert text.rstrip().endswith("# EOF")
            assert b"# TYPE" in plain[1]
            assert b"# TYPE" not in bare[1]


@BOTH
def test_admin_space_without_read_permission_sends_no_reply(asker: str) -> None:
    for api in API.values():
        endpoint = unused()
        closed = {"enabled": True, "permissions": {"read": False, "write": False}}
        with (
            node(api, "router", "a1", endpoint, adminspace=closed),
            node(API[asker], "client", "c1", None, endpoint) as client,
        ):
            assert query_payloads(client, "@/a1/**") == {}


@BOTH
def test_put_and_delete_in_the_admin_space_change_nothing(asker: str) -> None:
    """1.10.2 lets only the keys of plugins be written, and has none here."""
    for api in API.values():
        endpoint = unused()
        with (
            node(api, "router", "a1", endpoint, adminspace=ADMIN),
            node(API[asker], "client", "c1", None, endpoint) as client,
        ):
            client.put("@/a1/router/config/metadata", '{"name": "other"}')
            client.delete("@/a1/router/config/metadata")
            (document,) = query_payloads(client, "@/a1/router").values()
            assert json.loads(document[1])["metadata"] == {"name": "a1"}


def observe_client_transport(api: Api) -> tuple[dict[str, tuple[str, str]], list[tuple[str, str, str]]]:
    """What a session reports of a client to its own program: documents, and samples until it has disconnected."""
    endpoint = unused()
    samples: list[tuple[str, str, str]] = []

    def on_sample(sample: Any) -> None:  # noqa: ANN401 - of either side
        key = re.sub(r"/link/\d+$", "/link/0", str(sample.key_expr))
        samples.append((str(sample.kind).rpartition(".")[2], key, str(sample.encoding)))

    with node(api, "router", "a1", endpoint) as router:
        router.declare_subscriber("@/a1/session/**", on_sample)
        with node(zenoh, "client", "c1", None, endpoint) as client:
            assert eventually(lambda: len(samples) == 2)
            found = documents(query_payloads(router, "@/a1/session/**"))
            assert query_payloads(client, "@/a1/session/**") == {}
        assert eventually(lambda: len(samples) == 4)
    return found, samples


def test_transport_documents_are_published_to_the_local_session_only() -> None:
    found, events = observe_client_transport(zenspark)
    assert (found, events) == observe_client_transport(zenoh)
    assert len(found) == 2
    assert [kind for kind, _, _ in events] == ["PUT", "PUT", "DELETE", "DELETE"]
