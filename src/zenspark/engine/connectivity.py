"""Reaching the network as configured: where a session listens, whom it connects to, how it finds others.

What `open` waits for is what zenohd waits for. A client needs somebody: an endpoint of its list, or whoever answers
its question. A peer or router goes on without, and tries again in the background; it only gives those it is to
connect to a moment, `scouting/delay`, so that who publishes at once is heard, and another one to tell what they have
declared, so that who asks at once is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from zenspark.config.settings import (
    ConnectSettings,
    EndpointGroup,
    GossipSettings,
    ListenSettings,
    MulticastScoutingSettings,
    Settings,
    StrategyByTarget,
)
from zenspark.errors import LinkError, UsageError, ZError
from zenspark.net.links.endpoint import TLS_OPTIONS, Endpoint
from zenspark.net.node.autoconnect import AutoconnectPolicy, Discovery
from zenspark.net.node.backoff import RETRY_FOREVER, RetryPolicy
from zenspark.net.node.connector import Connector
from zenspark.net.node.listener import ListenerRetry
from zenspark.net.node.node import Node
from zenspark.net.node.scouting import ScoutingSettings
from zenspark.wire.values import Roles, WhatAmI

logger = logging.getLogger("zenspark.api")

HANDSHAKE_GRACE_SECONDS = 2.0
"""Seconds more for those who have answered, but not said all they have to say at first: this machine may be busy."""

SCOUT_SETTLE_SECONDS = 0.05
"""Seconds in which everybody who is near answers the same question: who publishes at once is heard by all of them."""


class Connectivity:
    """How one session is joined to the network."""

    def __init__(self, node: Node, settings: Settings) -> None:
        self._node = node
        self._settings = settings
        self._is_client = settings.mode == "client"
        self._connectors: list[Connector] = []
        self._discovery = Discovery(node, self._endpoint, self._is_client)

    def start(self) -> None:
        """Listen, connect and look for others; an error if that must succeed and does not."""
        self._listen()
        self._discover()
        if self._is_client:
            self._connect_client()
        else:
            self._connect_others()
            if self._settings.open.return_conditions.declares:
                self._node.wait(
                    lambda: self._node.is_told, max(self._settings.scouting.delay / 1000, HANDSHAKE_GRACE_SECONDS)
                )

    def end(self) -> None:
        """Connect to nobody any more; before the node is closed."""
        for connector in self._connectors:
            connector.stop(0.0)

    def release(self) -> None:
        """Look for nobody and answer nobody any more; when the node is closed."""
        self._discovery.close()

    # -- endpoints

    def _endpoint(self, text: str) -> Endpoint:
        """An endpoint, with what is configured for links of its kind."""
        links = self._settings.transport.link
        endpoint = Endpoint.parse(text)
        if links.protocols is not None and endpoint.protocol not in links.protocols:
            raise UsageError(f"{endpoint.locator.text} is not of a protocol in transport/link/protocols")
        match endpoint.protocol:
            case "tls":
                return endpoint.with_defaults({**_options(links.tls, TLS_OPTIONS), **_buffers(links.tls)})
            case "tcp":
                return endpoint.with_defaults(_buffers(links.tcp))
        return endpoint

    def _listen(self) -> None:
        for text in self._settings.listen.endpoints:
            binder = ListenerRetry(self._node, self._endpoint(text), _retry_policy(self._settings.listen))
            if binder.policy.exit_on_failure or binder.policy.timeout_ms == 0:
                self._bind(binder)
            else:
                binder.start()

    def _bind(self, binder: ListenerRetry) -> None:
        """Wait as long as it tries; an error if it gives up and that is not to be passed over."""
        try:
            binder.run()
        except LinkError as error:
            if binder.policy.exit_on_failure:
                raise
            logger.warning("%s", error)

    # -- connecting

    def _connect_client(self) -> None:
        settings = self._settings
        endpoints = [self._endpoint(one) for group in settings.connect.endpoints for one in _locators(group)]
        if endpoints:
            self._await(self._connector(endpoints))
            return
        if not settings.scouting.multicast.enabled:
            raise UsageError("a client needs connect/endpoints or scouting/multicast")
        if not self._node.wait(lambda: bool(self._node.drivers), settings.scouting.timeout / 1000):
            raise ZError(f"nobody was found within {settings.scouting.timeout / 1000:g} s")

    def _connect_others(self) -> None:
        settings = self._settings
        for group in settings.connect.endpoints:
            for endpoints in _alternatives(group):
                connector = self._connector([self._endpoint(one) for one in endpoints])
                if settings.connect.timeout_ms == 0 or connector.policy.exit_on_failure:
                    self._await(connector)
        if settings.open.return_conditions.connect_scouted and self._connectors:
            wanted = self._connectors
            self._node.wait(lambda: all(one.is_open or one.is_over for one in wanted), settings.scouting.delay / 1000)
            self._node.wait(lambda: not any(one.is_answered for one in wanted), HANDSHAKE_GRACE_SECONDS)
        elif settings.open.return_conditions.connect_scouted and settings.scouting.multicast.enabled:
            self._await_found(settings.scouting.delay / 1000)

    def _await_found(self, delay: float) -> None:
        """Wait for the first who is found, then for those whose answers come right behind it."""
        if self._node.wait(lambda: bool(self._node.drivers), delay):
            self._node.wait(lambda: False, SCOUT_SETTLE_SECONDS)
            self._node.wait(lambda: not self._discovery.is_trying, delay)

    def _connector(self, endpoints: list[Endpoint]) -> Connector:
        for endpoint in endpoints:
            if endpoint.is_group:
                raise endpoint.error(
                    "is a multicast group, which belongs in listen/endpoints, not in connect/endpoints"
                )
        connector = Connector(self._node, endpoints, _retry_policy(self._settings.connect))
        self._connectors.append(connector)
        connector.start()
        return connector

    def _await(self, connector: Connector) -> None:
        """Wait as long as it tries; an error if it gives up and that is not to be passed over."""
        if not connector.wait_open(None) and connector.policy.exit_on_failure:
            raise connector.error or ZError("no connection")

    # -- finding others

    def _discover(self) -> None:
        multicast, gossip = self._settings.scouting.multicast, self._settings.scouting.gossip
        if gossip.enabled and not self._is_client:
            self._discovery.gossip(_autoconnect(gossip))
        if not multicast.enabled:
            return
        where = ScoutingSettings(multicast.address, multicast.interface, multicast.ttl)
        if multicast.listen and not self._is_client:
            self._discovery.respond(where)
        if not (self._is_client and self._settings.connect.endpoints):
            self._discovery.scout(where, _autoconnect(multicast))


def _retry_policy(configured: ConnectSettings | ListenSettings) -> RetryPolicy:
    return RetryPolicy(
        configured.retry.period_init_ms,
        configured.retry.period_max_ms,
        configured.retry.period_increase_factor,
        max(configured.timeout_ms, RETRY_FOREVER),
        configured.exit_on_failure,
    )


def parse_roles(names: Iterable[str]) -> Roles:
    """The roles of a list of their names."""
    return Roles(sum({WhatAmI[name.upper()].bit for name in names}))


def _autoconnect(found: MulticastScoutingSettings | GossipSettings) -> AutoconnectPolicy:
    strategy = found.autoconnect_strategy
    if not isinstance(strategy, StrategyByTarget):
        strategy = StrategyByTarget(strategy, strategy)
    greater = [("router", strategy.to_router), ("peer", strategy.to_peer)]
    return AutoconnectPolicy(
        parse_roles(found.autoconnect), parse_roles(name for name, how in greater if how == "greater-zid")
    )


def _locators(group: str | EndpointGroup) -> tuple[str, ...]:
    return group.locators if isinstance(group, EndpointGroup) else (group,)


def _alternatives(group: str | EndpointGroup) -> list[tuple[str, ...]]:
    """The endpoints to connect to, each with others that would do as well."""
    if isinstance(group, EndpointGroup) and group.strategy == "oneOf":
        return [group.locators]
    return [(one,) for one in _locators(group)]


def _options(section: msgspec.Struct, known: frozenset[str]) -> dict[str, str]:
    """What is configured for links of one kind, as options of an endpoint."""
    found = {name: value for name, value in msgspec.structs.asdict(section).items() if name in known}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in found.items()
        if value is not None
    }


def _buffers(section: msgspec.Struct) -> dict[str, str]:
    return _options(section, frozenset({"so_sndbuf", "so_rcvbuf"}))
