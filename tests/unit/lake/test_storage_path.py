"""Files of a lake, on this machine and elsewhere."""

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
        folder = StoragePath.at(address)
        assert folder.address == str(path)
        assert folder.spark == f"file://{path}"
    assert StoragePath.at("here").address == str(Path("here").absolute())


def test_spark_has_its_own_name_for_s3() -> None:
    folder = StoragePath.at("s3://bucket/lake/")
    assert (folder.address, folder.spark, folder.local) == ("s3://bucket/lake", "s3a://bucket/lake", False)
    assert (folder / "samples").spark == "s3a://bucket/lake/samples"
    assert StoragePath.at("s3a://bucket/lake").address == "s3://bucket/lake"
    assert StoragePath.at("hdfs://name/lake").spark == "hdfs://name/lake"


def test_secrets_are_not_shown_and_travel_without_connections() -> None:
    folder = StoragePath.at("s3://bucket/lake", {"secret_access_key": "hush"})
    assert "hush" not in repr(folder)
    assert pickle.loads(pickle.dumps(folder)) == folder


def test_a_kind_of_address_that_nobody_knows_is_named() -> None:
    with pytest.raises(UsageError, match="nosuch"):
        StoragePath.at("nosuch://place/lake").exists()


def test_files_are_written_whole_listed_read_and_removed(tmp_path: Path) -> None:
    folder = StoragePath.at(tmp_path) / "table"
    assert not folder.exists()
    assert folder.files() == []
    assert folder.names() == []
    assert folder.read("no/file") is None
    folder.write("a/one.txt", b"1")
    folder.write("a/one.txt", b"11")
    with folder.sink("a/b/two.parquet") as sink:
        sink.write(b"222")
    assert folder.read("a/one.txt") == b"11"
    assert folder.files() == [FileInfo("a/b/two.parquet", 3), FileInfo("a/one.txt", 2)]
    assert folder.files("a/b") == [FileInfo("a/b/two.parquet", 3)]
    assert folder.files(suffix=".txt") == [FileInfo("a/one.txt", 2)]
    assert folder.names("a") == ["b", "one.txt"]
    with folder.open("a/b/two.parquet") as source:
        assert source.read() == b"222"
    folder.remove("a/one.txt")
    folder.remove("a/one.txt")
    folder.link("a/b/two.parquet", "c/three.parquet")
    folder.link("a/b/two.parquet", "c/three.parquet")
    folder.copy("c/three.parquet", folder, "d/four.parquet")
    folder.move("a", "e/f")
    assert [found.path for found in folder.files()] == ["c/three.parquet", "d/four.parquet", "e/f/b/two.parquet"]
    folder.remove("e")
    assert not folder.exists("e")


def test_a_file_is_created_once(tmp_path: Path) -> None:
    folder = StoragePath.at(tmp_path)
    assert folder.create("log/1.json", b"one")
    assert not folder.create("log/1.json", b"two")
    assert folder.read("log/1.json") == b"one"
    assert folder.names("log") == ["1.json"]


def test_a_file_is_created_once_also_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    folder = StoragePath.at(tmp_path)
    assert folder.create("log/1.json", b"one")
    assert not folder.create("log/1.json", b"two")
    assert folder.read("log/1.json") == b"one"
