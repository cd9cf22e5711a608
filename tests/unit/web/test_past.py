"""The past of keys, from a storage with a journal."""

from __future__ import annotations

import csv
import io
import json
import logging
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.unit.web.lakes import Tables
from tests.unit.web.served import Reply, opened, send_request, serving
from tests.wait import until
from zenspark.lake.lake import Lake
from zenspark.storage.manager import StorageManager
from zenspark.storage.settings import StorageSettings
from zenspark.types.query import Query
from zenspark.types.timestamps import Timestamp
from zenspark.web import past
from zenspark.web.past import make_series, numbers_in, thin, time_bound
from zenspark.web.server import HttpServer

TIME_FORMS = "a time such as 2024-07-01T13:51:12Z or now(-5m)"
START = datetime(2024, 7, 1, 12, 0, 0, tzinfo=UTC)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    journal: Path = tmp_path_factory.mktemp("past") / "journal"
    storage = StorageSettings(name="all", key_exprs=("demo/**",), journal=journal)
    with opened() as session, StorageManager(session, [storage]), serving(session) as made:
        for second in range(10):
            stamp = Timestamp(at(second), b"\x01")
            value = json.dumps({"x": second, "pose": {"y": second / 2}, "name": "a", "on": True})
            session.put("demo/json", value, encoding="application/json", timestamp=stamp)
            session.put("demo/number", struct.pack("<d", second / 4), encoding="zenoh/serialized", timestamp=stamp)
        session.put("demo/bytes", b"\xff\x00", timestamp=Timestamp(at(0), b"\x01"))
        session.delete("demo/bytes", timestamp=Timestamp(at(5), b"\x01"))
        assert until(lambda: len(send_request(made, "/_api/past?key=demo/**").json["samples"]) == 22)
        yield made


def past_of(server: HttpServer, what: str = "", **parameters: object) -> Reply:
    given = {name.rstrip("_"): value for name, value in parameters.items()}
    texts = {name: value.isoformat() if isinstance(value, datetime) else str(value) for name, value in given.items()}
    return send_request(
        server, f"/_api/{what or 'past'}?" + "&".join(f"{name}={quote(text)}" for name, text in texts.items())
    )


def test_past_range_is_returned_newest_last_and_limited(server: HttpServer) -> None:
    found = past_of(server, key="demo/json", from_=at(2), to=at(5)).json
    assert [sample["value"]["json"]["x"] for sample in found["samples"]] == [2, 3, 4, 5]
    assert (found["truncated"], found["samples"][0]["timestamp"]) == (False, "2024-07-01T12:00:02Z")
    cut = past_of(server, key="demo/json", limit=3).json
    assert ([sample["value"]["json"]["x"] for sample in cut["samples"]], cut["truncated"]) == ([7, 8, 9], True)


@pytest.mark.slow
def test_past_at_returns_the_newest_value_up_to_a_time(server: HttpServer) -> None:
    found = past_of(server, "past/at", key="demo/json", time=at(4.5)).json
    assert (found["value"]["json"]["x"], found["kind"]) == (4, "PUT")
    milliseconds = int(at(1_000_000).timestamp() * 1000)  # days later: the last one is still the newest
    assert past_of(server, "past/at", key="demo/json", time=milliseconds).json["value"]["json"]["x"] == 9
    assert past_of(server, "past/at", key="demo/bytes", time=at(6)).json["kind"] == "DELETE"
    missing = past_of(server, "past/at", key="demo/json", time=at(-1))
    assert (missing.status, missing.error) == (404, "no storage has a value of 'demo/json' up to that time")


@pytest.mark.slow
def test_past_accepts_the_times_of_time_queries(server: HttpServer) -> None:
    for time in ("now()", "now(-2m)", "now(-1h)", "2024-07-01T14:00:09+02:00", "2024-07-01T12:00:09.000000001Z"):
        found = past_of(server, "past/at", key="demo/json", time=time)
        assert (found.status, found.json["value"]["json"]["x"]) == (200, 9), time
    assert past_of(server, key="demo/json", from_="now(-1m)").json["samples"] == []
    assert len(past_of(server, key="demo/json", to="now(-1m)").json["samples"]) == 10


def test_samples_name_their_publisher_and_the_node_that_stamped_them(server: HttpServer) -> None:
    newest = past_of(server, key="demo/json", limit=1).json["samples"][0]
    assert (newest["source"], newest["timestamp_id"]) == (None, "1")


LATEST = pa.table({"key": ["b/second", "a/first", "a/it's", "secret/key"], "kind": ["PUT"] * 4})
DENY_SECRET = {
    "enabled": True,
    "default_permission": "allow",
    "rules": [
        {"id": "secret", "permission": "deny", "flows": ["egress"], "messages": ["reply"], "key_exprs": ["secret/**"]}
    ],
    "subjects": [{"id": "http", "link_protocols": ["http"]}],
    "policies": [{"rules": ["secret"], "subjects": ["http"]}],
}


@pytest.mark.slow
def test_recorded_keys_are_listed_searched_and_limited() -> None:
    with opened() as session, serving(session, sql=Tables(latest=LATEST)) as server:
        everything = ["a/first", "a/it's", "b/second", "secret/key"]
        assert past_of(server, "past/keys").json == {"keys": everything, "truncated": False}
        assert past_of(server, "past/keys", search="it's").json["keys"] == ["a/it's"]
        assert past_of(server, "past/keys", search="FIRST").json["keys"] == ["a/first"]
        assert past_of(server, "past/keys", limit=2).json == {"keys": everything[:2], "truncated": True}
    with opened() as session, serving(session, sql=Tables()) as server:
        assert past_of(server, "past/keys").json == {"keys": [], "truncated": False}  # nothing was ingested yet
    with opened() as session, serving(session) as server:
        assert past_of(server, "past/keys").json == {"keys": [], "truncated": False}


def test_recorded_keys_that_cannot_be_listed_are_logged_with_the_lake(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "zenspark.web")
    tables = Tables()
    tables.lake = Lake("/no/lake")  # type: ignore[attr-defined]  # as the engine of a lake has it
    with opened() as session, serving(session, sql=tables) as server:
        past_of(server, "past/keys")
    assert any(line.startswith("recorded keys of lake /no/lake cannot be listed: ") for line in caplog.messages)


def test_recorded_keys_obey_access_control() -> None:
    with opened(access_control=DENY_SECRET) as session, serving(session, sql=Tables(latest=LATEST)) as server:
        assert past_of(server, "past/keys").json["keys"] == ["a/first", "a/it's", "b/second"]


def test_past_series_has_the_numbers_of_a_json_path(server: HttpServer) -> None:
    found = past_of(server, "past/series", key="demo/json").json
    assert (found["paths"], found["path"], found["v"]) == (["x", "pose.y"], "x", list(range(10)))
    assert (found["samples"], found["truncated"]) == (10, False)
    assert found["t_ms"][1] - found["t_ms"][0] == 1000
    assert past_of(server, "past/series", key="demo/json", path="pose.y").json["v"][3] == 1.5
    plain = past_of(server, "past/series", key="demo/number").json
    assert (plain["paths"], plain["path"], plain["v"][:3]) == ([""], "", [0.0, 0.25, 0.5])
    assert past_of(server, "past/series", key="demo/json", path="nope").json["v"] == []


def test_past_is_exported_as_csv_json_and_parquet(server: HttpServer) -> None:
    reply = past_of(server, "export", key="demo/**", format="csv")
    assert reply.headers["content-disposition"].endswith('.csv"')
    rows = list(csv.DictReader(io.StringIO(reply.body.decode())))
    assert [json.loads(row["value"])["x"] for row in rows if row["key"] == "demo/json"] == list(range(10))
    assert [row["base64"] for row in rows if row["key"] == "demo/bytes"] == ["/wA=", ""]
    assert {row["kind"] for row in rows} == {"PUT", "DELETE"}
    documents = past_of(server, "export", key="demo/json", format="json").json
    assert documents[2]["value"]["x"] == 2
    parquet = past_of(server, "export", key="demo/number", format="parquet").body
    table = pyarrow.parquet.read_table(pa.BufferReader(parquet))
    assert table["payload"].to_pylist()[1] == struct.pack("<d", 0.25)
    assert table["timestamp"].to_pylist()[1] == at(1)
    empty = past_of(server, "export", key="demo/nothing", format="parquet").body
    assert pyarrow.parquet.read_table(pa.BufferReader(empty)).num_rows == 0


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("past", "expected the parameter key"),
        ("past?key=a//b", "key expression 'a//b', position 2: expected a chunk that is not empty"),
        ("past?key=a&from=yesterday", f"expected from as {TIME_FORMS}, found 'yesterday'"),
        ("past?key=a&from=now(soon)", f"expected from as {TIME_FORMS}, found 'now(soon)'"),
        ("past?key=a&from=now(-1e300d)", f"expected from as {TIME_FORMS}, found 'now(-1e300d)'"),
        ("past?key=a&limit=many", "expected limit to be a positive number, found 'many'"),
        ("past/at?key=a", "expected the parameter time"),
        ("export?key=a&format=xls", "expected format to be one of csv, json, parquet"),
    ],
)
def test_invalid_requests_are_status_400(path: str, message: str, server: HttpServer) -> None:
    reply = send_request(server, f"/_api/{path}")
    assert (reply.status, reply.error) == (400, message)


def test_storages_are_queried_with_the_limit_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "MAX_SERIES_SAMPLES", 3)
    queried: list[str] = []

    def reply(query: Query) -> None:
        queried.append(str(query.parameters))
        for second in range(3):
            query.reply("demo/n", str(second), encoding="text/plain", timestamp=Timestamp(at(second), b"\x01"))

    with opened() as session, serving(session) as server:
        queryable = session.declare_queryable("demo/n", reply)
        newest = past_of(server, key="demo/n", limit=2).json
        assert ([sample["value"]["text"] for sample in newest["samples"]], newest["truncated"]) == (["1", "2"], True)
        assert past_of(server, "past/at", key="demo/n", time=at(5)).json["value"]["text"] == "2"
        assert past_of(server, "past/series", key="demo/n").json["truncated"]
        assert past_of(server, "export", key="demo/n", format="csv").status == 200
        assert [text.partition("_limit=")[2] for text in queried] == ["3", "1", "3", ""]
        queryable.undeclare()


def test_error_reply_of_a_storage_is_status_502(server: HttpServer) -> None:
    with opened() as session, serving(session) as other:
        queryable = session.declare_queryable("bad", lambda query: query.reply_err("disk on fire"))
        reply = send_request(other, "/_api/past?key=bad")
        assert (reply.status, reply.error) == (502, "a storage replied with an error: disk on fire")
        queryable.undeclare()


def test_range_with_too_many_samples_is_truncated_or_status_413(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "MAX_SERIES_SAMPLES", 5)
    newest = past_of(server, "past/series", key="demo/json").json
    assert (newest["v"], newest["truncated"]) == ([5, 6, 7, 8, 9], True)
    monkeypatch.setattr(past, "MAX_EXPORT_SAMPLES", 5)
    reply = past_of(server, "export", key="demo/json", format="csv")
    assert (reply.status, reply.error) == (413, "the range has more than 5 samples or 256 MiB: choose a shorter one")


def test_numbers_in_a_value_are_listed_by_path() -> None:
    value = {"a": [1, {"b": 2.5}], "c": "x", "d": True, "e": None, "f.g": 3}
    assert dict(numbers_in(value)) == {"a[0]": 1, "a[1].b": 2.5, "f.g": 3}
    assert dict(numbers_in(7)) == {"": 7}
    deep: object = 1
    for _ in range(20):
        deep = [deep]
    assert dict(numbers_in(deep)) == {}


def test_thinning_keeps_extremes() -> None:
    points = [(float(t), float(t % 7)) for t in range(1000)]
    kept = thin(points, 100)
    assert len(kept) <= 100
    assert {value for _, value in kept} >= {0.0, 6.0}
    assert [t for t, _ in kept] == sorted(t for t, _ in kept)
    assert thin(points, 1000) == points


def test_bounds_and_empty_series() -> None:
    assert time_bound(None) == ""
    assert time_bound(START) == "2024-07-01T12:00:00.000000Z"
    assert make_series([], None, 10)["paths"] == []
    assert past.MAX_SHOWN_SAMPLES >= past.DEFAULT_SHOWN_SAMPLES
