from __future__ import annotations

import msgspec
import pytest

from zenspark.spark.ingest.process_protocol import (
    Alive,
    Answer,
    Ask,
    Drain,
    Drained,
    Failed,
    Land,
    Landed,
    Order,
    Report,
    Started,
    Waiting,
    line_of,
    order_in,
    report_in,
)


@pytest.mark.parametrize("order", [Land(), Drain(), Ask(3, "select 1")])
def test_an_order_is_a_line_and_back(order: Order) -> None:
    assert order_in(line_of(order)) == order
    assert line_of(order).count(b"\n") == 1


@pytest.mark.parametrize(
    "report",
    [
        Alive(),
        Started("http://127.0.0.1:4040"),
        Waiting("recorder robot is being landed"),
        Landed(reached={"robot": 5}, rows=5, batches=1, batch_seconds=0.5, maintenance="two\nlines"),
        Failed("no space"),
        Drained(),
        Answer(1, b"\x00\xff"),
    ],
)
def test_a_report_is_a_line_and_back(report: Report) -> None:
    assert report_in(line_of(report)) == report
    assert line_of(report).count(b"\n") == 1


def test_what_a_library_prints_is_no_report() -> None:
    assert report_in(b"WARNING: Using incubator modules\n") is None
    assert report_in(b'{"type": "land"}\n') is None


def test_an_order_that_is_none_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        order_in(b"{}\n")
