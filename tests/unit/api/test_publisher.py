"""Publishers as programs see them."""

from __future__ import annotations

import inspect

import pytest

from tests.wait import TIMEOUT_SECONDS
from zenspark.api.publisher import Publisher
from zenspark.api.session import Session
from zenspark.types.enums import Locality, Reliability


def test_a_publisher_shows_its_reliability(peer: Session) -> None:
    with peer.declare_publisher("a", reliability=Reliability.BEST_EFFORT) as publisher:
        assert publisher.reliability is Reliability.BEST_EFFORT
        subscriber = peer.declare_subscriber("a")
        publisher.put(b"")
        assert subscriber.recv(TIMEOUT_SECONDS).reliability is Reliability.BEST_EFFORT
    with peer.declare_publisher("a", allowed_destination=Locality.SESSION_LOCAL) as publisher:
        assert publisher.matching_status
        assert publisher.reliability is Reliability.RELIABLE


def test_options_of_put_are_given_by_name(peer: Session) -> None:
    names = list(inspect.signature(Publisher.put).parameters)
    assert names[:2] == ["self", "payload"]
    options = [inspect.signature(Publisher.put).parameters[name] for name in names[2:]]
    assert all(option.kind is inspect.Parameter.KEYWORD_ONLY and option.default is None for option in options)
    with peer.declare_publisher("a") as publisher, pytest.raises(TypeError, match="positional argument"):
        publisher.put(b"", "text/plain")  # type: ignore[call-arg]
    with peer.declare_publisher("a") as publisher, pytest.raises(TypeError, match="unexpected keyword argument"):
        publisher.put(b"", colour="red")  # type: ignore[call-arg]
