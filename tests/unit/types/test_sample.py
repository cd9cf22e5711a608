"""Samples and replies as values."""

from __future__ import annotations

import copy
import pickle

import pytest

from zenspark.key import KeyExpr
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, Priority, Reliability, SampleKind
from zenspark.types.ids import EntityGlobalId
from zenspark.types.network_info import ReplyError
from zenspark.types.sample import Reply, Sample, SampleHeader, sample_from_body, sample_from_push, token_sample
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import ZBytes
from zenspark.wire import values as wire
from zenspark.wire.messages import Del, Push, Put

ZID = wire.ZenohId(7)
STAMP = wire.Timestamp(123, ZID)
FULL = Put(
    timestamp=STAMP,
    encoding=wire.Encoding(1),
    source_info=wire.SourceInfo(ZID, 3, 9),
    attachment=b"more",
    payload=b"value",
)
QOS = wire.QoS(wire.Priority.REAL_TIME, wire.Congestion.BLOCK, True)


def full() -> Sample:
    return sample_from_push(Push(wire_expr=wire.WireExpr(0, "a/b"), qos=QOS, body=FULL), KeyExpr("a/b"), reliable=False)


def test_sample_has_all_fields_of_a_publication() -> None:
    sample = full()
    assert (sample.key_expr, sample.payload, sample.kind) == (KeyExpr("a/b"), ZBytes(b"value"), SampleKind.PUT)
    assert sample.encoding == Encoding.from_wire(wire.Encoding(1))
    assert sample.timestamp == Timestamp.from_wire(STAMP)
    assert (sample.priority, sample.congestion_control) == (Priority.REAL_TIME, CongestionControl.BLOCK)
    assert (sample.express, sample.reliability) == (True, Reliability.BEST_EFFORT)
    assert sample.attachment == b"more"
    assert sample.source_info is not None
    assert (sample.source_info.source_id.eid, sample.source_info.source_sn) == (3, 9)
    assert sample.timestamp_stack is None
    assert repr(sample) == "<Sample PUT a/b: 5 bytes>"


def test_sample_without_optional_fields_has_defaults() -> None:
    sample = sample_from_body(Del(), KeyExpr("a"), wire.QoS.DEFAULT)
    assert (sample.kind, sample.payload, sample.encoding) == (SampleKind.DELETE, ZBytes(), Encoding.ZENOH_BYTES)
    assert (sample.timestamp, sample.attachment, sample.source_info) == (None, None, None)
    assert sample.reliability is Reliability.RELIABLE


def test_sample_has_its_timestamp_stack() -> None:
    stack = wire.TimestampStack(1, ())
    sample = sample_from_body(Del(), KeyExpr("a"), wire.QoS.DEFAULT, stack=stack)
    assert sample.timestamp_stack is not None
    assert sample.timestamp_stack.records == []


def test_a_token_is_an_empty_sample() -> None:
    sample = token_sample(SampleKind.DELETE, "live/a")
    assert (sample.key_expr, sample.kind, sample.payload) == (KeyExpr("live/a"), SampleKind.DELETE, ZBytes())


REPLIES = [
    Reply(full(), EntityGlobalId.from_wire(wire.EntityId(ZID, 1))),
    Reply(full()),
    Reply(ReplyError(ZBytes(b"no"), Encoding.TEXT_PLAIN)),
]


@pytest.mark.parametrize("value", [full(), *REPLIES])
def test_values_pickle_and_compare(value: object) -> None:
    for twin in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert twin == value
        assert hash(twin) == hash(value)
    assert value != "something else"


def test_samples_compare_by_all_fields() -> None:
    head = SampleHeader(KeyExpr("a"))
    assert Sample(head, b"1") == Sample(SampleHeader(KeyExpr("a")), b"1")
    assert Sample(head, b"1") != Sample(head, b"2")
    assert Sample(head, b"1") != Sample(SampleHeader(KeyExpr("b")), b"1")


def test_reply_has_either_ok_or_err() -> None:
    assert REPLIES[0].ok == full()
    assert REPLIES[0].err is None
    assert REPLIES[2].ok is None
    assert REPLIES[2].err is not None
