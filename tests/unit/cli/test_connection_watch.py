"""Connections of a session: counted, required, and logged when they fail, are lost, and return."""

from __future__ import annotations

import logging

import pytest

import zenspark.api.open
from tests.ports import free_port
from tests.unit.api.sessions import address, config, connected, listening
from tests.wait import until
from zenspark.api.session import Session
from zenspark.cli.connection_watch import ConnectionWatch, to_command_error
from zenspark.cli.exit_codes import NOT_CONNECTED, CommandError
from zenspark.errors import LinkError, ListenError


def opened(*endpoints: str, mode: str = "peer") -> Session:
    return zenspark.api.open.open(config(mode, (), endpoints))


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "zenspark.cli"]


@pytest.mark.slow
def test_status_counts_connected_endpoints() -> None:
    nowhere = f"tcp/127.0.0.1:{free_port()}"
    with listening("router") as router, opened(address(router), nowhere) as session:
        watch = ConnectionWatch(session)
        until(lambda: watch.counts() == (1, 2))
        assert watch.status() == ("connected 1 of 2", "bold red")
        assert not watch.is_connected


def test_without_endpoints_sessions_are_counted() -> None:
    with listening("peer") as session:
        watch = ConnectionWatch(session)
        assert watch.status() == ("0 sessions", "")
        assert not watch.is_connected
        with connected("client", session):
            until(lambda: watch.is_connected)
            assert watch.status() == ("1 session", "")


@pytest.mark.slow
def test_sessions_with_other_nodes_are_shown_beside_the_endpoints() -> None:
    nowhere = f"tcp/127.0.0.1:{free_port()}"
    with zenspark.api.open.open(config("peer", ["tcp/127.0.0.1:0"], [nowhere])) as session:
        watch = ConnectionWatch(session)
        assert watch.status() == ("connected 0 of 1", "bold red")
        with connected("client", session):
            until(lambda: watch.status() == ("connected 0 of 1, 1 other session", "bold red"))
            with connected("client", session):
                until(lambda: watch.status() == ("connected 0 of 1, 2 other sessions", "bold red"))


def test_a_link_error_has_the_exit_code_of_a_missing_connection() -> None:
    error = to_command_error(LinkError("tcp/a:1", "cannot connect: refused"), 2.0)
    assert str(error) == (
        "tcp/a:1: could not be reached within 2s: cannot connect: refused; does a Zenoh node listen there?"
    )
    assert isinstance(error, CommandError)
    assert error.code == NOT_CONNECTED
    in_use = ListenError("tcp/a:1", "cannot listen: in use")
    assert to_command_error(in_use, 2.0) is in_use


@pytest.mark.slow
def test_connection_failure_reconnection_and_loss_are_logged_as_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "zenspark.cli")
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with opened(endpoint) as session, ConnectionWatch(session, poll_seconds=0.01):
        until(lambda: len(messages(caplog)) == 1)
        assert messages(caplog)[0] == f"not connected to {endpoint}: cannot connect: Connection refused; retrying"
        with zenspark.api.open.open(config("router", [endpoint])):
            until(lambda: len(messages(caplog)) == 2)
            assert messages(caplog)[1] == f"connection to {endpoint} restored"
        until(lambda: len(messages(caplog)) == 3)
        assert messages(caplog)[2].startswith(f"connection to {endpoint} lost: ")
        with zenspark.api.open.open(config("router", [endpoint])):
            until(lambda: len(messages(caplog)) == 4)


@pytest.mark.slow
def test_a_required_connection_that_is_missing_ends_the_command() -> None:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with opened(endpoint) as session:
        until(lambda: session.info.connections()[0].problem)
        with pytest.raises(CommandError, match=f"not connected within 10ms: {endpoint}: cannot connect") as error:
            ConnectionWatch(session).require(0.01)
        assert error.value.code == NOT_CONNECTED
    with listening("peer") as alone, pytest.raises(CommandError, match="no other node was found within 10ms"):
        ConnectionWatch(alone).require(0.01)


def test_require_returns_if_the_required_connection_exists() -> None:
    with listening("router") as router, opened(address(router), mode="client") as session:
        ConnectionWatch(session).require(30)


def test_closing_the_session_logs_no_connection_loss(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "zenspark.cli")
    with listening("router") as router:
        session = opened(address(router))
        watch = ConnectionWatch(session)
        watch.check()
        session.close()
        watch.check()
    assert messages(caplog) == []
