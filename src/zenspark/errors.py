"""Every exception zenspark raises, as one tree: whose fault it is decides the branch.

Values are attributes and the text is made from them, so callers never parse a message.
"""

from __future__ import annotations

from enum import IntEnum


class CloseReason(IntEnum):
    """Why a link or a session ends, as it stands in a CLOSE message."""

    GENERIC = 0
    UNSUPPORTED = 1
    INVALID = 2
    MAX_SESSIONS = 3
    MAX_LINKS = 4
    EXPIRED = 5
    UNRESPONSIVE = 6
    CONNECTION_TO_SELF = 7


class ZError(Exception):
    """The root of everything zenspark raises."""


class UsageError(ZError):
    """The caller broke a rule: a bad key expression, a bad option, a closed session."""


class ProtocolError(ZError):
    """The peer broke a rule; `reason` is what to tell it when closing."""

    reason = CloseReason.INVALID


class DecodeError(ProtocolError):
    """These bytes are not a message: where, inside which message, and what was expected there."""

    def __init__(self, expected: str, position: int, found: str | None = None, message: str | None = None) -> None:
        super().__init__(expected, position, found, message)
        self.expected = expected
        self.position = position
        self.found = found
        self.message = message

    def within(self, message: str) -> DecodeError:
        """The same error, told to stand inside a message; the innermost name is kept."""
        if self.message is None:
            self.message = message
        return self

    def __str__(self) -> str:
        where = f"{self.message}: " if self.message else ""
        found = f", found {self.found}" if self.found else ""
        return f"{where}expected {self.expected} at byte {self.position}{found}"

    def __reduce__(self) -> tuple[type[DecodeError], tuple[str, int, str | None, str | None]]:
        return type(self), (self.expected, self.position, self.found, self.message)


class UnknownExtension(DecodeError):
    """A mandatory extension nobody here understands: the message must not be processed."""

    def __init__(self, extension: int, position: int, message: str | None = None) -> None:
        super().__init__("an extension known here", position, f"mandatory extension 0x{extension:x}", message)
        self.extension = extension

    def __reduce__(self) -> tuple[type[UnknownExtension], tuple[int, int, str | None]]:  # type: ignore[override]
        return type(self), (self.extension, self.position, self.message)


class HandshakeError(ProtocolError):
    """A session was refused, and why; `reason` is the close reason that says so."""

    def __init__(self, text: str, reason: CloseReason) -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason

    def __str__(self) -> str:
        return self.text


class LimitExceeded(ProtocolError):
    """Larger than we agreed to accept: what it is, how large it says it is, and how large it may be."""

    def __init__(self, size: int, limit: int, what: str = "message") -> None:
        super().__init__(size, limit, what)
        self.size = size
        self.limit = limit
        self.what = what

    def __str__(self) -> str:
        return f"{self.what}: {self.size} is more than the {self.limit} allowed"


class LinkError(ZError):
    """The network failed: on which endpoint, and how; the OSError is its cause where there was one."""

    def __init__(self, endpoint: str, problem: str) -> None:
        super().__init__(endpoint, problem)
        self.endpoint = endpoint
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.problem}"


class EncodeError(UsageError):
    """A message that cannot be written: which message, which field, and why."""

    def __init__(self, problem: str, field: str, message: str | None = None) -> None:
        super().__init__(problem, field, message)
        self.problem = problem
        self.field = field
        self.message = message

    def within(self, message: str) -> EncodeError:
        """The same error, told to stand inside a message; the innermost name is kept."""
        if self.message is None:
            self.message = message
        return self

    def __str__(self) -> str:
        where = f"{self.message}.{self.field}" if self.message else self.field
        return f"{where}: {self.problem}"

    def __reduce__(self) -> tuple[type[EncodeError], tuple[str, str, str | None]]:
        return type(self), (self.problem, self.field, self.message)


class SessionClosed(ZError):
    """Nothing more will happen here: the session was closed."""
