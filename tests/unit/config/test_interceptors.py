"""Interceptors as they are configured: what cannot be meant is refused, what can is done to what comes in."""

from __future__ import annotations

import logging

import pytest

from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS
from zenspark.config.interceptors import make_interceptor_config
from zenspark.config.schema import ConfigError, Document, resolve, validate_document
from zenspark.config.settings import Settings
from zenspark.router.interceptors.chain import InterceptorConfig
from zenspark.router.interceptors.rules import NeighbourAttributes
from zenspark.wire.values import ZenohId

RULE: Document = {"id": "r", "permission": "deny", "key_exprs": ["shut/**"], "messages": ["put", "query"]}
SUBJECT: Document = {"id": "s"}
POLICY: Document = {"rules": ["r"], "subjects": ["s"]}
RATE: Document = {"messages": ["put"], "rules": [{"key_expr": "a", "freq": 1}]}
LIMIT: Document = {"messages": ["put"], "key_exprs": ["a"], "size_limit": 1}
OVERWRITE: Document = {"messages": ["put"], "overwrite": {"express": True}}


def made(document: Document) -> InterceptorConfig | None:
    return make_interceptor_config(resolve(Settings, validate_document(Settings, document), "router"))


def control(**changes: object) -> Document:
    usual = {"default_permission": "allow", "rules": [RULE], "subjects": [SUBJECT], "policies": [POLICY]}
    return {"access_control": {"enabled": True, **usual, **changes}}


def test_interceptors_are_made_only_if_configured() -> None:
    assert made({}) is None
    assert made(control(enabled=False, policies=None)) is None
    for document in (
        control(),
        {"downsampling": [RATE]},
        {"low_pass_filter": [LIMIT]},
        {"qos": {"network": [OVERWRITE]}},
    ):
        found = made(document)
        assert found is not None
        assert found.make_chain(NeighbourAttributes(ZenohId(1)), "ingress", lambda expr: expr.suffix) is not None


@pytest.mark.parametrize(
    ("document", "key", "expected"),
    [
        (control(rules=None), "access_control/rules", "a list, as access control is enabled"),
        (control(subjects=None), "access_control/subjects", "a list, as access control is enabled"),
        (control(rules=[RULE, RULE]), "access_control/rules/1/id", "an id that no other has"),
        (control(rules=[{**RULE, "id": " "}]), "access_control/rules/0/id", "an id that is not empty"),
        (control(subjects=[{"id": ""}]), "access_control/subjects/0/id", "an id that is not empty"),
        (control(policies=[{**POLICY, "rules": ["r", "q"]}]), "access_control/policies/0/rules/1", "one of r"),
        (control(policies=[{**POLICY, "subjects": ["t"]}]), "access_control/policies/0/subjects/0", "one of s"),
        (control(policies=[{**POLICY, "rules": []}]), "access_control/policies/0/rules", "a list that is not empty"),
        (control(policies=[{**POLICY, "id": "p"}] * 2), "access_control/policies/1/id", "an id that no other has"),
        (
            control(subjects=[{"id": "s", "usernames": ["anna", " "]}]),
            "access_control/subjects/0/usernames/1",
            "a text that is not empty",
        ),
        ({"downsampling": [{**RATE, "id": "x"}] * 2}, "downsampling/1/id", "an id that no other has"),
        ({"low_pass_filter": [{**LIMIT, "id": "x"}] * 2}, "low_pass_filter/1/id", "an id that no other has"),
        ({"qos": {"network": [{**OVERWRITE, "id": "x"}] * 2}}, "qos/network/1/id", "an id that no other has"),
    ],
)
def test_errors_name_the_key_and_the_expected_value(document: Document, key: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(document)
    assert (caught.value.key, caught.value.expected) == (key, expected)


GROUP: Document = {"endpoints": ["tcp/127.0.0.1:0", "udp/224.0.0.1:7446#iface=lo"]}


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (control(), "access_control"),
        ({"downsampling": [RATE]}, "downsampling"),
        ({"low_pass_filter": [LIMIT]}, "low_pass_filter"),
    ],
)
def test_no_group_is_joined_where_rules_are_to_limit_neighbours(document: Document, name: str) -> None:
    assert made(document) is not None
    with pytest.raises(ConfigError, match=f"no multicast group while {name} is set") as caught:
        made({**document, "listen": GROUP})
    assert (caught.value.key, caught.value.found) == ("listen/endpoints", "udp/224.0.0.1:7446")
    assert made({"listen": GROUP, "qos": {"network": [OVERWRITE]}}) is not None


def test_subjects_are_users_only_where_users_log_in() -> None:
    document = control(subjects=[SUBJECT, {"id": "t", "usernames": ["ann"]}])
    with pytest.raises(ConfigError, match="dictionary_file") as caught:
        made(document)
    assert caught.value.key == "access_control/subjects/1/usernames"
    assert made({**document, "transport": {"auth": {"usrpwd": {"dictionary_file": "users"}}}}) is not None


def test_an_empty_list_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "zenspark"):
        assert made(control(rules=[], policies=[])) is not None
    assert "access_control has no rules and no policies: default_permission allow applies to everything" in caplog.text


def test_ingress_interceptors_apply_to_rows_and_finish_queries() -> None:
    with (
        listening("router", **control()) as router,
        connected("client", router) as client,
        router.declare_subscriber("**") as subscriber,
        router.declare_queryable("**", lambda query: query.reply(query.key_expr, b"yes")),
    ):
        for number in range(100):
            client.put("shut/a", str(number))
            client.put("open/a", str(number))
        assert [int(subscriber.recv(TIMEOUT_SECONDS).payload.to_string()) for _ in range(100)] == list(range(100))
        assert [reply.ok is not None for reply in client.get("open/a", timeout=TIMEOUT_SECONDS)] == [True]
        assert list(client.get("shut/a", timeout=100 * TIMEOUT_SECONDS)) == []
