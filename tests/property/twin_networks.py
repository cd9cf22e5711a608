"""The same network twice, once with fast paths and once without, and which path a behaviour took.

In the general network every node has an access control that permits everything: with interceptors each message takes
the general path, through the router and one object at a time. In the fast one publications travel as rows of columns,
and queries with one target pass the router's tables by.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.strategies import examples
from tests.unit.api.sessions import connected, listening
from zenspark.api.session import Session
from zenspark.types.ids import EntityGlobalId, SourceInfo, ZenohId
from zenspark.types.sample import Sample
from zenspark.types.timestamps import NTP64, Timestamp, TimestampId

PERMIT_ALL = {
    "enabled": True,
    "default_permission": "allow",
    "rules": [
        {
            "id": "r",
            "permission": "deny",
            "flows": ["ingress", "egress"],
            "messages": ["put"],
            "key_exprs": ["never/**"],
        }
    ],
    "subjects": [{"id": "s"}],
    "policies": [{"rules": ["r"], "subjects": ["s"]}],
}
"""Refuses nothing that the tests send, but every message passes it."""
NAMESPACE = "fleet/robot1"
LARGE_BYTES = 200_000
"""More than a batch: sent in fragments."""
OPERATED = settings(examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
"""Examples of a test that operates networks."""

run_numbers = itertools.count()
"""Each run has keys of its own."""
CAPACITY = 1000
"""Samples that a subscriber's channel holds: more than a test sends."""


class Network(msgspec.Struct):
    """A router, a client that publishes and queries, and one that receives and replies."""

    router: Session
    sender: Session
    receiver: Session

    @property
    def has_namespace(self) -> bool:
        """Whether both clients have a namespace."""
        return self.receiver._runtime.namespace.is_used


def node_options(is_general: bool) -> dict[str, object]:
    """Configuration of a node whose messages all take the general path, or of one with fast paths."""
    return {"access_control": PERMIT_ALL} if is_general else {}


def open_network(
    stack: ExitStack, *, is_general: bool, namespace: str | None, adds_timestamps: bool = False
) -> Network:
    """Open the three nodes of a network; the stack closes them. With `adds_timestamps` the router does that."""
    options = node_options(is_general)
    of_clients = options if namespace is None else {**options, "namespace": namespace}
    router = stack.enter_context(listening("router", timestamping__enabled=adds_timestamps, **options))
    sender = stack.enter_context(connected("client", router, **of_clients))
    receiver = stack.enter_context(connected("client", router, **of_clients))
    return Network(router, sender, receiver)


# -- publications and replies

payloads = st.one_of(st.binary(max_size=40), st.just(bytes(range(256)) * (LARGE_BYTES // 256)))
times = st.builds(NTP64, st.integers(0, 1 << 31), st.integers(0, 999_999_999))
timestamps = st.builds(Timestamp, times, st.just(TimestampId(b"\x01\x02")))
sources = st.builds(
    SourceInfo,
    st.builds(EntityGlobalId, st.sampled_from([ZenohId("a1"), ZenohId("b2c3")]), st.integers(0, (1 << 32) - 1)),
    st.integers(0, (1 << 32) - 1),
)
metadata = {"attachment": st.binary(max_size=20), "timestamp": timestamps, "source_info": sources}


TIMESTAMP = 4
"""The place of the timestamp in a description."""


def describe(sample: Sample, prefix: str) -> tuple[object, ...]:
    """Return everything that users see of a sample, but for the prefix of its key."""
    attachment = sample.attachment
    return (
        str(sample.key_expr).removeprefix(prefix),
        sample.kind,
        sample.payload.to_bytes(),
        str(sample.encoding),
        sample.timestamp if sample.timestamp is None else str(sample.timestamp),
        sample.priority,
        sample.congestion_control,
        sample.express,
        sample.reliability,
        None if attachment is None else attachment.to_bytes(),
        sample.source_info,
        sample.timestamp_stack,
    )


# -- which path was taken


def has_interceptors(session: Session) -> bool:
    """Whether all messages from and to neighbours pass interceptors."""
    faces = session._runtime.node.router._faces.values()
    neighbours = [face for face in faces if str(face.zid) != str(session.zid())]
    assert neighbours
    return all(face.ingress is not None and face.egress is not None for face in neighbours)


class Calls:
    """The names of the functions that were called, from any thread."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def __getitem__(self, name: str) -> int:
        return self._names.count(name)

    def counting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that its calls are counted under a name."""

        def call(*arguments: object, **options: object) -> Any:  # noqa: ANN401 - what the function returns
            self._names.append(name)
            return function(*arguments, **options)

        return call


@contextmanager
def count_calls(*functions: tuple[object, str]) -> Iterator[Calls]:
    """Count the calls of functions of classes or modules, by name."""
    calls = Calls()
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in functions:
            patch.setattr(owner, name, calls.counting(name, getattr(owner, name)))
        yield calls
