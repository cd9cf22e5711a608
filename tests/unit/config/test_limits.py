"""The keys below `limits`: checked on loading, handed to the router, and felt by this session, too."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.unit.api.sessions import config, connected, listening
from zenspark.api.session import Session
from zenspark.config.config import Config
from zenspark.config.schema import ConfigError
from zenspark.errors import KeyLimitExceeded
from zenspark.router.limits import RouterLimits


def test_defaults_are_those_of_the_router() -> None:
    assert Config().settings().limits.for_router() == RouterLimits()
    assert "limits" not in str(Config())


def test_every_limit_of_the_router_is_a_key() -> None:
    limits = config("router", limits={"key": {"bytes": 100}, "session": {"queries": 7, "interests": 8}})
    router = limits.settings().limits.for_router()
    assert (router.key.bytes, router.queries, router.interests) == (100, 7, 8)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("limits/key/bytes", 65_536),
        ("limits/key/bytes", 63),
        ("limits/key/chunks", 0),
        ("limits/key/chunk", 1),
        ("limits/session/queries", -1),
        ("limits/session/declared_bytes", 1000),
        ("limits/session/key_numbers", 65_536),
        ("limits/session/declarations", "many"),
    ],
)
def test_invalid_values_are_rejected(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key.rpartition("/")[0]):
        Config().insert_json5(key, json.dumps(value))


@pytest.fixture
def tight() -> Callable[[], Session]:
    return lambda: listening("peer", limits__key__bytes=64, namespace="space")


USES: dict[str, Callable[[Session, str], object]] = {
    "put": lambda session, key: session.put(key, b""),
    "delete": lambda session, key: session.delete(key),
    "publisher": lambda session, key: session.declare_publisher(key),
    "subscriber": lambda session, key: session.declare_subscriber(key),
    "queryable": lambda session, key: session.declare_queryable(key),
    "querier": lambda session, key: session.declare_querier(key),
    "get": lambda session, key: session.get(key),
    "token": lambda session, key: session.liveliness().declare_token(key),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_key_over_a_limit_raises_with_the_setting_to_change(
    tight: Callable[[], Session], use: Callable[[Session, str], object]
) -> None:
    with tight() as session:
        use(session, "k" * 58)  # with the namespace 64
        with pytest.raises(KeyLimitExceeded, match=r"has 65 bytes, 64 are allowed: .* raise limits/key/bytes"):
            use(session, "k" * 59)


def test_refusals_are_counted() -> None:
    with listening("router", limits__key__bytes=64) as router, connected("client", router) as client:
        with router.declare_subscriber("**") as subscriber:
            client.put("k" * 65, b"too long")
            client.put("k" * 64, b"long")
            assert subscriber.recv(timeout=30).payload.to_string() == "long"
        assert router.info.refusals() == {"key_bytes": 1}
        assert client.info.refusals() == {}
