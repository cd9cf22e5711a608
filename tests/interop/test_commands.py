"""The commands of the network beside real eclipse-zenoh nodes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

from tests.interop.reference import eventually
from tests.ports import free_port
from tests.tmux import zenspark_on_terminal
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.cli import main
from zenspark.net.links.interfaces import find_interface

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

Session: TypeAlias = Any
"""Of eclipse-zenoh."""


@contextmanager
def reference_node(**settings: object) -> Iterator[tuple[Session, str]]:
    """A router of eclipse-zenoh in this process, and where it listens."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    config = zenoh.Config()
    known = {
        "mode": "router",
        "listen/endpoints": [endpoint],
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        "adminspace/enabled": True,
        **settings,
    }
    for key, value in known.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config) as session:
        yield session, endpoint


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


class Runner:
    """Runs commands as clients of a node."""

    def __init__(self, endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._endpoint = endpoint
        self._capsys = capsys

    def __call__(self, command: str, *arguments: str) -> tuple[int, str, str]:
        code = main([*command.split(), *arguments, "-e", self._endpoint, "--no-multicast-scouting"])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def json(self, command: str, *arguments: str) -> list[Any]:
        code, out, err = self(command, *arguments, "--json")
        assert (code, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join(TIMEOUT_SECONDS)
    assert not thread.is_alive()


def test_put_and_delete_commands_reach_eclipse_zenoh_subscribers(capsys: pytest.CaptureFixture[str]) -> None:
    with reference_node() as (node, endpoint):
        run = Runner(endpoint, capsys)
        found: list[Any] = []
        subscriber = node.declare_subscriber("demo/**", found.append)
        assert run("put", "demo/a", '{"x": 1}', "--encoding", "application/json", "--attachment", "by hand")[0] == 0
        assert run("delete", "demo/a")[0] == 0
        until(lambda: len(found) == 2)
        put, delete = found
        assert (str(put.key_expr), put.payload.to_string(), str(put.encoding)) == (
            "demo/a",
            '{"x": 1}',
            "application/json",
        )
        assert put.attachment.to_string() == "by hand"
        assert delete.kind == zenoh.SampleKind.DELETE
        subscriber.undeclare()


def test_sub_command_prints_eclipse_zenoh_publications(capsys: pytest.CaptureFixture[str]) -> None:
    with reference_node() as (node, endpoint):
        run = Runner(endpoint, capsys)
        publisher = node.declare_publisher("demo/a", encoding=zenoh.Encoding.APPLICATION_JSON)

        def publish() -> None:
            assert eventually(lambda: publisher.matching_status.matching)
            publisher.put('{"x": 1}')
            publisher.put(b"\xff")

        with meanwhile(publish):
            one, two = run.json("sub", "demo/**", "-n", "2")
        assert (one["key"], one["value"], one["encoding"]) == ("demo/a", {"x": 1}, "application/json")
        assert two["base64"] == "/w=="


def test_get_command_queries_eclipse_zenoh_queryables(capsys: pytest.CaptureFixture[str]) -> None:
    with reference_node() as (node, endpoint):
        run = Runner(endpoint, capsys)

        def on_query(query: Any) -> None:  # noqa: ANN401 - of eclipse-zenoh
            with query:
                if str(query.parameters):
                    query.reply(query.key_expr, f"queried {query.parameters} {query.payload.to_string()}")
                else:
                    query.reply_err("parameters are missing")

        queryable = node.declare_queryable("demo/q", on_query)
        (reply,) = run.json("get", "demo/q?x=1", "--value", "sent", "--target", "all")
        assert (reply["key"], reply["value"]) == ("demo/q", "queried x=1 sent")
        (past,) = run.json("get", "demo/q", "--time", "[now(-1h)..]", "--value", "old")
        assert past["value"] == "queried _time=[now(-1h)..] old"
        assert run("get", "demo/q") == (1, "", "error reply: parameters are missing\n")
        assert run("get", "demo/none", "--timeout", "2s")[0] == 1
        queryable.undeclare()


def test_queryable_command_replies_to_eclipse_zenoh(capsys: pytest.CaptureFixture[str]) -> None:
    with reference_node() as (node, endpoint):
        run, found = Runner(endpoint, capsys), list[str]()

        def run_get() -> None:
            querier = node.declare_querier("demo/version", timeout=TIMEOUT_SECONDS)
            assert eventually(lambda: querier.matching_status.matching)
            found.extend(reply.ok.payload.to_string() for reply in querier.get(parameters="x=1"))

        with meanwhile(run_get):
            code, out, _ = run("queryable", "demo/*", "--command", 'echo "$ZENOH_KEY $ZENOH_PARAMETERS"', "-n", "1")
        assert (code, found) == (0, ["demo/version x=1"])
        assert "demo/version?x=1" in out


def test_liveliness_commands_exchange_tokens_with_eclipse_zenoh(capsys: pytest.CaptureFixture[str]) -> None:
    with reference_node() as (node, endpoint):
        run = Runner(endpoint, capsys)
        token = node.liveliness().declare_token("group/theirs")
        assert run.json("liveliness get", "group/*") == [{"key": "group/theirs"}]
        assert run.json("liveliness sub", "group/*", "-n", "1") == [{"key": "group/theirs", "alive": True}]
        seen: list[str] = []
        watcher = node.liveliness().declare_subscriber("group/ours", lambda sample: seen.append(str(sample.kind)))
        assert run("liveliness token", "group/ours", "--for", "50ms")[0] == 0
        until(lambda: len(seen) == 2)
        watcher.undeclare()
        token.undeclare()


def test_scout_command_finds_eclipse_zenoh_router(capsys: pytest.CaptureFixture[str]) -> None:
    group = f"224.0.0.224:{free_port(socket.SOCK_DGRAM)}"
    interface = find_interface("127.0.0.1").name
    multicast = {"enabled": True, "address": group, "interface": interface, "listen": True}
    with reference_node(**{"scouting/multicast/enabled": True, "scouting/multicast": multicast}) as (node, endpoint):
        where = [f'scouting/multicast/address:"{group}"', f'scouting/multicast/interface:"{interface}"']
        assert main(["scout", "-n", "1", "--timeout", "30s", "--json", "--cfg", where[0], "--cfg", where[1]]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["zid"], found["whatami"], found["locators"]) == (str(node.info.zid()), "router", [endpoint])


def test_ls_and_info_commands_list_eclipse_zenoh_router(capsys: pytest.CaptureFixture[str]) -> None:
    with reference_node() as (node, endpoint):
        run = Runner(endpoint, capsys)
        subscriber = node.declare_subscriber("demo/**", lambda _: None)
        queryable = node.declare_queryable("stored/a", lambda query: query.reply("stored/a", "kept"))
        zid = str(node.info.zid())
        (row,) = [row for row in run.json("ls", "nodes") if row["zid"] == zid]
        assert (row["whatami"], row["locators"]) == ("router", [endpoint])
        assert row["version"]
        (stored,) = run.json("ls", "keys", "-k", "stored/**", "--for", "500ms")
        assert (stored["key"], stored["value"], stored["stored"]) == ("stored/a", "kept", True)
        kinds = {(row["kind"], row["key"]) for row in run.json("ls", "declarations")}
        assert {("subscriber", "demo/**"), ("queryable", "stored/a")} <= kinds
        (info,) = run.json("info")
        assert [each["zid"] for each in info["neighbours"]] == [zid]
        queryable.undeclare()
        subscriber.undeclare()


def test_ping_command_measures_router_and_published_echo(capsys: pytest.CaptureFixture[str]) -> None:
    with reference_node() as (node, endpoint):
        run = Runner(endpoint, capsys)
        (routers,) = run.json("ping", "-n", "2", "--timeout", "30s")
        assert routers["received"] == 2
        echo = node.declare_subscriber("test/ping", lambda sample: node.put("test/pong", sample.payload))
        (published,) = run.json("ping", "--publish", "-n", "2", "--timeout", "30s")
        assert published["received"] == 2
        echo.undeclare()


def test_perf_in_both_directions(capsys: pytest.CaptureFixture[str]) -> None:
    with reference_node() as (node, endpoint):
        run, count = Runner(endpoint, capsys), list[int]()
        subscriber = node.declare_subscriber("test/thr", lambda sample: count.append(len(sample.payload)))
        total = run.json("perf pub", "--for", "50ms")[-1]
        until(lambda: len(count) == total["messages"])
        subscriber.undeclare()
        publisher = node.declare_publisher("test/thr", congestion_control=zenoh.CongestionControl.BLOCK)

        def publish() -> None:
            assert eventually(lambda: publisher.matching_status.matching)
            for _ in range(100):
                publisher.put(bytes(8))

        with meanwhile(publish):
            received = run.json("perf sub", "--for", "3s")[-1]
        assert (received["messages"], received["bytes"]) == (100, 800)


def test_top_command_shows_eclipse_zenoh_keys() -> None:
    with reference_node() as (node, endpoint):
        is_over = threading.Event()

        def publish() -> None:
            while not is_over.wait(0.02):
                node.put("fleet/a/pose", '{"x": 1}', encoding=zenoh.Encoding.APPLICATION_JSON)

        with meanwhile(publish), zenspark_on_terminal("top", "-e", endpoint, "--no-multicast-scouting") as terminal:
            terminal.wait_for("fleet/a/pose")
            assert '{"x":1}' in terminal.screen
            terminal.type("q")
            terminal.wait_for("EXIT CODE 0")
            is_over.set()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "zenspark", *arguments, "--no-multicast-scouting"]


def test_a_pipe_that_closes_and_sigterm_end_sub() -> None:
    with reference_node() as (node, endpoint):
        is_over = threading.Event()

        def publish() -> None:
            while not is_over.wait(0.01):
                node.put("demo/a", "hello")

        with meanwhile(publish):
            try:
                shown = command("sub", "demo/**", "-e", endpoint)
                with subprocess.Popen(shown, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as piped:
                    assert piped.stdout is not None
                    assert b"demo/a hello" in piped.stdout.readline()
                    piped.stdout.close()
                    assert piped.wait(TIMEOUT_SECONDS * 2) == 141
                    assert piped.stderr is not None
                    assert piped.stderr.read() == b""
                for number in (signal.SIGTERM, signal.SIGINT):
                    with subprocess.Popen(shown, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ended:
                        assert ended.stdout is not None
                        assert b"demo/a hello" in ended.stdout.readline()
                        ended.send_signal(number)
                        _, err = ended.communicate(timeout=TIMEOUT_SECONDS * 2)
                        assert (ended.returncode, err) == (0, b"")
            finally:
                is_over.set()


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["get", "demo/silent", "--timeout", "1h", "-v"], 130, "session with router"),
        (["queryable", "demo/q", "hello", "-v"], 0, "session with router"),
        (["liveliness", "token", "group/me"], 0, "token group/me is declared"),
        (["ping", "--echo"], 0, "echoing"),
        (["perf", "sub", "-v"], 0, "session with router"),
        (["put", "demo/a", "x", "--period", "10ms", "-v"], 0, "session with router"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_commands_end_without_a_traceback(arguments: list[str], code: int, shown: str, number: signal.Signals) -> None:
    with reference_node() as (node, endpoint):
        kept: list[Any] = []  # a query ends when it is dropped
        queryable = node.declare_queryable("demo/silent", kept.append)
        with subprocess.Popen(
            command(*arguments, "-e", endpoint), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            lines = [next(process.stdout)]
            while shown not in lines[-1]:
                lines.append(next(process.stdout))
            if arguments[0] == "get":
                until(lambda: kept)
            process.send_signal(number)
            rest, _ = process.communicate(timeout=2 * TIMEOUT_SECONDS)
            assert process.returncode == code
            assert "Traceback" not in "".join(lines) + rest
        kept.clear()
        queryable.undeclare()


def test_require_connection_exits_with_4_when_refused() -> None:
    nowhere = f"tcp/127.0.0.1:{free_port()}"
    required = ["--require-connection", "--connect-timeout", "50ms", "-e", nowhere]
    for mode in ("peer", "client"):
        done = subprocess.run(
            command("sub", "-m", mode, "--for", "1s", *required), capture_output=True, text=True, check=False
        )
        assert done.returncode == 4
        assert nowhere in done.stderr
        assert "Connection refused" in done.stderr
