"""The network around a node: routers join and leave the graph, tokens and sessions come and go."""

from __future__ import annotations

from typing import Any

import pytest

import zenspark.api.open
from tests.unit.api.sessions import address, config, connected
from tests.unit.web.served import opened, send_request, serving
from tests.wait import until
from zenspark.api.session import Session
from zenspark.web.http_clients import HttpClient
from zenspark.web.network import NetworkWatch


def nodes(document: dict[str, Any]) -> dict[str, str]:
    return {node["zid"]: node["whatami"] for node in document["nodes"]}


def links(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(link["src"], link["dst"]) for link in document["links"]}


def pair_of(one: Session, other: Session) -> tuple[str, str]:
    first, second = sorted([str(one.zid()), str(other.zid())])
    return first, second


@pytest.mark.slow
def test_a_router_joins_and_leaves_with_its_client() -> None:
    with opened(adminspace__enabled=True) as own:
        watch, anyone = NetworkWatch(own), HttpClient(own, "127.0.0.1")
        watch.acquire()
        assert until(lambda: nodes(watch.document(anyone)) == {str(own.zid()): "router"})
        version = watch.version
        settings = config("router", ["tcp/127.0.0.1:0"], [address(own)], adminspace__enabled=True)
        with zenspark.api.open.open(settings) as router, connected("client", router) as client:
            wanted = {str(own.zid()): "router", str(router.zid()): "router", str(client.zid()): "client"}
            assert until(lambda: nodes(watch.document(anyone)) == wanted)
            assert links(watch.document(anyone)) == {pair_of(own, router), pair_of(router, client)}
            assert watch.version > version
            sessions: Any = watch.document(anyone)["sessions"]
            (session,) = sessions
            assert (session["zid"], session["whatami"]) == (str(router.zid()), "router")
        assert until(lambda: nodes(watch.document(anyone)) == {str(own.zid()): "router"})
        events: Any = watch.document(anyone)["events"]
        names = [(event["event"], event["zid"]) for event in events]
        assert ("opened", str(router.zid())) in names
        assert ("closed", str(router.zid())) in names
        watch.release()
        watch.close()


@pytest.mark.slow
def test_network_has_declarations_tokens_and_their_events() -> None:
    with opened() as own, connected("client", own) as client:
        watch, anyone = NetworkWatch(own), HttpClient(own, "127.0.0.1")
        watch.acquire()
        assert until(lambda: watch._has_declarations)
        subscriber = client.declare_subscriber("demo/**")
        publisher = client.declare_publisher("demo/a")
        token = client.liveliness().declare_token("alive/a")
        zid = str(client.zid())

        def declared() -> set[tuple[str, str]]:
            every: Any = watch.document(anyone)["declarations"]
            return {(each["kind"], each["key"]) for each in every if zid in each["nodes"]}

        assert until(lambda: declared() >= {("subscriber", "demo/**"), ("publisher", "demo/a"), ("token", "alive/a")})
        for each in (subscriber, publisher, token):
            each.undeclare()

        def events() -> list[tuple[str, str, str]]:
            every: Any = watch.document(anyone)["events"]
            return [(each["event"], each["key"], each["zid"]) for each in every]

        assert until(lambda: ("token_removed", "alive/a", zid) in events())
        assert until(lambda: ("undeclared", "demo/**", zid) in events())
        assert ("token", "alive/a", zid) in events()
        assert ("declared", "demo/**", zid) in events()
        watch.close()


def test_network_is_served_without_a_live_page() -> None:
    with opened() as own, connected("client", own) as client, serving(own) as server:
        found = send_request(server, "/_api/network").json
        assert nodes(found) == {str(own.zid()): "router", str(client.zid()): "client"}
        assert found["declarations_total"] == len(found["declarations"])


def test_declarations_that_access_control_keeps_from_a_client_are_not_shown() -> None:
    rule = {
        **{"id": "no", "permission": "deny", "key_exprs": ["shut/**"], "flows": ["egress"]},
        "messages": ["put", "declare_subscriber", "declare_queryable", "liveliness_token"],
    }
    control = {
        **{"enabled": True, "default_permission": "allow", "rules": [rule]},
        "subjects": [{"id": "web", "link_protocols": ["http"]}],
        "policies": [{"rules": ["no"], "subjects": ["web"]}],
    }
    with opened(access_control=control) as own, connected("client", own) as client, serving(own) as server:
        send_request(server, "/_api/network")
        declared = [
            *(client.declare_subscriber(f"{place}/a") for place in ("shut", "open")),
            *(client.declare_queryable(f"{place}/b") for place in ("shut", "open")),
            *(client.liveliness().declare_token(f"{place}/c") for place in ("shut", "open")),
        ]

        def seen() -> list[tuple[str, str]]:
            document = send_request(server, "/_api/network").json
            assert document["declarations_total"] == len(document["declarations"])
            events = {event["key"] for event in document["events"] if event["key"]}
            assert not any(key.startswith("shut") for key in events)
            return [(each["kind"], each["key"]) for each in document["declarations"]]

        expected = [("queryable", "open/b"), ("subscriber", "open/a"), ("token", "open/c")]
        assert until(lambda: [each for each in seen() if each[1].startswith("open")] == expected)
        assert not any(key.startswith("shut") for _, key in seen())
        del declared
