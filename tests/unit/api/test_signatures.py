"""Overloads have the keyword arguments of the methods themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_overloads, get_type_hints

import pytest

from zenspark.api._signatures import GetOptions, LivelinessGetOptions, QuerierGetOptions
from zenspark.api.entities import Querier
from zenspark.api.ext.advanced.subscriber import (
    AdvancedSubscriber,
    AdvancedSubscriberOptions,
    declare_advanced_subscriber,
)
from zenspark.api.info import SessionInfo
from zenspark.api.liveliness import Liveliness
from zenspark.api.publisher import Publisher
from zenspark.api.scouting import scout
from zenspark.api.session import Session


def keywords(function: Callable[..., Any]) -> set[str]:
    kind = inspect.Parameter.KEYWORD_ONLY
    return {name for name, each in inspect.signature(function).parameters.items() if each.kind is kind}


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (GetOptions, Session.get),
        (QuerierGetOptions, Querier.get),
        (LivelinessGetOptions, Liveliness.get),
        (AdvancedSubscriberOptions, declare_advanced_subscriber),
    ],
)
def test_options_have_the_names_and_types_of_the_method(options: type, method: Callable[..., Any]) -> None:
    hints = get_type_hints(method)
    assert get_type_hints(options) == {name: hints[name] for name in keywords(method)}


@pytest.mark.parametrize(
    "method",
    [
        Session.declare_subscriber,
        Session.declare_queryable,
        Liveliness.declare_subscriber,
        Publisher.declare_matching_listener,
        SessionInfo.declare_neighbour_events_listener,
        SessionInfo.declare_transport_events_listener,
        SessionInfo.declare_link_events_listener,
        AdvancedSubscriber.sample_miss_listener,
        AdvancedSubscriber.detect_publishers,
        scout,
    ],
)
def test_overloads_have_the_parameters_of_the_method(method: Callable[..., Any]) -> None:
    overloads = get_overloads(method)
    assert len(overloads) >= 3
    for overload in overloads:
        assert list(inspect.signature(overload).parameters) == list(inspect.signature(method).parameters)
