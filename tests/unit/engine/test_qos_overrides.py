"""QoS overrides: how publications are sent, whatever the program sets."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.config.config import Config
from zenspark.config.schema import ConfigError
from zenspark.engine.publisher import PublishSettings
from zenspark.engine.qos_overrides import QosOverrides
from zenspark.key import KeyExpr
from zenspark.types.enums import CongestionControl, Locality, Priority, Reliability
from zenspark.wire.values import Congestion
from zenspark.wire.values import Priority as WirePriority


def rule(key: str, **treatment: object) -> dict[str, Any]:
    return {"key_exprs": [key], "config": treatment}


def overrides(*rules: dict[str, Any]) -> QosOverrides:
    config = Config()
    config.insert_json5("qos/publication", json.dumps(rules))
    return QosOverrides(config.settings().qos.publication)


def test_the_first_rule_that_includes_the_key_counts() -> None:
    rules = overrides(rule("a/*", priority="real_time"), rule("a/**", priority="background"))
    found = [
        rules.apply(KeyExpr(key), PublishSettings()).qos.priority for key in ("a/b", "a/b/c", "a", "a/**", "b", "**")
    ]
    background, data = WirePriority.BACKGROUND, WirePriority.DATA
    assert found == [WirePriority.REAL_TIME, background, background, background, data, data]


def test_rule_overrides_qos_reliability_and_destination() -> None:
    treatment = {
        "congestion_control": "block_first",
        "priority": "data_low",
        "express": True,
        "reliability": "best_effort",
        "allowed_destination": "session_local",
    }
    found = overrides(rule("a", **treatment)).apply(KeyExpr("a"), PublishSettings())
    assert (found.qos.congestion, found.qos.priority) == (Congestion.BLOCK_FIRST, WirePriority.DATA_LOW)
    assert found.qos.express
    assert not found.reliable
    assert found.destination is Locality.SESSION_LOCAL
    assert found.overridden_columns == {"congestion", "priority", "express", "reliable"}
    assert overrides(rule("a")).apply(KeyExpr("a"), PublishSettings()) == PublishSettings()


@pytest.mark.parametrize(
    "wrong",
    [
        rule("a//b"),
        rule("a", priority="control"),
        rule("a", colour="red"),
        {"key_exprs": ["a"]},
    ],
)
def test_invalid_qos_rules_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="qos/publication"):
        overrides(wrong)


def test_qos_rules_apply_to_puts_and_publishers() -> None:
    rules = [rule("o/**", congestion_control="block", priority="data_high", express=True, reliability="best_effort")]
    with listening("peer") as there, connected("peer", there, qos__publication=rules) as here:
        subscriber = there.declare_subscriber("**")
        publisher = here.declare_publisher("o/3", priority=Priority.BACKGROUND, reliability=Reliability.RELIABLE)
        until(lambda: publisher.matching_status.matching)
        here.put("o/1", "", priority=Priority.BACKGROUND)
        here.delete("o/2", congestion_control=CongestionControl.DROP)
        publisher.put("")
        assert (publisher.priority, publisher.congestion_control) == (Priority.DATA_HIGH, CongestionControl.BLOCK)
        for _ in range(3):
            sample = subscriber.recv(TIMEOUT_SECONDS)
            assert (sample.priority, sample.congestion_control) == (Priority.DATA_HIGH, CongestionControl.BLOCK)
            assert sample.express
            assert sample.reliability is Reliability.BEST_EFFORT
        here.put("p", "")
        assert subscriber.recv(TIMEOUT_SECONDS).priority is Priority.DATA


def test_qos_rules_apply_to_rows_of_batches() -> None:
    """Rows are distinguished by their keys, and a rule takes precedence over a column."""
    rules = [
        rule("o/**", priority="data_high", express=True, reliability="best_effort"),
        rule("here/**", allowed_destination="session_local"),
    ]
    keys = ["p/1", "o/1", "here/1", "o/2", "p/2"]
    batch = pa.record_batch({"key": keys, "payload": [key.encode() for key in keys], "priority": ["BACKGROUND"] * 5})
    with listening("peer") as there, connected("peer", there, qos__publication=rules) as here:
        subscriber = there.declare_subscriber("**")
        publisher = here.declare_publisher("o/3")
        until(lambda: publisher.matching_status.matching)
        with here.declare_subscriber("here/**") as at_home:
            assert here.put_batch(batch) == 0
            publisher.put_batch(batch.slice(1, 1).drop_columns("key"))
            assert at_home.recv(TIMEOUT_SECONDS).payload.to_bytes() == b"here/1"
        found = {}
        for _ in range(5):
            sample = subscriber.recv(TIMEOUT_SECONDS)
            found[str(sample.key_expr)] = (sample.priority, sample.express, sample.reliability)
        overridden = (Priority.DATA_HIGH, True, Reliability.BEST_EFFORT)
        usual = (Priority.BACKGROUND, False, Reliability.RELIABLE)
        assert found == {"o/1": overridden, "o/2": overridden, "o/3": overridden, "p/1": usual, "p/2": usual}
