"""The replies of a cache."""

from __future__ import annotations

import pytest

from tests.optional import some
from tests.unit.api.sessions import pair
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.ext.publisher_cache import PublisherCache
from zenspark.clock import ntp64_from_ns
from zenspark.key import KeyExpr
from zenspark.types.enums import ConsolidationMode, ReplyKeyExpr
from zenspark.types.selector import Parameters
from zenspark.wire.messages import Del, Put
from zenspark.wire.values import SourceInfo, Timestamp, ZenohId

ZID = ZenohId(0xA1)


def cache_of(count: int, size: int = 10) -> PublisherCache:
    """Samples 0, 1, ... made in the seconds 100, 101, ..."""
    cache = PublisherCache(KeyExpr("a"), size, lambda: 105.0)
    for number in range(count):
        stamp = Timestamp(ntp64_from_ns((100 + number) * 1_000_000_000), ZID)
        cache.add(Put(timestamp=stamp, source_info=SourceInfo(ZID, 1, number), payload=str(number).encode()))
    return cache


def payloads(cache: PublisherCache, parameters: str) -> str:
    return "".join(body.payload.decode() for body in cache.select(Parameters(parameters)) if isinstance(body, Put))


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("", "012345"),
        ("_sn=2..3", "23"),
        ("_sn=2..", "2345"),
        ("_sn=..2", "012"),
        ("_sn=..", "012345"),
        ("_sn=4", "4"),
        ("_sn=9..", ""),
        ("_sn=nonsense", "012345"),
        ("_max=2", "45"),
        ("_max=0", "012345"),
        ("_max=x", "012345"),
        (f"_max={'9' * 5000}", "012345"),
        (f"_sn=..{'9' * 5000}", "012345"),
        ("_max=2;_sn=..3", "23"),
        ("_time=[now(-2s)..]", "345"),
        ("_time=[now(-2s);1s];_max=1", "4"),
        ("_max=1;_time=[..now(-2s)]", "3"),
    ],
)
def test_cache_selects_by_sn_time_and_max(parameters: str, expected: str) -> None:
    assert payloads(cache_of(6), parameters) == expected


def test_cache_drops_the_oldest_sample() -> None:
    assert payloads(cache_of(6, size=2), "") == "45"


def test_cache_range_excludes_samples_without_number() -> None:
    cache = PublisherCache(KeyExpr("a"), 3)
    cache.add(Put(payload=b"x"))
    cache.add(Del())
    assert cache.select(Parameters("_sn=0..")) == []
    assert len(cache.select(Parameters("_time=[now()..]"))) == 2


def test_cache_replies_to_queries(caplog: pytest.LogCaptureFixture) -> None:
    cache = cache_of(3)
    cache.add(Del(source_info=SourceInfo(ZID, 1, 3)))
    with pair("peer", "peer") as (one, other):
        queryable = one.declare_queryable("a/@adv/x", cache.reply_to)
        until(lambda: list(other.get("a/@adv/x", accept_replies=ReplyKeyExpr.ANY, timeout=TIMEOUT_SECONDS)))
        found = other.get("a/@adv/x?_sn=1..", accept_replies=ReplyKeyExpr.ANY, consolidation=ConsolidationMode.NONE)
        samples = [reply.ok for reply in found]
        assert [(str(some(sample).key_expr), some(some(sample).source_info).source_sn) for sample in samples] == [
            ("a", 1),
            ("a", 2),
            ("a", 3),
        ]
        for _ in range(3):
            assert list(other.get("a/@adv/x?_time=nonsense", timeout=TIMEOUT_SECONDS)) == []
        lines = [line for line in caplog.messages if "rejected query" in line]
        assert len(lines) == 1  # or else any node could fill the log
        assert lines[0].startswith("rejected query a/@adv/x?_time=nonsense for cached samples")
        assert lines[0].endswith("; 1 in all")
        queryable.undeclare()
