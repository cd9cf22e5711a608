"""The same network twice, once with fast paths and once without, and which path a behaviour took.

In the general network every node has an access control that permits everything: with interceptors each message takes
the general path, through the router and one object at a time. In the fast one publications travel as rows of columns,
and queries with one target pass the router's tables by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
import pytest

from tests.unit.api.sessions import connected, listening
from zenspark.api.session import Session

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


def open_network(stack: ExitStack, *, is_general: bool, namespace: str | None) -> Network:
    """Open the three nodes of a network; the stack closes them."""
    options = node_options(is_general)
    of_clients = options if namespace is None else {**options, "namespace": namespace}
    router = stack.enter_context(listening("router", timestamping__enabled=False, **options))
    sender = stack.enter_context(connected("client", router, **of_clients))
    receiver = stack.enter_context(connected("client", router, **of_clients))
    return Network(router, sender, receiver)


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
