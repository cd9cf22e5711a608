from __future__ import annotations

import argparse

import pytest

from zenspark.cli.ingest_flags import (
    FILE_KEYS,
    add_ingest_flags,
    merge_file_settings,
    parse_ingest_settings,
    parse_journal_policy,
    parse_timing,
)
from zenspark.cli.record import add_policy_flags
from zenspark.config.schema import ConfigError
from zenspark.errors import UsageError
from zenspark.journal import Policy
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.ingest.settings import IngestSettings


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_ingest_flags(parser)
    add_policy_flags(parser)
    return parser.parse_args(arguments)


def test_ingest_settings_without_flags_are_the_defaults() -> None:
    assert parse_ingest_settings(parsed()) == IngestSettings()
    assert parse_timing(parsed()) == (None, 60.0)


def test_spark_flags_become_settings() -> None:
    found = parse_ingest_settings(
        parsed(
            *("--master", "spark://host:7077", "--trigger", "500ms", "--deduplicate"),
            *("--max-batch-rows", "1000", "--max-batch-bytes", "64MiB"),
            *("--conf", "spark.driver.memory=2g", "--conf", "a=b=c", "--spark-ui"),
        )
    )
    assert (found.master, found.trigger, found.deduplicate) == ("spark://host:7077", 0.5, True)
    assert (found.max_batch_rows, found.max_batch_bytes) == (1000, 64 << 20)
    assert found.conf == {
        "spark.ui.enabled": "true",
        "spark.ui.port": "4040",
        "spark.driver.memory": "2g",
        "a": "b=c",
    }
    assert parse_ingest_settings(parsed("--spark-ui", "5050")).conf["spark.ui.port"] == "5050"


def test_maintenance_flags_become_the_maintenance_config() -> None:
    found = parse_ingest_settings(
        parsed(
            *("--refresh-interval", "30s", "--compact-interval", "5m", "--lake-retain-age", "30d"),
            *("--lake-retain-bytes", "1TB", "--lake-retain", "fleet/*/camera/**=7d", "--lake-retain", "pose=forever"),
        )
    )
    assert found.maintenance == MaintenanceConfig(
        refresh_interval=30.0,
        compact_interval=300.0,
        retain_age=30 * 86_400.0,
        retain_bytes=10**12,
        retain={"fleet/*/camera/**": 7 * 86_400.0, "pose": None},
    )
    assert parse_ingest_settings(parsed("--lake-retain-age", "forever")).maintenance.retain_age is None


@pytest.mark.slow
def test_journal_is_trimmed_one_hour_after_ingestion_by_default() -> None:
    usual = parse_journal_policy(parsed())
    assert (usual.retain_read_age, usual.retain_read_bytes) == (3600.0, None)
    assert (usual.segment_bytes, usual.segment_age) == (64 << 20, 600.0)
    policy = parse_journal_policy(
        parsed("--retain-read-age", "2h", "--retain-read-bytes", "1GB", "--segment-age", "1h")
    )
    assert (policy.retain_read_age, policy.retain_read_bytes, policy.segment_age) == (7200.0, 10**9, 3600.0)
    assert parse_journal_policy(parsed("--retain-read-age", "forever")).retain_read_age is None
    assert parse_journal_policy(parsed("--flush-interval", "1s")).fsync == Policy().fsync


def test_for_and_stop_timeout_flags_are_parsed() -> None:
    assert parse_timing(parsed("--for", "90s", "--stop-timeout", "5m")) == (90.0, 300.0)


def test_file_settings_apply_where_flags_are_missing() -> None:
    document = {
        "master": "spark://host:7077",
        "trigger": 5,
        "deduplicate": True,
        "conf": {"spark.driver.memory": "2g", "a": "file"},
        "lake_retain": {"pose": "forever", "fleet": "7d"},
        "retain_read_age": "2h",
        "max_batch_bytes": "64MiB",
    }
    given = merge_file_settings(
        parsed("--conf", "a=flag", "--lake-retain", "fleet=1d", "--max-batch-bytes", "1MiB"), document
    )
    found = parse_ingest_settings(given)
    assert (found.master, found.trigger, found.deduplicate, found.max_batch_bytes) == (
        *("spark://host:7077", 5.0, True),
        1 << 20,
    )
    assert found.conf == {"spark.driver.memory": "2g", "a": "flag"}
    assert list(found.maintenance.retain.items()) == [("fleet", 86_400.0), ("pose", None)]
    assert parse_journal_policy(given).retain_read_age == 7200.0
    assert parse_ingest_settings(merge_file_settings(parsed("--master", "local"), document)).master == "local"


def test_a_key_of_the_file_that_is_not_known_is_named() -> None:
    with pytest.raises(ConfigError, match=r"volumes/\*/ingest/max_rows: expected one of master, conf"):
        merge_file_settings(parsed(), {"max_rows": 1})
    assert set(FILE_KEYS.values()) <= set(vars(parsed()))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--trigger", "soon"], "--trigger: expected a duration"),
        (["--conf", "spark.ui.enabled"], "--conf: expected NAME=VALUE, found 'spark.ui.enabled'"),
        (["--conf", "=x"], "--conf: expected NAME=VALUE"),
        (["--max-batch-rows", "0"], "--max-batch-rows: expected more than 0"),
        (["--max-batch-bytes", "much"], "--max-batch-bytes: expected a size"),
        (["--lake-retain", "fleet"], "--lake-retain: expected KEYS=DURATION, found 'fleet'"),
        (["--lake-retain", "fleet=long"], "--lake-retain: expected a duration"),
        (["--spark-ui", "web"], "--spark-ui: expected a number"),
    ],
)
def test_usage_error_names_the_flag(arguments: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_ingest_settings(parsed(*arguments))
