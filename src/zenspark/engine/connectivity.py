"""Connectivity: listens, connects and scouts as configured, and decides what `open` waits for.

It waits for what zenohd waits for. A client needs a session: with an endpoint of its list, or with a node that replies
to its SCOUT. A peer or router returns without one, and retries in the background; it only waits up to `scouting/delay`
for the endpoints to connect to, so that a publication right after `open` reaches them, and for their initial
declarations, so that a query right after `open` gets replies.
"""

from __future__ import annotations

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
from zenspark.net.backoff import RETRY_FOREVER, RetryPolicy
from zenspark.net.links.endpoint import TLS_OPTIONS, Endpoint
from zenspark.net.node.autoconnect import Autoconnector, AutoconnectPolicy
from zenspark.net.node.connector import Connector
from zenspark.net.node.listener_retry import ListenerRetry
from zenspark.net.node.node import Node
from zenspark.net.node.scouting import ScoutingSettings
from zenspark.wire.values import Roles, WhatAmI

HANDSHAKE_GRACE_SECONDS = 2.0
"""Extra seconds for nodes that accepted the link to finish handshake and initial declarations: they may be busy."""

SCOUT_REPLY_WINDOW_SECONDS = 0.05
"""Seconds in which all nodes of a local network reply to one SCOUT: a publication right after `open` reaches them."""


class Connectivity:
    """The listeners, connectors and scouting of one session."""

    def __init__(self, node: Node, settings: Settings) -> None:
        self._node = node
        self._settings = settings
        self._is_client = settings.mode == "client"
        self._is_bound = False
        self._is_started = False
        self.connectors: list[Connector] = []
        """The connectors, one for each configured connection."""
        self.autoconnector = Autoconnector(node, self._endpoint, self._is_client)

    def prepare(self) -> None:
        """Bind the listeners, which accept nothing before `start`; a client, which no node connects to, starts.

        Raises an error if something fails that must succeed.
        """
        if self._is_client:
            self.start()
            return
        self._node.pause_accepting()
        self._is_bound = True
        self._listen()

    def start(self) -> None:
        """Listen, connect and scout, once; raises an error if something fails that must succeed."""
        if self._is_started:
            return
        self._is_started = True
        if self._is_bound:
            self._node.resume_accepting()
        else:
            self._listen()
        self._discover()
        if self._is_client:
            self._connect_client()
        else:
            self._connect_others()
            if self._settings.open.return_conditions.declares:
                self._node.wait(
                    lambda: self._node.initial_declarations_received,
                    max(self._settings.scouting.delay / 1000, HANDSHAKE_GRACE_SECONDS),
                )

    def stop_connecting(self) -> None:
        """Stop all connectors, before the node is closed."""
        for connector in self.connectors:
            connector.stop(0.0)

    def close(self) -> None:
        """Stop scouting and replying to SCOUT, after the node is closed."""
        self.autoconnector.close()

    # -- endpoints

    def _endpoint(self, text: str) -> Endpoint:
        """Parse an endpoint, with the configured options of its protocol as defaults."""
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
            listener_retry = ListenerRetry(self._node, self._endpoint(text), _retry_policy(self._settings.listen))
            if listener_retry.policy.exit_on_failure or listener_retry.policy.timeout_ms == 0:
                self._bind(listener_retry)
            else:
                listener_retry.start()

    def _bind(self, listener_retry: ListenerRetry) -> None:
        """Listen, with the retries of its policy; raises LinkError if that fails and `exit_on_failure` is set."""
        try:
            listener_retry.run()
        except LinkError as error:
            if listener_retry.policy.exit_on_failure:
                raise
            listener_retry.log_failure(error)

    # -- connecting

    def _connect_client(self) -> None:
        settings = self._settings
        endpoints = [
            self._endpoint(text) for endpoint_group in settings.connect.endpoints for text in _locators(endpoint_group)
        ]
        if endpoints:
            self._wait_for(self._connector(endpoints))
            return
        if not settings.scouting.multicast.enabled:
            raise UsageError("a client needs connect/endpoints or scouting/multicast")
        if not self._node.wait(lambda: bool(self._node.drivers), settings.scouting.timeout / 1000):
            raise ZError(f"no node replied to SCOUT within {settings.scouting.timeout / 1000:g} s")

    def _connect_others(self) -> None:
        settings = self._settings
        for endpoint_group in settings.connect.endpoints:
            for endpoints in _alternatives(endpoint_group):
                connector = self._connector([self._endpoint(text) for text in endpoints])
                if settings.connect.timeout_ms == 0 or connector.policy.exit_on_failure:
                    self._wait_for(connector)
        if settings.open.return_conditions.connect_scouted and self.connectors:
            connectors, delay = self.connectors, settings.scouting.delay / 1000
            self._node.wait(lambda: all(connector.is_open or connector.has_ended for connector in connectors), delay)
            self._node.wait(
                lambda: not any(connector.is_in_handshake for connector in connectors), HANDSHAKE_GRACE_SECONDS
            )
        elif settings.open.return_conditions.connect_scouted and settings.scouting.multicast.enabled:
            self._wait_for_scouted(settings.scouting.delay / 1000)

    def _wait_for_scouted(self, delay: float) -> None:
        """Wait for the first scouted node, then for those whose HELLO follows within `SCOUT_REPLY_WINDOW_SECONDS`."""
        if self._node.wait(lambda: bool(self._node.drivers), delay):
            self._node.wait(lambda: False, SCOUT_REPLY_WINDOW_SECONDS)
            self._node.wait(lambda: not self.autoconnector.is_connecting, delay)

    def _connector(self, endpoints: list[Endpoint]) -> Connector:
        for endpoint in endpoints:
            if endpoint.is_group:
                raise endpoint.error(
                    "is a multicast group, which belongs in listen/endpoints, not in connect/endpoints"
                )
        connector = Connector(self._node, endpoints, _retry_policy(self._settings.connect))
        self.connectors.append(connector)
        connector.start()
        return connector

    def _wait_for(self, connector: Connector) -> None:
        """Wait for a connection, with the retries of its policy; raises if that fails and `exit_on_failure` is set."""
        if not connector.wait_open(None) and connector.policy.exit_on_failure:
            raise connector.error or ZError("no connection")

    # -- scouting

    def _discover(self) -> None:
        multicast, gossip = self._settings.scouting.multicast, self._settings.scouting.gossip
        if gossip.enabled and not self._is_client:
            self.autoconnector.set_gossip_policy(_autoconnect_policy(gossip))
        if not multicast.enabled:
            return
        scouting = ScoutingSettings(multicast.address, multicast.interface, multicast.ttl)
        if multicast.listen and not self._is_client:
            self.autoconnector.respond(scouting)
        if not (self._is_client and self._settings.connect.endpoints):
            self.autoconnector.scout(scouting, _autoconnect_policy(multicast))


def _retry_policy(configured: ConnectSettings | ListenSettings) -> RetryPolicy:
    return RetryPolicy(
        configured.retry.period_init_ms,
        configured.retry.period_max_ms,
        configured.retry.period_increase_factor,
        max(configured.timeout_ms, RETRY_FOREVER),
        configured.exit_on_failure,
    )


def parse_roles(names: Iterable[str]) -> Roles:
    """Return the set of roles with these names."""
    return Roles(sum({WhatAmI[name.upper()].bit for name in names}))


def _autoconnect_policy(settings: MulticastScoutingSettings | GossipSettings) -> AutoconnectPolicy:
    strategy = settings.autoconnect_strategy
    if not isinstance(strategy, StrategyByTarget):
        strategy = StrategyByTarget(strategy, strategy)
    strategies = [("router", strategy.to_router), ("peer", strategy.to_peer)]
    return AutoconnectPolicy(
        parse_roles(settings.autoconnect),
        parse_roles(role for role, role_strategy in strategies if role_strategy == "greater-zid"),
    )


def _locators(endpoint_group: str | EndpointGroup) -> tuple[str, ...]:
    return endpoint_group.locators if isinstance(endpoint_group, EndpointGroup) else (endpoint_group,)


def _alternatives(endpoint_group: str | EndpointGroup) -> list[tuple[str, ...]]:
    """Return the locators of each connection to make: alternatives, of which the first that can be reached is used."""
    if isinstance(endpoint_group, EndpointGroup) and endpoint_group.strategy == "oneOf":
        return [endpoint_group.locators]
    return [(locator,) for locator in _locators(endpoint_group)]


def _options(section: msgspec.Struct, names: frozenset[str]) -> dict[str, str]:
    """Return the configured values of a section, as options of an endpoint."""
    values = {name: value for name, value in msgspec.structs.asdict(section).items() if name in names}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }


def _buffers(section: msgspec.Struct) -> dict[str, str]:
    return _options(section, frozenset({"so_sndbuf", "so_rcvbuf"}))
