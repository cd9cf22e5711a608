"""ConnectionWatch: counts the configured endpoints that are connected, and logs changes as warnings."""

from __future__ import annotations

import logging
import threading
import time
from typing import Self

from zenspark.api.session import Session
from zenspark.cli.exit_codes import NOT_CONNECTED, CommandError
from zenspark.cli.formatters import pluralize
from zenspark.cli.status_line import Part
from zenspark.cli.units import format_duration
from zenspark.errors import LinkError, ListenError, ZError
from zenspark.types.network_info import ConnectionStatus

logger = logging.getLogger("zenspark.cli")

CONNECTION_POLL_INTERVAL_SECONDS = 0.1
"""Seconds between two checks; shorter than the first retry of a connection, so that no loss is overlooked."""


class ConnectionWatch:
    """Watches the connections of a session from a thread.

    The first failure, the loss and the return of a connection are logged as warnings, with address and reason.
    """

    def __init__(self, session: Session, poll_seconds: float = CONNECTION_POLL_INTERVAL_SECONDS) -> None:
        self._session = session
        self._poll_seconds = poll_seconds
        self._before: dict[int, bool] = {}
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenspark-connections", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    # -- state

    def counts(self) -> tuple[int, int]:
        """Return the number of open connections, and the number of configured ones."""
        connections = self._session.info.connections()
        return sum(connection.is_connected for connection in connections), len(connections)

    def status(self) -> Part:
        """Return the part of a status line: `connected 1 of 2, 1 other session`, or the number of sessions if no
        endpoint is configured; red if a connection is missing."""
        connected, configured = self.counts()
        sessions = 0 if self._session.is_closed() else len(self._session.info.transports())
        if not configured:
            return pluralize(sessions, "session"), ""
        others = f", {pluralize(sessions - connected, 'other session')}" if sessions > connected else ""
        return f"connected {connected} of {configured}{others}", "" if connected == configured else "bold red"

    @property
    def is_connected(self) -> bool:
        """Whether all configured connections are open; without any, whether there is a session."""
        connected, configured = self.counts()
        return connected == configured if configured else bool(self._session.info.transports())

    def require(self, seconds: float) -> None:
        """Wait until everything is connected; raises CommandError with the exit code NOT_CONNECTED otherwise."""
        deadline = time.monotonic() + seconds
        while not self.is_connected:
            if time.monotonic() >= deadline or self._session.is_closed():
                raise CommandError(self._describe_missing(seconds), NOT_CONNECTED)
            time.sleep(CONNECTION_POLL_INTERVAL_SECONDS / 2)

    def _describe_missing(self, seconds: float) -> str:
        missing = [connection for connection in self._session.info.connections() if not connection.is_connected]
        within = f"within {format_duration(seconds)}"
        if not missing:
            return f"no other node was found {within}; name one with -e, or check that multicast reaches it"
        return f"not connected {within}: " + "; ".join(map(_describe, missing))

    # -- warnings

    def _run(self) -> None:
        while True:
            self.check()
            if self._has_ended.wait(self._poll_seconds):
                return

    def check(self) -> None:
        """Log connections that were opened or lost since the last check."""
        if self._session.is_closed():
            return
        for index, connection in enumerate(self._session.info.connections()):
            before = self._before.get(index)
            if connection.is_connected:
                self._before[index] = True
                if before is False:
                    logger.warning("connection to %s restored", _name(connection))
            elif connection.problem is not None and before is not False:
                self._before[index] = False
                if before:
                    logger.warning("connection to %s lost: %s; retrying", _name(connection), connection.problem)
                else:
                    logger.warning("not connected to %s; retrying", _describe(connection))


def to_command_error(error: LinkError, seconds: float | None = None) -> ZError:
    """Return the error of a command whose session could not be opened.

    It has the exit code NOT_CONNECTED, unless the node could not listen; `seconds` is the time limit, if there was one.
    """
    if isinstance(error, ListenError):
        return error
    within = "" if seconds is None else f"could not be reached within {format_duration(seconds)}: "
    text = f"{error.endpoint}: {within}{error.problem}; does a Zenoh node listen there?"
    return CommandError(text, NOT_CONNECTED)


def _name(connection: ConnectionStatus) -> str:
    return " or ".join(connection.endpoints)


def _describe(connection: ConnectionStatus) -> str:
    return f"{_name(connection)}: {connection.problem or 'no reply yet'}"
