"""Addresses and files of local and remote locations."""

import errno
import os
import pickle
from pathlib import Path

import pytest

from zenspark.errors import UsageError
from zenspark.lake.storage_path import FileInfo, StoragePath


def test_an_address_may_be_a_path_or_a_uri(tmp_path: Path) -> None:
    path = tmp_path / "a b%ü"
    for address in (path, str(path), f"{path}/", path.as_uri()):
        location = StoragePath.at(address)
        assert location.address == str(path)
        assert location.spark_uri == f"file://{path}"
    assert StoragePath.at("here").address == str(Path("here").absolute())


def test_spark_uri_uses_hadoop_schemes() -> None:
    location = StoragePath.at("s3://bucket/lake/")
    assert (location.address, location.spark_uri, location.is_local) == ("s3://bucket/lake", "s3a://bucket/lake", False)
    assert (location / "samples").spark_uri == "s3a://bucket/lake/samples"
    assert StoragePath.at("s3a://bucket/lake").address == "s3://bucket/lake"
    assert StoragePath.at("hdfs://name/lake").spark_uri == "hdfs://name/lake"


def test_secrets_are_hidden_and_pickled_without_connections() -> None:
    location = StoragePath.at("s3://bucket/lake", {"secret_access_key": "hush"})
    assert "hush" not in repr(location)
    assert pickle.loads(pickle.dumps(location)) == location


def test_unsupported_scheme_is_rejected() -> None:
    with pytest.raises(UsageError, match="nosuch"):
        StoragePath.at("nosuch://place/lake").exists()


def test_files_are_written_atomically_listed_read_and_deleted(tmp_path: Path) -> None:
    location = StoragePath.at(tmp_path) / "table"
    assert not location.exists()
    assert location.files() == []
    assert location.names() == []
    assert location.read("no/file") is None
    location.write("a/one.txt", b"1")
    location.write("a/one.txt", b"11")
    with location.open_output("a/b/two.parquet") as sink:
        sink.write(b"222")
    assert location.read("a/one.txt") == b"11"
    assert location.files() == [FileInfo("a/b/two.parquet", 3), FileInfo("a/one.txt", 2)]
    assert location.files("a/b") == [FileInfo("a/b/two.parquet", 3)]
    assert location.files(suffix=".txt") == [FileInfo("a/one.txt", 2)]
    assert location.names("a") == ["b", "one.txt"]
    with location.open("a/b/two.parquet") as source:
        assert source.read() == b"222"
    location.remove("a/one.txt")
    location.remove("a/one.txt")
    location.link("a/b/two.parquet", "c/three.parquet")
    location.link("a/b/two.parquet", "c/three.parquet")
    location.copy("c/three.parquet", location, "d/four.parquet")
    location.move("a", "e/f")
    assert [found.path for found in location.files()] == ["c/three.parquet", "d/four.parquet", "e/f/b/two.parquet"]
    location.remove("e")
    assert not location.exists("e")


def test_put_if_absent_writes_once(tmp_path: Path) -> None:
    location = StoragePath.at(tmp_path)
    assert location.put_if_absent("log/1.json", b"one")
    assert not location.put_if_absent("log/1.json", b"two")
    assert location.read("log/1.json") == b"one"
    assert location.names("log") == ["1.json"]


def test_put_if_absent_writes_once_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    location = StoragePath.at(tmp_path)
    assert location.put_if_absent("log/1.json", b"one")
    assert not location.put_if_absent("log/1.json", b"two")
    assert location.read("log/1.json") == b"one"
