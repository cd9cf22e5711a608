import pickle

import pytest

from zenspark import errors
from zenspark.errors import (
    ChannelClosed,
    CloseReason,
    CorruptJournal,
    DecodeError,
    EncodeError,
    HandshakeError,
    JournalError,
    JournalFull,
    JournalLocked,
    KeyLimitExceeded,
    LakeError,
    LimitExceeded,
    LinkError,
    ListenError,
    NoJournal,
    OffsetOutOfRange,
    ProtocolError,
    ReceiveTimeout,
    RowError,
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
    ListenError("tcp/127.0.0.1:7447", "cannot listen: in use"),
    EncodeError("-1 does not fit 8 bits", "version", "HELLO"),
    RowError(7, "has no key"),
    LakeError("samples", "nothing"),
    NoJournal("here", "nothing"),
    JournalFull("here", "no room"),
    JournalLocked("here", 12),
    JournalLocked("here", None),
    CorruptJournal("file", 7, "a block", (3, 5)),
    CorruptJournal("file", 7, "a block"),
    OffsetOutOfRange("here", 3, 5, 9),
    ChannelClosed(),
    ReceiveTimeout(0.5),
]


def test_all_classes_are_public() -> None:
    own = {name for name, found in vars(errors).items() if getattr(found, "__module__", "") == errors.__name__}
    assert set(errors.__all__) == own


def test_error_classes_derive_from_usage_protocol_or_journal_error() -> None:
    assert issubclass(EncodeError, UsageError)
    assert issubclass(RowError, UsageError)
    assert issubclass(UnknownExtension, DecodeError)
    for theirs in (DecodeError, HandshakeError, LimitExceeded):
        assert issubclass(theirs, ProtocolError)
    assert issubclass(UsageError, ZError)
    assert issubclass(ProtocolError, ZError)
    assert issubclass(LinkError, ZError)
    assert issubclass(ListenError, LinkError)
    assert issubclass(ReceiveTimeout, TimeoutError)
    for journal in (NoJournal, JournalFull, JournalLocked, CorruptJournal, OffsetOutOfRange):
        assert issubclass(journal, JournalError)
    assert not issubclass(UsageError, ProtocolError)


def test_protocol_errors_have_a_close_reason() -> None:
    assert DecodeError("a byte", 0).reason is CloseReason.INVALID
    assert HandshakeError("that is me", CloseReason.CONNECTION_TO_SELF).reason is CloseReason.CONNECTION_TO_SELF


def test_close_reasons_read_as_words() -> None:
    assert CloseReason.CONNECTION_TO_SELF.text == "connection to self"
    assert CloseReason.GENERIC.closed_by_peer == "closed by the peer"
    assert CloseReason.MAX_LINKS.closed_by_peer == "closed by the peer: max links"


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
        (RowError(7, "has no key"), "row 7 has no key"),
        (HandshakeError("version 8 instead of 9", CloseReason.INVALID), "version 8 instead of 9"),
        (LimitExceeded(70_000, 65_535), "message: 70000 is more than the 65535 allowed"),
        (LinkError("tcp/127.0.0.1:7447", "connection refused"), "tcp/127.0.0.1:7447: connection refused"),
        (NoJournal("here", "nothing"), "here: nothing"),
        (ChannelClosed(), "channel is empty and closed"),
        (ReceiveTimeout(0.5), "nothing received in 0.5 s"),
        (
            JournalLocked("here", 12),
            "here: process 12 writes this journal, and only one may: end it, or choose another directory",
        ),
        (
            JournalLocked("here", None),
            "here: another process writes this journal, and only one may: end it, or choose another directory",
        ),
        (
            CorruptJournal("file", 7, "a block", (3, 5)),
            "file: expected a block at byte 7; the rows from offset 3 to 5 cannot be read: "
            "restore the file from a copy, or read around it",
        ),
        (
            CorruptJournal("file", 7, "an entry"),
            "file: expected an entry at byte 7: restore the file from a copy, or read around it",
        ),
        (
            OffsetOutOfRange("here", 3, 5, 9),
            "here: offset 3 was trimmed away: the journal has the rows from 5 up to before 9",
        ),
        (
            OffsetOutOfRange("here", 10, 5, 9),
            "here: offset 10 is not there: the journal has the rows from 5 up to before 9",
        ),
        (LakeError("samples", "no columns"), "samples: no columns"),
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


def test_key_limit_error_names_key_limit_and_setting() -> None:
    error = KeyLimitExceeded("a/b/c", "chunks", 3, 2)
    assert (error.key, error.limit, error.found, error.most) == ("a/b/c", "chunks", 3, 2)
    assert str(error) == (
        "key expression 'a/b/c' has 3 chunks, 2 are allowed: "
        "shorten it, or raise limits/key/chunks in the configuration of every node on its way"
    )


def test_key_limit_error_shortens_a_long_key() -> None:
    text = str(KeyLimitExceeded("k" * 65, "bytes", 65, 64))
    assert f"key expression '{'k' * 64}...' has 65 bytes" in text
