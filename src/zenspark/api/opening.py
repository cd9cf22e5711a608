"""open(): from a configuration to a session in the network."""

from __future__ import annotations

import builtins
from collections.abc import Callable

from zenspark.api.config import Config
from zenspark.api.hub import Hub
from zenspark.api.session import Session
from zenspark.api.settings import EndpointGroup, Settings
from zenspark.errors import LinkError, ZError
from zenspark.net.connector import Connector, Retry
from zenspark.net.endpoints import Endpoint
from zenspark.net.node import Limits, Node, identity
from zenspark.transport.handshake import Credentials, Offer
from zenspark.wire import values as wire


def open(config: Config | None = None, *, timestamp_callback: Callable[..., bytes] | None = None) -> Session:  # noqa: A001 - the name users know
    """Open a session: listen and connect as configured, and return when the network is reached."""
    settings = (config or Config()).settings()
    node = _node(settings)
    hub = Hub(node, settings.timestamping.enabled)
    node.start(hub)
    connectors: list[Connector] = []

    def end() -> None:
        for connector in connectors:
            connector.stop()
        node.close()

    try:
        _listen(node, settings)
        _connect(node, settings, connectors)
    except BaseException:
        end()
        raise
    return Session(hub, settings.queries_default_timeout / 1000, end)


def _node(settings: Settings) -> Node:
    whatami = wire.WhatAmI[settings.mode.upper()]
    zid = None if settings.id is None else wire.ZenohId.parse(settings.id)
    unicast = settings.transport.unicast
    limits = Limits(
        open_timeout=unicast.open_timeout / 1000,
        accept_timeout=unicast.accept_timeout / 1000,
        max_sessions=unicast.max_sessions,
        max_pending=unicast.accept_pending,
        message_size=settings.transport.link.rx.max_message_size,
    )
    return Node(identity(zid, whatami), _offer(settings), limits, settings.queries_default_timeout / 1000)


def _offer(settings: Settings) -> Offer:
    transport = settings.transport
    login = transport.auth.usrpwd
    credentials = None
    if login.user is not None and login.password is not None:
        credentials = Credentials(login.user.encode(), login.password.encode())
    return Offer(
        batch_size=transport.link.tx.batch_size,
        lease_ms=transport.link.tx.lease,
        qos=transport.unicast.qos.enabled,
        low_latency=transport.unicast.lowlatency,
        compression=transport.unicast.compression.enabled,
        credentials=credentials,
        users=None if login.dictionary_file is None else _users(login.dictionary_file),
    )


def _users(path: str) -> dict[bytes, bytes]:
    """The users of a dictionary file: `user:password` a line."""
    with builtins.open(path, "rb") as lines:
        pairs = [line.strip().partition(b":") for line in lines if line.strip()]
    return {user: password for user, _, password in pairs}


def _listen(node: Node, settings: Settings) -> None:
    for text in settings.listen.endpoints:
        for one in text.locators if isinstance(text, EndpointGroup) else (text,):
            try:
                node.listen(Endpoint.parse(one))
            except LinkError:
                if settings.listen.exit_on_failure:
                    raise


def _connect(node: Node, settings: Settings, connectors: list[Connector]) -> None:
    retry = settings.connect.retry
    waits = Retry(retry.period_init_ms / 1000, retry.period_max_ms / 1000, retry.period_increase_factor)
    groups = [[Endpoint.parse(one) for one in _locators(text)] for text in settings.connect.endpoints]
    if settings.mode == "client":
        groups = [[endpoint for group in groups for endpoint in group]] if groups else []
    for group in groups:
        connector = Connector(node, group, waits)
        if settings.connect.timeout_ms == 0 and settings.mode == "client" and not connector.try_once():
            raise connector.error or ZError("no connection")
        connectors.append(connector)
        connector.start()
    for connector in connectors:
        timeout = settings.connect.timeout_ms
        if not connector.wait_open(None if timeout < 0 and settings.mode == "client" else max(timeout, 1000) / 1000):
            if settings.connect.exit_on_failure:
                raise connector.error or ZError("no connection")


def _locators(text: str | EndpointGroup) -> tuple[str, ...]:
    return text.locators if isinstance(text, EndpointGroup) else (text,)
