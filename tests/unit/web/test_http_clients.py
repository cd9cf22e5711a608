"""What clients that are no neighbours may do."""

from __future__ import annotations

import pytest

from tests.unit.api.sessions import config
from zenspark.api.open import open
from zenspark.router.limits import RefusalReason
from zenspark.web import http_clients
from zenspark.web.http_clients import HttpClient

RULE = {"id": "r", "permission": "deny", "key_exprs": ["shut/**"], "messages": ["put"], "flows": ["ingress"]}


def control(subject: dict[str, object], default: str = "allow", **changes: object) -> dict[str, object]:
    lists = {"rules": [{**RULE, **changes}], "subjects": [{"id": "s", **subject}]}
    return {
        **lists,
        "enabled": True,
        "default_permission": default,
        "policies": [{"rules": ["r"], "subjects": ["s"]}],
    }


def test_http_client_without_access_control_is_allowed_everything() -> None:
    with open(config("router")) as session:
        assert HttpClient(session, "127.0.0.1").is_allowed("ingress", "put", "shut/a")
    with open(
        config("router", low_pass_filter=[{"messages": ["put"], "key_exprs": ["a"], "size_limit": 1}])
    ) as session:
        assert HttpClient(session, "127.0.0.1").is_allowed("ingress", "put", "shut/a")


@pytest.mark.parametrize(
    ("subject", "is_meant"),
    [
        ({}, True),
        ({"interfaces": ["lo"]}, True),
        ({"interfaces": ["eth7"]}, False),
        ({"link_protocols": ["http"]}, True),
        ({"link_protocols": ["tcp", "tls"]}, False),
        ({"zids": ["a1"]}, False),
        ({"cert_common_names": ["ann"]}, False),
    ],
)
def test_access_control_subject_matches_http_clients_by_interface_and_protocol(
    subject: dict[str, object], is_meant: bool
) -> None:
    with open(config("router", id="a1", access_control=control(subject))) as session:
        guest = HttpClient(session, "127.0.0.1")
        assert guest.is_allowed("ingress", "put", "shut/a") is not is_meant
        assert guest.is_allowed("egress", "put", "shut/a")
        assert guest.is_allowed("ingress", "query", "shut/a")
        assert guest.is_allowed("ingress", "put", "open/a")


def test_default_deny_allows_http_clients_only_permitted_messages() -> None:
    allowed = control({"link_protocols": ["http"]}, default="deny", permission="allow")
    with open(config("router", access_control=allowed)) as session:
        guest = HttpClient(session, "127.0.0.1")
        assert guest.is_allowed("ingress", "put", "shut/a")
        assert not guest.is_allowed("ingress", "put", "open/a")
        assert not guest.is_allowed("egress", "reply", "shut/a")


def test_access_control_keys_of_http_clients_include_the_namespace() -> None:
    with open(config("router", namespace="shut", access_control=control({}))) as session:
        assert not HttpClient(session, "127.0.0.1").is_allowed("ingress", "put", "a")


def test_access_control_subject_matches_http_clients_by_username() -> None:
    subject: dict[str, object] = {"usernames": ["ann"], "link_protocols": ["http"]}
    with open(config("router", access_control=control(subject))) as session:
        assert not HttpClient(session, "127.0.0.1", "ann").is_allowed("ingress", "put", "shut/a")
        assert HttpClient(session, "127.0.0.1", "bob").is_allowed("ingress", "put", "shut/a")
        assert HttpClient(session, "127.0.0.1").is_allowed("ingress", "put", "shut/a")


def test_refusals_name_the_address_of_an_http_client() -> None:
    with open(config("router", access_control=control({}))) as session:
        assert not HttpClient(session, "127.0.0.1", "ann", "192.0.2.7").is_allowed("ingress", "put", "shut/a")
        refusals = session._runtime.node.dispatcher.router.refusals
        assert refusals.latest[RefusalReason.ACCESS_INGRESS] == "user ann (http/192.0.2.7)"


def test_http_client_may_read_as_egress_rules_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = control({"link_protocols": ["http"]}, flows=["egress"])
    monkeypatch.setattr(http_clients, "MAX_CACHED_KEYS", 1)
    with open(config("router", access_control=denied)) as session:
        guest = HttpClient(session, "127.0.0.1")
        assert not guest.is_unrestricted
        for _ in range(2):
            assert not guest.may_read("shut/a")
            assert guest.may_read("open/a")
    with open(config("router")) as session:
        guest = HttpClient(session, "127.0.0.1")
        assert guest.is_unrestricted
        assert guest.may_read("shut/a")
