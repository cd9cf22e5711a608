"""Runs of publications: the templates of their rows."""

from __future__ import annotations

from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, PushColumns, PushRun
from zenspark.wire.messages import Del, Frame, Push, Put
from zenspark.wire.values import WireExpr, ZenohId


def test_template_includes_the_local_clock_id() -> None:
    put, deletion = (
        Push(wire_expr=WireExpr(0, "a"), body=Put(payload=b"1")),
        Push(wire_expr=WireExpr(0, "a"), body=Del()),
    )
    raw = encode(Frame(reliable=True, sn=5, msgs=(put, deletion)))
    columns = PushColumns(2)
    BatchDecoder(len(raw).to_bytes(2, "little") + raw).decode(columns)
    plain = PushRun(columns, 0, 2)
    assert plain.template_at(0) == columns.template_at(0)
    stamped = PushRun(columns, 0, 2, timestamped_by=ZenohId(7))
    assert [stamped.template_at(index).timestamp_id for index in range(2)] == [ZenohId(7), None]
