"""Any text is a selector or rejected as one; its parameters read as they were written, and select or are rejected.

The input is the selector of a query: its parameters select from the cache of an advanced publisher. How to run:
see harness.py.
"""

from __future__ import annotations

import math

from fuzz.harness import run
from zenspark.api.ext.publisher_cache import PublisherCache
from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.types.selector import Parameters, Selector
from zenspark.types.time_range import TimeRange
from zenspark.wire.messages import Del, Put
from zenspark.wire.values import SourceInfo, Timestamp, ZenohId

NOW = 1_700_000_000.0
NODE = ZenohId(7)
BODIES: list[Put | Del] = [
    Put(payload=b"stamped", timestamp=Timestamp(int(NOW) << 32, NODE), source_info=SourceInfo(NODE, 1, 1)),
    Put(payload=b"later", timestamp=Timestamp((int(NOW) + 60) << 32, NODE), source_info=SourceInfo(NODE, 1, 2)),
    Del(timestamp=Timestamp((1 << 64) - 1, NODE), source_info=SourceInfo(NODE, 1, (1 << 32) - 1)),
    Put(payload=b"neither"),
]


def check_parameters(parameters: Parameters) -> None:
    """Check that parameters are an ordered dictionary: a name is found after it was set, and not after it was removed.

    Values without a name are read, but are dropped with the first change.
    """
    items = list(parameters)
    assert Parameters(str(parameters)) == parameters
    assert parameters.is_empty() == (not items)
    first = dict(reversed(items))
    for name, value in first.items():
        assert parameters.get(name) == value
        assert parameters.values(name) == value.split("|")
    changed = parameters.copy()
    changed.remove("")
    first.pop("", None)
    for name, value in first.items():
        assert changed.remove(name) == value
        assert name not in changed
    assert changed.is_empty()
    changed.extend(parameters)
    assert {name for name, _ in changed} == first.keys()


def check_times(text: str) -> None:
    try:
        found = TimeRange.parse(text, NOW)
    except UsageError:
        return
    for time in (0.0, NOW, found.start, found.end, math.inf):
        assert isinstance(time in found, bool)
    assert math.nan not in found


def check_cache(parameters: Parameters) -> None:
    """Check that any parameters select some samples of the cache, in their order, or are refused."""
    cache = PublisherCache(KeyExpr("a"), len(BODIES), lambda: NOW)
    for body in BODIES:
        cache.add(body)
    try:
        found = cache.select(parameters)
    except UsageError:
        return
    assert [body for body in BODIES if body in found] == found


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    check_times(text)
    try:
        selector = Selector(text)
    except UsageError:
        return
    assert Selector(str(selector)) == selector
    parameters = selector.parameters
    check_parameters(parameters)
    check_times(parameters.get("_time") or "")
    check_cache(parameters)


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
