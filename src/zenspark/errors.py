"""Exception hierarchy of zenspark: the party at fault decides the branch.

Details are attributes and the text is made from them, so callers never parse a message.
"""

from __future__ import annotations

from enum import IntEnum

from zenspark.member_docstrings import DocumentedEnumType

__all__ = [
    "ChannelClosed",
    "CloseReason",
    "CorruptJournal",
    "DecodeError",
    "EncodeError",
    "HandshakeError",
    "JournalError",
    "JournalFull",
    "JournalLocked",
    "KeyLimitExceeded",
    "LakeError",
    "LimitExceeded",
    "LinkError",
    "ListenError",
    "NoJournal",
    "OffsetOutOfRange",
    "ProtocolError",
    "ReceiveTimeout",
    "RowError",
    "SessionClosed",
    "UnknownExtension",
    "UsageError",
    "ZError",
]


class CloseReason(IntEnum, metaclass=DocumentedEnumType):
    """Reason in a CLOSE message, with which a node ends a session or a link.

    Example:
        >>> zenspark.errors.CloseReason.MAX_LINKS.text
        'max links'
    """

    GENERIC = 0
    """The session ends normally, or for a reason without a number of its own."""
    UNSUPPORTED = 1
    """The node does not support what the peer requires."""
    INVALID = 2
    """The peer sent a message that is not valid."""
    MAX_SESSIONS = 3
    """The node has as many sessions as its configuration allows."""
    MAX_LINKS = 4
    """The session has as many links as the node allows; only this link is closed."""
    EXPIRED = 5
    """The peer sent nothing for the time of its lease, or its certificate has expired."""
    UNRESPONSIVE = 6
    """The peer did not take bytes for several seconds."""
    CONNECTION_TO_SELF = 7
    """The node connected to itself."""

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
    """A key expression exceeds a limit of this node.

    Args:
        key: The key expression.
        limit: Name of the limit, that of its setting below `limits/key`, such as "bytes".
        found: Number of these in the key expression.
        most: Number of them that the node allows.

    Example:
        >>> try:
        ...     session.put("/".join(["demo"] * 100), "21.5")
        ... except zenspark.errors.KeyLimitExceeded as error:
        ...     print(error.limit, error.found, error.most)
        chunks 100 64
    """

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
    """The peer violated the protocol.

    Attributes:
        reason: Reason in the CLOSE that this node sends to the peer.

    Example:
        >>> zenspark.errors.ProtocolError("priority DATA on a session without QoS").reason.text
        'invalid'
    """

    reason = CloseReason.INVALID


class DecodeError(ProtocolError):
    """Bytes are no message of the protocol, or no value of it.

    Args:
        expected: Description of what was expected.
        position: Index of the first byte that is something else, counted from 0.
        found: Description of what is there; None if it is not known.
        message: Name of the message, such as "PUSH"; None before it is known.

    Example:
        >>> from zenspark.wire.codec import decode_network
        >>> try:
        ...     decode_network(bytes.fromhex("3d00"))
        ... except zenspark.errors.DecodeError as error:
        ...     print(error.message, error.position, error.expected)
        PUSH 2 an integer
    """

    def __init__(self, expected: str, position: int, found: str | None = None, message: str | None = None) -> None:
        super().__init__(expected, position, found, message)
        self.expected = expected
        self.position = position
        self.found = found
        self.message = message

    def within(self, message: str) -> DecodeError:
        """Set the message in which the error occurred; an inner name is kept.

        Args:
            message: Name of the message.

        Returns:
            This error.

        Example:
            >>> print(zenspark.errors.DecodeError("a key", 1).within("PUSH"))
            PUSH: expected a key at byte 1
        """
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
    """A message has a mandatory extension that this node does not know: it must not be processed.

    Args:
        extension: Number of the extension.
        position: Index of its first byte, counted from 0.
        message: Name of the message; None before it is known.

    Example:
        >>> zenspark.errors.UnknownExtension(15, 3, "PUT").extension
        15
    """

    def __init__(self, extension: int, position: int, message: str | None = None) -> None:
        super().__init__("an extension known here", position, f"mandatory extension 0x{extension:x}", message)
        self.extension = extension

    def __reduce__(self) -> tuple[type[UnknownExtension], tuple[int, int, str | None]]:  # type: ignore[override]
        return type(self), (self.extension, self.position, self.message)


class HandshakeError(ProtocolError):
    """A session was refused.

    Args:
        text: Description of the problem.
        reason: Reason in the CLOSE that refuses it.

    Example:
        >>> refused = zenspark.errors.CloseReason.INVALID
        >>> zenspark.errors.HandshakeError("protocol version 8, expected 9", refused).reason.text
        'invalid'
    """

    def __init__(self, text: str, reason: CloseReason) -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason

    def __str__(self) -> str:
        return self.text


class LimitExceeded(ProtocolError):
    """A size exceeds the negotiated or configured limit.

    Args:
        size: The size, in bytes unless `what` has another unit.
        limit: Largest size that is allowed.
        what: Description of what has this size.

    Example:
        >>> print(zenspark.errors.LimitExceeded(70_000, 65_535))
        message: 70000 is more than the 65535 allowed
    """

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
    """This node cannot listen on an endpoint: it is in use, or not an address of this machine.

    Attributes:
        endpoint: The address.
        problem: Reason that the system gives.

    Example:
        >>> config = zenspark.Config.from_json5('{listen: {endpoints: ["tcp/192.0.2.1:7447"]}}')
        >>> try:
        ...     session = zenspark.open(config)
        ... except zenspark.errors.ListenError as error:
        ...     print(error.endpoint, error.problem)
        tcp/192.0.2.1:7447 cannot listen: Cannot assign requested address
    """


class EncodeError(UsageError):
    """A message cannot be encoded.

    Args:
        problem: Reason.
        field: Name of the field with the value that does not fit.
        message: Name of the message, such as "PUSH"; None before it is known.

    Example:
        >>> print(zenspark.errors.EncodeError("-1 does not fit 8 bits", "version", "HELLO"))
        HELLO.version: -1 does not fit 8 bits
    """

    def __init__(self, problem: str, field: str, message: str | None = None) -> None:
        super().__init__(problem, field, message)
        self.problem = problem
        self.field = field
        self.message = message

    def within(self, message: str) -> EncodeError:
        """Set the message in which the error occurred; an inner name is kept.

        Args:
            message: Name of the message.

        Returns:
            This error.

        Example:
            >>> print(zenspark.errors.EncodeError("-1 does not fit 8 bits", "version").within("HELLO"))
            HELLO.version: -1 does not fit 8 bits
        """
        if self.message is None:
            self.message = message
        return self

    def __str__(self) -> str:
        where = f"{self.message}.{self.field}" if self.message else self.field
        return f"{where}: {self.problem}"

    def __reduce__(self) -> tuple[type[EncodeError], tuple[str, str, str | None]]:
        return type(self), (self.problem, self.field, self.message)


class RowError(UsageError):
    """A row of a batch cannot be published.

    Args:
        row: Index of the row in the batch, counted from 0.
        problem: Reason.

    Example:
        >>> try:
        ...     session.put_batch(pa.record_batch({"key": ["demo/a", "demo//b"], "payload": [b"1", b"2"]}))
        ... except zenspark.errors.RowError as error:
        ...     print(error.row)
        1
    """

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
    """A lake cannot be used.

    Args:
        table: Path or address of the table or lake.
        problem: Reason, and where possible what to do.

    Example:
        >>> try:
        ...     dataset = lake.dataset("samples")
        ... except zenspark.errors.LakeError as error:
        ...     print(error.table, error.problem)
    """

    def __init__(self, table: str, problem: str) -> None:
        super().__init__(table, problem)
        self.table = table
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.table}: {self.problem}"
