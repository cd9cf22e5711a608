import io
import json

import pytest
from rich.console import Console
from rich.table import Table

from tests.unit.api.sessions import connected
from tests.unit.cli.commands import network
from tests.wait import until
from zenspark.cli.ls import _owners, format_declarations, format_keys, format_nodes
from zenspark.cli.values import JsonObject


@pytest.mark.slow
def test_keys_that_are_published_and_stored(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        net.router.declare_queryable("stored/a", lambda query: query.reply("stored/a", "kept", encoding="text/plain"))
        publish = lambda: net.router.put("live/b", '{"x": 1}', encoding="application/json")  # noqa: E731 - one line
        with net.meanwhile(lambda: net.declared("subscriber"), publish):
            live, stored = net.json("ls", "--for", "2s")
        assert live == {
            "key": "live/b",
            "messages": 1,
            "bytes": 8,
            "stored": False,
            "encoding": "application/json",
            "value": {"x": 1},
        }
        assert (stored["key"], stored["messages"], stored["stored"], stored["value"]) == ("stored/a", 0, True, "kept")
        code, out, _ = net.run("ls", "keys", "-k", "stored/**", "--for", "100ms")
        head, row = out.splitlines()
        assert (code, head.split(), row.split()) == (
            0,
            ["key", "messages", "bytes", "stored", "value"],
            ["stored/a", "0", "0", "B", "yes", "kept"],
        )


def test_ls_nodes_lists_the_router_and_its_clients(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net, connected("client", net.router) as other:
        rows = net.json("ls", "nodes")
        assert [(row["whatami"], row["zid"]) for row in rows] == [
            ("client", str(other.zid())),
            ("router", str(net.router.zid())),
        ]
        assert rows[1]["version"].startswith("zenspark ")
        code, out, _ = net.run("ls", "nodes")
        assert code == 0
        assert "router" in out


def test_ls_declarations_lists_subscribers_of_a_client(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net, connected("client", net.router) as other:
        subscriber = other.declare_subscriber("demo/a", lambda _: None)
        until(lambda: net.declared("subscriber"))
        rows = net.json("ls", "declarations", "-k", "demo/**")
        assert {"kind": "subscriber", "key": "demo/a", "whatami": "client", "zid": str(other.zid())} in rows
        code, out, _ = net.run("ls", "declarations")
        assert code == 0
        assert "demo/a" in out
        subscriber.undeclare()


def test_ls_without_keys_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        assert net.run("ls", "--for", "10ms") == (1, "", "no keys found within 0.01 s\n")


def test_keys_and_ids_are_whole_on_narrow_screens() -> None:
    def lines(table: Table) -> list[str]:
        shown = io.StringIO()
        Console(file=shown, width=80).print(table)
        return [line.rstrip() for line in shown.getvalue().splitlines()]

    row: JsonObject = {"messages": 37, "bytes": 188_000, "stored": True}
    camera = row | {"key": "fleet/ant/camera", "encoding": "image/jpeg", "base64": "/9j/4AAQ" * 20}
    battery = row | {"key": "fleet/ant/battery", "encoding": "zenoh/serialized;float32", "base64": "ZmbGQg=="}
    text = row | {"key": "fleet/ant/note", "encoding": "text/plain", "value": "word " * 30}
    _, *shown = lines(format_keys([camera, battery, text]).table())
    assert [line.split()[0] for line in shown] == ["fleet/ant/camera", "fleet/ant/battery", "fleet/ant/note"]
    assert "<120 bytes> ff d8 ff" in shown[0]
    assert shown[1].endswith("99.2")
    assert shown[2].endswith("…")
    zid = "b293e1dc3c778b861c8d72e892539a78"
    node: JsonObject = {
        "zid": zid,
        "whatami": "router",
        "version": "zenspark 0.1.0 (compiled)",
        "locators": ["tcp/127.0.0.1:7447"],
    }
    assert zid in lines(format_nodes([node]).table())[1]
    declared: JsonObject = {"kind": "subscriber", "key": "a/" * 40 + "a", "whatami": "router", "zid": zid}
    assert zid in lines(format_declarations([declared]).table())[1]


@pytest.mark.slow
def test_a_pipe_gets_the_full_width(capsys: pytest.CaptureFixture[str]) -> None:
    key, value = "fleet/" + "long/" * 20 + "key", "word " * 40 + "end"
    with network(capsys) as net:
        net.router.declare_queryable(key, lambda query: query.reply(key, value, encoding="text/plain"))
        code, out, _ = net.run("ls", "--for", "100ms")
        head, row = out.splitlines()
        assert code == 0
        assert row.startswith(f"{key} ")
        assert row.endswith(f"yes     {value}")
        assert head.index("value") == row.index(value)
        code, out, _ = net.run("ls", "declarations", "-k", "fleet/**", "--for", "100ms")
        assert {line.split()[1] for line in out.splitlines()[1:]} == {key}


def test_owners_of_a_declaration() -> None:
    document = json.loads('{"routers": ["a1"], "peers": [], "clients": ["b1", "b2"], "other": 1}')
    assert list(_owners(document)) == [("router", "a1"), ("client", "b1"), ("client", "b2")]
