"""S3 options, and a lake on S3 without Spark; tests/spark/test_lake_s3.py has the tests with Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from pyarrow import fs

from tests.ports import free_port
from tests.s3 import S3, serving
from zenspark.cli import main
from zenspark.errors import LakeError
from zenspark.lake import s3
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.specs import TRAFFIC
from zenspark.lake.storage_path import FileInfo, StoragePath
from zenspark.spark.lake import Lake


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with serving() as found:
        yield found


@pytest.fixture
def reached(server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """A server that the environment names."""
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    return server


# --- error messages ---------------------------------------------------------------------------------------------------


def test_option_aliases_override_the_environment() -> None:
    environ = {"AWS_DEFAULT_REGION": "eu-1", "AWS_REGION": "eu-2", "AWS_ENDPOINT_URL": "https://other", "HOME": "/"}
    for name in ("endpoint", "AWS_ENDPOINT", "aws_endpoint_url", "endpoint_url_s3"):
        assert s3.resolve_options({name: "http://mine"}, environ) == {
            "AWS_REGION": "eu-2",
            "AWS_ENDPOINT_URL": "http://mine",
            "AWS_ALLOW_HTTP": "true",
        }
    assert s3.resolve_options({"timeout": "3s", "token": "t"}, {}) == {"timeout": "3s", "AWS_SESSION_TOKEN": "t"}
    assert s3.resolve_options({}, {"AWS_ENDPOINT_URL": "https://mine"})["AWS_REGION"] == "us-east-1"
    assert s3.resolve_options({}, {"AWS_ACCESS_KEY_ID": ""}) == {}


def test_credentials_of_options_and_environment_are_not_mixed() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "one", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    assert s3.resolve_options({}, environ) == environ
    own = {"AWS_ACCESS_KEY_ID": "two", "AWS_SECRET_ACCESS_KEY": "other"}
    assert s3.resolve_options(own, environ) == own


def test_arrow_filesystem_gets_the_same_options() -> None:
    options = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-1"}
    found = s3.filesystem(options)
    assert found.region == "eu-1"
    assert s3.filesystem(dict(options)) is found
    assert s3.filesystem({"AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "eu-1"}) is not found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AWS Error NO_SUCH_BUCKET during x", "there is no bucket 'b' at e"),
        ("AWS Error EXPIRED_TOKEN during x", "e refuses the credentials (EXPIRED_TOKEN)"),
        ("AWS Error NETWORK_CONNECTION during x: curlCode: 7; Details: no\n", "e cannot be reached (no)"),
        ("something\n else", "e refuses the request (something else)"),
    ],
)
def test_errors_are_explained_in_one_sentence(text: str, expected: str) -> None:
    assert s3.explain_error(text, "b", "e") == expected


# --- files and tables -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_are_written_listed_read_and_deleted(reached: S3) -> None:
    bucket = reached.bucket()
    location = StoragePath.at(f"s3://{bucket}/my lake/") / "table"
    assert not location.exists()
    assert (location.files(), location.names(), location.read("no/file")) == ([], [], None)
    location.write("a/empty", b"")
    location.write("a/one.txt", b"1")
    location.write("a/one.txt", b"11")
    with location.open_output("a/b%20=ü/two.parquet") as sink:
        sink.write(b"222")
    with pickle.loads(pickle.dumps(location)).open("a/b%20=ü/two.parquet") as source:
        assert source.read() == b"222"
    assert location.read("a/one.txt") == b"11"
    assert location.files(suffix="t") == [FileInfo("a/b%20=ü/two.parquet", 3), FileInfo("a/one.txt", 2)]
    assert location.names("a") == ["b%20=ü", "empty", "one.txt"]
    location.remove("a/one.txt")
    location.remove("a/one.txt")
    assert location.put_if_absent("a/once", b"1")
    assert not location.put_if_absent("a/once", b"2")
    location.link("a/once", "a/twice")
    assert location.read("a/twice") == b"1"
    location.remove("a")
    assert not location.exists("a")
    there = reached.files().get_file_info(fs.FileSelector(bucket, recursive=True))
    assert not [info for info in there if info.type == fs.FileType.File]


@pytest.mark.slow
def test_concurrent_commits_conflict(server: S3) -> None:
    """Credentials in options need no environment."""
    location = StoragePath.at(f"s3://{server.bucket()}/lake/traffic", server.options)
    one, other = LakeTable(location, TRAFFIC), LakeTable(location, TRAFFIC)
    one.commit(Transaction(app_versions={"turn": 1}))
    with pytest.raises(LakeError, match="another writer set 'turn' at the same time"):
        other.commit(Transaction(app_versions={"turn": 1}))
    assert other.update().app_version("turn") == 1


@pytest.mark.slow
def test_lake_exists_once_it_has_tables(reached: S3) -> None:
    lake = Lake(f"s3://{reached.bucket()}/lake")
    assert not lake.exists()
    assert lake.ingested() == {}
    assert not lake.exists()
    lake.create()
    assert lake.exists()


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_missing_bucket_is_named(reached: S3, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LakeError) as raised:
        Lake("s3://nowhere/lake").ingested()
    assert str(raised.value) == f"s3://nowhere/lake: there is no bucket 'nowhere' at {reached.endpoint}"
    assert main(["sql", "select 1", "--lake", "s3://nowhere/lake"]) == 2
    assert f"{raised.value}\n" in capsys.readouterr().err
    assert main(["sql", "select 1", "--lake", f"s3://{reached.bucket()}/lake"]) == 2
    assert "there is no lake here" in capsys.readouterr().err


@pytest.mark.slow
def test_rejected_credentials_are_named() -> None:
    with serving({"INITIAL_NO_AUTH_ACTION_COUNT": "0"}) as strict:
        options = {"endpoint": strict.endpoint, "access_key_id": "nobody", "secret_access_key": "nothing"}
        with pytest.raises(LakeError, match=f"^s3://b/lake: {strict.endpoint} refuses the credentials"):
            Lake("s3://b/lake", options).ingested()


@pytest.mark.slow
def test_unreachable_endpoint_is_named() -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(LakeError, match=f"^s3://b/lake: {endpoint} cannot be reached"):
        Lake("s3://b/lake", S3(endpoint).options).ingested()
