"""HTTP on one side of `zenspark router`, clients of eclipse-zenoh on the other."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.interop.reference import eventually
from tests.wait import TIMEOUT_SECONDS

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

Session: TypeAlias = Any
"""Of eclipse-zenoh."""


@contextlib.contextmanager
def router(*arguments: str) -> Iterator[tuple[Session, str]]:
    """A client of eclipse-zenoh at a router in a process of its own, and the URL of that router."""
    command = [
        sys.executable,
        "-m",
        "zenspark",
        "router",
        "--no-multicast-scouting",
        "-l",
        "tcp/127.0.0.1:0",
        "-i",
        "a1",
    ]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        endpoint, url = [process.stdout.readline().split()[-1] for _ in range(4)][2:]
        config = zenoh.Config()
        settings = {"mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
        for key, value in {**settings, "transport/shared_memory/enabled": False}.items():
            config.insert_json5(key, json.dumps(value))
        with zenoh.open(config) as session:
            yield session, url
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def served() -> Iterator[tuple[Session, str]]:
    with router("--rest-http-port", "127.0.0.1:0") as found:
        yield found


def http_request(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Any:  # noqa: ANN401 - a response
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return urllib.request.urlopen(urllib.request.Request(url, body, named, method=method), timeout=TIMEOUT_SECONDS)


def get_json(url: str) -> list[dict[str, object]]:
    with http_request(url) as response:
        assert response.headers["Content-Type"] == "application/json"
        found: list[dict[str, object]] = json.load(response)
        return found


def test_http_put_and_delete_reach_subscribers(served: tuple[Session, str]) -> None:
    session, url = served
    received: queue.Queue[tuple[str, str, str, bytes]] = queue.Queue()
    subscriber = session.declare_subscriber(
        "demo/**",
        lambda sample: received.put(
            (
                str(sample.kind).rpartition(".")[2],
                str(sample.key_expr),
                str(sample.encoding),
                sample.payload.to_bytes(),
            )
        ),
    )
    assert eventually(lambda: get_json(f"{url}/@/local/router/subscriber/demo/**"))
    http_request(f"{url}/demo/a", "PUT", b'{"a":1}', Content_Type="application/json").close()
    assert received.get(timeout=TIMEOUT_SECONDS) == ("PUT", "demo/a", "application/json", b'{"a":1}')
    http_request(f"{url}/demo/a", "DELETE").close()
    assert received.get(timeout=TIMEOUT_SECONDS)[:2] == ("DELETE", "demo/a")
    subscriber.undeclare()


def test_http_get_and_post_query_a_queryable(served: tuple[Session, str]) -> None:
    session, url = served

    def on_query(query: Any) -> None:  # noqa: ANN401 - of eclipse-zenoh
        with query:
            text = query.payload.to_string() if query.payload else str(query.parameters)
            if text == "fail":
                query.reply_err("no", encoding="text/plain")
            else:
                query.reply("demo/a", text, encoding="text/plain", timestamp=stamp)

    stamp = session.new_timestamp()
    queryable = session.declare_queryable("demo/a", on_query)
    assert eventually(lambda: get_json(f"{url}/demo/**"))
    reply = {"key": "demo/a", "value": "x=1", "encoding": "text/plain", "timestamp": str(stamp)}
    assert get_json(f"{url}/demo/**?x=1") == [reply]
    assert get_json(f"{url}/demo/a?fail") == [
        {"key": "ERROR", "value": "no", "encoding": "text/plain", "timestamp": None}
    ]
    with http_request(f"{url}/demo/a", "POST", b"question", Content_Type="text/plain") as response:
        assert [each["value"] for each in json.load(response)] == ["question"]
    with http_request(f"{url}/demo/a?_raw=true") as response:
        assert (response.headers["Content-Type"], response.read()) == ("text/plain", b"_raw=true")
    queryable.undeclare()


def test_http_event_stream_receives_publications(served: tuple[Session, str]) -> None:
    session, url = served
    publisher = session.declare_publisher("demo/a", encoding="application/json")
    with http_request(f"{url}/demo/**", Accept="text/event-stream") as response:
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put('{"a": 1}')
        publisher.delete()
        for kind, value in (b"PUT", {"a": 1}), (b"DELETE", None):
            assert response.readline() == b"event: %s\n" % kind
            document = json.loads(response.readline().removeprefix(b"data: "))
            assert (document["key"], document["value"]) == ("demo/a", value)
            assert bool(document["timestamp"]) is (kind == b"PUT")  # a router stamps no DELETE
            assert response.readline() == b"\n"
    assert eventually(lambda: not publisher.matching_status.matching)


def test_rest_plugin_section_starts_the_http_server(tmp_path: Path) -> None:
    file = tmp_path / "router.json5"
    file.write_text('{plugins: {rest: {http_port: "127.0.0.1:0"}}}')
    with router("-c", str(file)) as (_, url):
        (described,) = get_json(f"{url}/@/local/router")
        assert described["key"] == "@/a1/router"
