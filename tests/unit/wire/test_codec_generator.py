from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests import strategies
from tests.strategies import examples
from tools.generate_codec import formatted
from zenspark.wire import codec, codec_generator
from zenspark.wire.buffer import Reader
from zenspark.wire.codec_generator import (
    MessageSource,
    collect_messages,
    constant_name,
    default_text,
    generate,
    imports,
    snake_case,
)
from zenspark.wire.message_schema import Message, WireField, fields_of
from zenspark.wire.messages import (
    Declare,
    Del,
    InitSyn,
    Interest,
    LinkState,
    NetworkMessage,
    Push,
    Request,
    Scout,
    TransportOam,
)
from zenspark.wire.values import Encoding, Priority, QoS


def field(cls: type[Message], name: str) -> WireField:
    return next(field for field in fields_of(cls) if field.name == name)


# -- the module ---


@pytest.mark.slow
def test_committed_codec_equals_the_generated_one() -> None:
    assert Path(codec_generator.__file__).with_name("codec.py").read_text() == formatted(generate())


def test_every_message_with_a_header_is_declared() -> None:
    assert len(collect_messages()) == len(set(collect_messages()))
    assert {Scout, Push, Del, LinkState} <= set(collect_messages())
    assert NetworkMessage not in collect_messages()


def test_every_message_has_its_functions() -> None:
    for cls in collect_messages():
        assert callable(getattr(codec, f"read_{snake_case(cls)}"))
        assert callable(getattr(codec, f"write_{snake_case(cls)}"))


def test_only_names_in_use_are_imported() -> None:
    assert imports("Push(Encoding.BYTES, Extensions)") == (
        "from zenspark.wire.messages import (\n    Push,\n)\n"
        "from zenspark.wire.values import (\n    Encoding,\n    Extensions,\n)\n"
    )


# -- its parts ---


def test_names_of_functions_and_constants() -> None:
    assert snake_case(InitSyn) == "init_syn"
    assert snake_case(Push) == "push"
    assert constant_name("QoS.DEFAULT") == "_QOS_DEFAULT"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (0, "0"),
        (False, "False"),
        ((), "()"),
        ("", "''"),
        (Priority.DATA, "Priority.DATA"),
        (QoS.DEFAULT, "QoS.DEFAULT"),
        (Encoding.BYTES, "Encoding.BYTES"),
    ],
)
def test_defaults_are_source_text(value: object, text: str) -> None:
    assert default_text(value) == text


def test_flags_are_tested_in_their_byte_with_their_mask() -> None:
    interest = MessageSource(Interest, False)
    assert interest.test("R") == "options & 0x10"
    assert interest.test("MODE") == "header & 0x60"
    assert interest.bits("MODE") == "(header >> 5 & 0x3)"
    assert MessageSource(TransportOam, False).test("ENC", 2) == "(header >> 5 & 0x3) == 2"
    assert MessageSource(TransportOam, False).exclusive_fields() == {"ENC": {"value": 1, "zbuf": 2}}


def test_a_field_is_written_if_it_differs_from_its_default() -> None:
    push = MessageSource(Push, False)
    assert push.present(field(Push, "timestamp")) == "m.timestamp is not None"
    assert push.present(field(Push, "node_id")) == "m.node_id"
    assert push.present(field(Push, "qos")) == "m.qos is not _QOS_DEFAULT and m.qos != _QOS_DEFAULT"


@pytest.mark.parametrize(
    ("cls", "name"), [(Push, "put_or_del_body"), (Request, "query_body"), (Declare, "declaration_body")]
)
def test_choices_are_named_after_their_members(cls: type[Message], name: str) -> None:
    assert MessageSource(cls, False).choice(field(cls, "body")) == name


# -- the traced form ---


class RecordingReader(Reader):
    """What the traced codec needs of a Reader, and no more."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.begun: list[type[Message]] = []
        self.recorded: list[tuple[str, int, object]] = []
        self.finished: list[Message] = []

    def begin(self, cls: type[Message]) -> None:
        self.begun.append(cls)

    def record_field(self, name: str, start: int, value: object) -> None:
        self.recorded.append((name, start, value))

    def finish(self, message: Message) -> Message:
        self.finished.append(message)
        return message


@cache
def traced() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(generate(traced=True), "traced codec", "exec"), names)
    return names


def test_traced_codec_notes_the_position_of_each_field() -> None:
    reader = RecordingReader(bytes.fromhex("fd 00 03 612f62 21 25 01 01 78"))
    push = traced()["read_network_message"](reader)
    assert push == codec.decode_network(reader.data)
    assert [cls.NAME for cls in reader.begun] == ["PUSH", "PUT"]
    assert reader.finished == [push.body, push]
    assert {name: start for name, start, _ in reader.recorded if name in ("wire_expr", "qos", "body")} == {
        "wire_expr": 1,
        "qos": 6,
        "body": 8,
    }


@pytest.mark.slow
@examples(60)
@given(message=strategies.transport())
def test_the_traced_codec_reads_the_same(message: Message) -> None:
    reader = RecordingReader(codec.encode(message))
    assert traced()["read_transport_message"](reader) == message
    assert reader.finished[-1] == message
    assert len(reader.begun) == len(reader.finished)
    assert all(0 <= start <= len(reader.data) for _, start, _ in reader.recorded)
