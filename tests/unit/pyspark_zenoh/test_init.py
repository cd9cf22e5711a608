from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from pyspark_zenoh import DefaultSource, activate
from tests.unit.spark.journaled import journal
from zenspark.errors import UsageError
from zenspark.spark.sink import BatchWriter, StreamWriter
from zenspark.spark.source.batch import JournalReader
from zenspark.spark.source.live_query import QueryReader
from zenspark.spark.source.stream import ZenohStreamReader

ENDPOINT = "tcp/127.0.0.1:1"


def source(**options: str) -> DefaultSource:
    return DefaultSource(CaseInsensitiveDict(options))


def test_options_select_reader_and_writer_classes(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 1)
    schema = StructType().add("key", "string").add("payload", "binary")
    assert DefaultSource.name() == "zenoh"
    assert isinstance(source(journal=path).reader(schema), JournalReader)
    assert isinstance(source(selector="a", connect=ENDPOINT).reader(schema), QueryReader)
    assert isinstance(source(journal=path).streamReader(schema), ZenohStreamReader)
    assert isinstance(source(connect=ENDPOINT).writer(schema, False), BatchWriter)
    assert isinstance(source(connect=ENDPOINT).streamWriter(schema, False), StreamWriter)


def test_schema_depends_on_journal_and_selector_options(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 1)
    samples = source(journal=path).schema().names
    assert samples[0] == "key"
    assert samples[-2:] == ["recorder", "offset"]
    assert source(journal=path, reader="me").schema().names == samples
    assert source(journal="/new", subscribe="a", connect=ENDPOINT).schema().names == samples
    assert source(selector="a", connect=ENDPOINT).schema().names == samples[:-2]
    assert source(selector="a", connect=ENDPOINT, onError="row").schema().names == [*samples[:-2], "error"]
    with pytest.raises(UsageError, match="did you mean journal"):
        source(journals=path).schema()


def test_a_session_is_made_the_active_one_of_the_thread() -> None:
    spark = Mock()
    activate(spark)
    spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession.assert_called_once_with(spark._jsparkSession)
    activate(Mock(spec=[]))  # over Spark Connect, nothing is needed
