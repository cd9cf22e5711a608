import pickle

import pytest

from zenspark.errors import (
    CloseReason,
    DecodeError,
    EncodeError,
    HandshakeError,
    LimitExceeded,
    LinkError,
    ProtocolError,
    UnknownExtension,
    UsageError,
    ZError,
)

ERRORS = [
    DecodeError("2 bytes", 7),
    DecodeError("2 bytes", 7, "the end", "PUSH"),
    UnknownExtension(0xF, 3, "PUT"),
    HandshakeError("version 8 instead of 9", CloseReason.INVALID),
    LimitExceeded(70_000, 65_535),
    LinkError("tcp/127.0.0.1:7447", "connection refused"),
    EncodeError("-1 does not fit 8 bits", "version", "HELLO"),
]


def test_fault_decides_the_branch() -> None:
    assert issubclass(EncodeError, UsageError)
    assert issubclass(UnknownExtension, DecodeError)
    for theirs in (DecodeError, HandshakeError, LimitExceeded):
        assert issubclass(theirs, ProtocolError)
    assert issubclass(UsageError, ZError)
    assert issubclass(ProtocolError, ZError)
    assert issubclass(LinkError, ZError)
    assert not issubclass(UsageError, ProtocolError)


def test_the_peer_is_told_that_what_it_said_is_invalid() -> None:
    assert DecodeError("a byte", 0).reason is CloseReason.INVALID
    assert HandshakeError("that is me", CloseReason.CONNECTION_TO_SELF).reason is CloseReason.CONNECTION_TO_SELF


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DecodeError("2 bytes", 7), "expected 2 bytes at byte 7"),
        (DecodeError("2 bytes", 7, "the end"), "expected 2 bytes at byte 7, found the end"),
        (DecodeError("2 bytes", 7, "the end", "PUSH"), "PUSH: expected 2 bytes at byte 7, found the end"),
        (
            UnknownExtension(0xF, 3, "PUT"),
            "PUT: expected an extension known here at byte 3, found mandatory extension 0xf",
        ),
        (HandshakeError("version 8 instead of 9", CloseReason.INVALID), "version 8 instead of 9"),
        (LimitExceeded(70_000, 65_535), "message: 70000 is more than the 65535 allowed"),
        (LinkError("tcp/127.0.0.1:7447", "connection refused"), "tcp/127.0.0.1:7447: connection refused"),
        (EncodeError("-1 does not fit 8 bits", "version"), "version: -1 does not fit 8 bits"),
        (EncodeError("-1 does not fit 8 bits", "version", "HELLO"), "HELLO.version: -1 does not fit 8 bits"),
    ],
)
def test_text_is_made_from_the_values(error: ZError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize("error", [DecodeError("a byte", 0), UnknownExtension(1, 0), EncodeError("no", "id")])
def test_the_innermost_message_is_named(error: DecodeError | EncodeError) -> None:
    assert error.within("PUT") is error
    assert error.within("PUSH").message == "PUT"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_travel_between_processes(error: ZError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)
