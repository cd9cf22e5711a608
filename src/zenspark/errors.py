"""Exception hierarchy of zenspark: the party at fault decides the branch.

Details are attributes and the text is made from them, so callers never parse a message.
"""

from __future__ import annotations

from enum import IntEnum


class CloseReason(IntEnum):
    """Reason in a CLOSE message."""

    GENERIC = 0
    UNSUPPORTED = 1
    INVALID = 2
    MAX_SESSIONS = 3
    MAX_LINKS = 4
    EXPIRED = 5
    UNRESPONSIVE = 6
    CONNECTION_TO_SELF = 7

    @property
    def text(self) -> str:
        """The reason in words, for logs and errors."""
        return self.name.lower().replace("_", " ")

    @property
    def closed_by_peer(self) -> str:
        """Describe a CLOSE of the peer with this reason; GENERIC, the reason of a normal end, is left out."""
        return "closed by the peer" if self is CloseReason.GENERIC else f"closed by the peer: {self.text}"


class ZError(Exception):
    """Base of all exceptions zenspark raises.

    Example:
        >>> try:
        ...     zenspark.KeyExpr("demo//a")
        ... except zenspark.ZError as error:
        ...     print(type(error).__name__)
        UsageError
    """


class UsageError(ZError):
    """The caller passed invalid arguments, or used a closed object: a bad key expression, a bad option.

    Example:
        >>> try:
        ...     zenspark.KeyExpr("demo//a")
        ... except zenspark.UsageError as error:
        ...     print("no key expression")
        no key expression
    """


class KeyLimitExceeded(UsageError):
    """A key expression exceeds a limit of this node: `limit` names it, `found` is the actual and `most` the allowed
    number."""

    def __init__(self, key: str, limit: str, found: int, most: int) -> None:
        super().__init__(key, limit, found, most)
        self.key = key
        self.limit = limit
        self.found = found
        self.most = most

    def __str__(self) -> str:
        key = self.key if len(self.key) <= 64 else self.key[:64] + "..."
        hint = f"shorten it, or raise limits/key/{self.limit} in the configuration of every node on its way"
        return f"key expression {key!r} has {self.found} {self.limit}, {self.most} are allowed: {hint}"


class ProtocolError(ZError):
    """The peer violated the protocol; `reason` is the close reason to send."""

    reason = CloseReason.INVALID


class DecodeError(ProtocolError):
    """Malformed bytes: position, message, and what was expected there."""

    def __init__(self, expected: str, position: int, found: str | None = None, message: str | None = None) -> None:
        super().__init__(expected, position, found, message)
        self.expected = expected
        self.position = position
        self.found = found
        self.message = message

    def within(self, message: str) -> DecodeError:
        """Set the message in which the error occurred; an inner name is kept."""
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
    """Unknown mandatory extension: the message must not be processed."""

    def __init__(self, extension: int, position: int, message: str | None = None) -> None:
        super().__init__("an extension known here", position, f"mandatory extension 0x{extension:x}", message)
        self.extension = extension

    def __reduce__(self) -> tuple[type[UnknownExtension], tuple[int, int, str | None]]:  # type: ignore[override]
        return type(self), (self.extension, self.position, self.message)


class HandshakeError(ProtocolError):
    """A session was refused; `reason` is the close reason."""

    def __init__(self, text: str, reason: CloseReason) -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason

    def __str__(self) -> str:
        return self.text


class LimitExceeded(ProtocolError):
    """A size exceeds the negotiated or configured limit."""

    def __init__(self, size: int, limit: int, what: str = "message") -> None:
        super().__init__(size, limit, what)
        self.size = size
        self.limit = limit
        self.what = what

    def __str__(self) -> str:
        return f"{self.what}: {self.size} is more than the {self.limit} allowed"


class LinkError(ZError):
    """The network failed on an endpoint; the OSError is its cause where there was one.

    Attributes:
        endpoint: Addresses that were tried.
        problem: Description of what failed.

    Example:
        >>> try:
        ...     session = zenspark.open(zenspark.Config.from_json5('{mode: "client"}'))
        ... except zenspark.LinkError as error:
        ...     print(error.endpoint, error.problem)
    """

    def __init__(self, endpoint: str, problem: str) -> None:
        super().__init__(endpoint, problem)
        self.endpoint = endpoint
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.problem}"


class ListenError(LinkError):
    """This node cannot listen on an endpoint: it is in use, or not an address of this machine."""


class EncodeError(UsageError):
    """A message cannot be encoded: message, field, and problem."""

    def __init__(self, problem: str, field: str, message: str | None = None) -> None:
        super().__init__(problem, field, message)
        self.problem = problem
        self.field = field
        self.message = message

    def within(self, message: str) -> EncodeError:
        """Set the message in which the error occurred; an inner name is kept."""
        if self.message is None:
            self.message = message
        return self

    def __str__(self) -> str:
        where = f"{self.message}.{self.field}" if self.message else self.field
        return f"{where}: {self.problem}"

    def __reduce__(self) -> tuple[type[EncodeError], tuple[str, str, str | None]]:
        return type(self), (self.problem, self.field, self.message)


class RowError(UsageError):
    """A row of a batch cannot be published: its index, counted from 0, and the problem."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(row, problem)
        self.row = row
        self.problem = problem

    def __str__(self) -> str:
        return f"row {self.row} {self.problem}"


class SessionClosed(ZError):
    """The session was closed.

    Example:
        >>> try:
        ...     session.put("demo/a", "21.5")
        ... except zenspark.SessionClosed:
        ...     print("published too late")
    """


class ChannelClosed(ZError):
    """The channel is empty, and the subscriber, query or session behind it has ended.

    Example:
        >>> try:
        ...     sample = subscriber.recv()
        ... except zenspark.ChannelClosed:
        ...     print("no further samples")
    """

    def __str__(self) -> str:
        return "channel is empty and closed"


class ReceiveTimeout(ZError, TimeoutError):
    """No item was received within the timeout.

    Attributes:
        timeout: Seconds that the caller waited.

    Example:
        >>> try:
        ...     sample = subscriber.recv(timeout=1)
        ... except zenspark.ReceiveTimeout as error:
        ...     print("no sample within", error.timeout, "s")
    """

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        self.timeout = timeout

    def __str__(self) -> str:
        return f"nothing received in {self.timeout:g} s"


class JournalError(ZError):
    """A journal cannot be read or written.

    Args:
        path: File or directory of the journal.
        problem: Reason, and where possible what to do.

    Example:
        >>> try:
        ...     journal.earliest()
        ... except JournalError as error:
        ...     print(error.problem)
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class NoJournal(JournalError):
    """There is no journal at this path, or one that this version cannot use.

    Args:
        path: File or directory of the journal.
        problem: Reason, and where possible what to do.

    Example:
        >>> try:
        ...     Journal("missing").earliest()
        ... except NoJournal as error:
        ...     print(error.problem)
        there is no such directory
    """


class JournalLocked(JournalError):
    """Another process writes this journal, or another writer of this one.

    Args:
        path: Directory of the journal.
        pid: Process id of the writer; None if it is not known.

    Example:
        >>> try:
        ...     JournalWriter(writer.path)
        ... except JournalLocked as error:
        ...     print(type(error.pid).__name__)
        int
    """

    def __init__(self, path: str, pid: int | None) -> None:
        writer = "another process" if pid is None else f"process {pid}"
        super().__init__(path, f"{writer} writes this journal, and only one may: end it, or choose another directory")
        self.pid = pid

    def __reduce__(self) -> tuple[type[JournalLocked], tuple[str, int | None]]:
        return type(self), (self.path, self.pid)


class JournalFull(JournalError):
    """The disk of a journal is full; unwritten rows are kept, and can be written when there is space.

    Args:
        path: File of the journal.
        problem: Reason, and where possible what to do.

    Example:
        >>> try:
        ...     writer.flush()
        ... except JournalFull as error:
        ...     print(error.path)
    """


class CorruptJournal(JournalError):
    """A file of a journal is damaged.

    Args:
        path: The file.
        position: Byte position in the file.
        expected: Description of what was expected there.
        rows: First and last offset of the rows that are lost; None if they are not known.

    Example:
        >>> try:
        ...     batches = list(journal.read(journal.earliest(), journal.latest()))
        ... except CorruptJournal as error:
        ...     print(error.position, error.rows)
    """

    def __init__(self, path: str, position: int, expected: str, rows: tuple[int, int] | None = None) -> None:
        lost = f"; the rows from offset {rows[0]} to {rows[1]} cannot be read" if rows else ""
        hint = "restore the file from a copy, or read around it"
        super().__init__(path, f"expected {expected} at byte {position}{lost}: {hint}")
        self.position = position
        self.expected = expected
        self.rows = rows

    def __reduce__(self) -> tuple[type[CorruptJournal], tuple[str, int, str, tuple[int, int] | None]]:
        return type(self), (self.path, self.position, self.expected, self.rows)


class OffsetOutOfRange(JournalError):
    """An offset is outside the journal: already trimmed, or not yet written.

    Args:
        path: Directory of the journal.
        offset: The offset.
        earliest: Offset of the first row of the journal.
        latest: Offset after its last row.

    Example:
        >>> try:
        ...     journal.received_at(1_000_000)
        ... except OffsetOutOfRange as error:
        ...     print(error.offset)
        1000000
    """

    def __init__(self, path: str, offset: int, earliest: int, latest: int) -> None:
        why = "was trimmed away" if offset < earliest else "is not there"
        super().__init__(path, f"offset {offset} {why}: the journal has the rows from {earliest} up to before {latest}")
        self.offset = offset
        self.earliest = earliest
        self.latest = latest

    def __reduce__(self) -> tuple[type[OffsetOutOfRange], tuple[str, int, int, int]]:
        return type(self), (self.path, self.offset, self.earliest, self.latest)


class LakeError(ZError):
    """A lake cannot be used: table, and problem."""

    def __init__(self, table: str, problem: str) -> None:
        super().__init__(table, problem)
        self.table = table
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.table}: {self.problem}"
