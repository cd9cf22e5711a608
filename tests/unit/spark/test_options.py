from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest

from zenspark.errors import UsageError
from zenspark.spark.options import (
    EARLIEST,
    LATEST,
    BatchOptions,
    Offsets,
    Options,
    SinkOptions,
    StreamOptions,
    Time,
    markdown_table,
    options_for_reader,
)

MANUAL = Path(__file__).resolve().parents[3] / "docs" / "spark.md"
ENDPOINT = "tcp/127.0.0.1:7447"


def test_option_names_ignore_case_and_values_are_converted_to_their_types() -> None:
    options = StreamOptions.of(
        {"JOURNAL": "/j", "maxoffsetspertrigger": "5", "failOnDataLoss": "false", "startingOffsets": "LATEST"}
    )
    assert options.journal == ("/j",)
    assert options.max_offsets_per_trigger == 5
    assert options.fail_on_data_loss is False
    assert options.starting_offsets == Offsets(LATEST)
    assert pickle.loads(pickle.dumps(options)) == options


def test_path_is_an_alias_of_journal() -> None:
    assert BatchOptions.of({"path": "/j"}).journal == ("/j",)
    with pytest.raises(UsageError, match="option journal is given twice, once as path"):
        BatchOptions.of({"journal": "/i", "path": "/j"})


def test_lists_are_one_text_or_json() -> None:
    assert BatchOptions.of({"journal": '["/i", "/j"]'}).journal == ("/i", "/j")
    for wrong in ("", "[]", "[1]", '["a"', '[""]'):
        with pytest.raises(UsageError, match="option journal: expected a text, or a JSON list of texts"):
            BatchOptions.of({"journal": wrong})


def test_offsets_are_earliest_latest_or_json() -> None:
    options = BatchOptions.of({"path": "/j", "startingOffsets": '{"a": 7, "b": -1}'})
    assert [options.starting_offsets.of(name) for name in ("a", "b", "c")] == [7, LATEST, EARLIEST]
    for wrong in ("first", "{}", '{"a": -3}', '{"a": "x"}', "[1]"):
        with pytest.raises(UsageError, match="option startingOffsets: expected earliest, latest, or JSON such as"):
            BatchOptions.of({"path": "/j", "startingOffsets": wrong})


def test_starting_offsets_accept_offsets_of_streaming_progress() -> None:
    options = StreamOptions.of({"path": "/j", "startingOffsets": '{"a": 7, "@reader": 99}'})
    assert options.starting_offsets.named == {"a": 7}


def test_times_are_milliseconds_or_rfc_3339() -> None:
    for text in (
        "1700000000123",
        "2023-11-14T22:13:20.123Z",
        "2023-11-14T23:13:20.123+01:00",
        "2023-11-14 22:13:20.123",
    ):
        assert StreamOptions.of({"path": "/j", "startingTimestamp": text}).starting_timestamp == Time(
            1_700_000_000_123_000
        )
    with pytest.raises(
        UsageError, match="option startingTimestamp: expected milliseconds since 1970, or a time such as"
    ):
        StreamOptions.of({"path": "/j", "startingTimestamp": "yesterday"})


@pytest.mark.parametrize(
    ("options", "given", "complaint"),
    [
        (StreamOptions, {}, "option journal is missing: a directory that a recorder writes"),
        (
            StreamOptions,
            {"subscribe": "a", "connect": ENDPOINT},
            "option journal is missing: the directory to",
        ),
        (StreamOptions, {"path": "/j", "connect": ENDPOINT}, "needs option subscribe, too"),
        (StreamOptions, {"path": "/j", "subscribe": "a"}, "needs option connect, listen or config, too"),
        (StreamOptions, {"path": '["/i","/j"]', "subscribe": "a", "listen": ENDPOINT}, "writes exactly one journal"),
        (StreamOptions, {"path": "/j", "subscribe": "a//b", "listen": ENDPOINT}, "key expression 'a//b'"),
        (StreamOptions, {"path": "/j", "backfill": "true"}, "option backfill: only a stream that records"),
        (StreamOptions, {"path": "/j", "minPartitions": "0"}, "option minPartitions: expected an integer from 1"),
        (StreamOptions, {"path": "/j", "startingOffsets": "latest", "startingTimestamp": "1"}, "exclude each other"),
        (StreamOptions, {"path": '["/j", "/j"]'}, "names a directory twice"),
        (
            StreamOptions,
            {"jurnal": "/j"},
            "there is no option jurnal for a stream of format zenoh: did you mean journal?",
        ),
        (BatchOptions, {}, "one of the options journal and selector, and not both"),
        (BatchOptions, {"path": "/j", "selector": "a"}, "one of the options journal and selector, and not both"),
        (BatchOptions, {"selector": "a"}, "option selector needs connect"),
        (BatchOptions, {"path": "/j", "connect": ENDPOINT}, "option journal reads files"),
        (BatchOptions, {"selector": "a//b?x=1", "connect": ENDPOINT}, "key expression 'a//b'"),
        (BatchOptions, {"path": "/j", "endingOffsets": '{"a":1}', "endingTimestamp": "1"}, "exclude each other"),
        (BatchOptions, {"selector": "a", "connect": ENDPOINT, "onError": "ignore"}, "expected one of fail, row"),
        (SinkOptions, {}, "writing needs option connect"),
        (SinkOptions, {"connect": ENDPOINT, "keyPrefix": "a/"}, "key expression 'a/'"),
        (SinkOptions, {"connect": ENDPOINT, "identityColumn": "id"}, "goes with identity=attachment"),
        (SinkOptions, {"connect": ENDPOINT, "zzz": "1"}, "there is no option zzz for writing format zenoh: there are"),
    ],
)
def test_invalid_options_are_named(options: type[Options], given: dict[str, str], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.of(given)
    assert complaint in str(caught.value)


def test_options_of_spark_are_ignored() -> None:
    assert StreamOptions.of({"path": "/j", "checkpointLocation": "/c"}) == StreamOptions.of({"path": "/j"})


def test_reader_options_distinguish_stream_from_batch() -> None:
    assert isinstance(options_for_reader({"path": "/j", "reader": "me"}), StreamOptions)
    assert isinstance(options_for_reader({"path": "/j"}), BatchOptions)
    with pytest.raises(UsageError, match="did you mean maxOffsetsPerTrigger"):
        options_for_reader({"path": "/j", "maxOffsetPerTrigger": "1"})


def test_a_node_that_listens_is_a_peer() -> None:
    assert SinkOptions(connect=(ENDPOINT,)).role == "client"
    assert SinkOptions(listen=(ENDPOINT,)).role == "peer"
    assert SinkOptions(listen=(ENDPOINT,), mode="router").role == "router"


@pytest.mark.parametrize("options", [StreamOptions, BatchOptions, SinkOptions])
def test_the_manual_has_the_table_of_every_option(options: type[Options]) -> None:
    drawn = markdown_table(options)
    assert drawn in MANUAL.read_text()
    assert len(drawn.splitlines()) == len(msgspec.structs.fields(options)) + 2
