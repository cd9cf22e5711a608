from __future__ import annotations

import msgspec
import pytest

from zenspark.spark.ingest.process_protocol import (
    Command,
    Drain,
    Drained,
    Failed,
    IngestHeartbeat,
    ProgressReport,
    Report,
    RestartQuery,
    Started,
    Waiting,
    decode_command,
    decode_report,
    encode_line,
)


@pytest.mark.parametrize("command", [RestartQuery(), Drain()])
def test_command_round_trips_as_one_line(command: Command) -> None:
    assert decode_command(encode_line(command)) == command
    assert encode_line(command).count(b"\n") == 1


@pytest.mark.parametrize(
    "report",
    [
        IngestHeartbeat(),
        Started("http://127.0.0.1:4040"),
        Waiting("recorder robot is being ingested"),
        ProgressReport(
            committed_offsets={"robot": 5}, rows=5, batches=1, batch_seconds=0.5, maintenance_error="two\nlines"
        ),
        Failed("no space"),
        Drained(),
    ],
)
def test_report_round_trips_as_one_line(report: Report) -> None:
    assert decode_report(encode_line(report)) == report
    assert encode_line(report).count(b"\n") == 1


def test_output_of_a_library_is_not_a_report() -> None:
    assert decode_report(b"WARNING: Using incubator modules\n") is None
    assert decode_report(b'{"type": "restart"}\n') is None


def test_invalid_command_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_command(b"{}\n")
