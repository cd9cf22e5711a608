import json
import re

import pytest

import zenspark.api.open
from tests.ports import free_port
from tests.tmux import zenspark_on_terminal
from tests.unit.api.sessions import address, config, listening
from tests.unit.cli.commands import Network, network
from zenspark.cli import main


def publish(net: Network) -> None:
    net.router.put("demo/a", '{"x": 1}', encoding="application/json", attachment="more")
    net.router.put("demo/b", b"\xff\x00")
    net.router.delete("demo/a")


def printed(net: Network, *arguments: str) -> tuple[int, str, str]:
    with net.meanwhile(lambda: net.declared("subscriber"), lambda: publish(net)):
        return net.run("sub", *arguments)


def test_samples_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        code, out, err = printed(net, "demo/**", "-n", "3")
    assert (code, err) == (0, "")
    lines = [re.sub(r"^\d\d:\d\d:\d\d\.\d{3} ", "", line) for line in out.splitlines()]
    assert lines == ['demo/a {"x":1}', "demo/b <2 bytes> ff 00", "demo/a DELETE"]


def test_scripts_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        _, out, _ = printed(net, "-k", "demo/**", "-n", "3", "--json")
    first, second, third = map(json.loads, out.splitlines())
    assert (first["key"], first["kind"], first["value"], first["attachment"]) == (
        "demo/a",
        "PUT",
        {"x": 1},
        {"value": "more"},
    )
    assert (second["base64"], second["encoding"]) == ("/wA=", "zenoh/bytes")
    assert (third["key"], third["kind"], "value" in third) == ("demo/a", "DELETE", False)
    assert all(each["received"] for each in (first, second, third))


def test_hex_flag_prints_the_payload_in_hexadecimal(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        _, out, _ = printed(net, "demo/b", "-n", "1", "--hex")
    assert out.endswith("demo/b ff00\n")


def test_raw_flag_writes_the_payload_bytes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with listening("router") as router:
        net = Network(router, capfdbinary)  # type: ignore[arg-type]  # only its methods without output are used
        with net.meanwhile(lambda: net.declared("subscriber"), lambda: publish(net)):
            assert main(["sub", "demo/b", "-n", "1", "--raw", "-e", address(router), "--no-multicast-scouting"]) == 0
    assert capfdbinary.readouterr().out == b"\xff\x00\n"


def test_sub_ends_after_the_for_duration(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        assert net.run("sub", "nothing", "--for", "10ms") == (0, "", "")
        assert net.run("sub", "nothing", "--for", "10ms", "-n", "1") == (1, "", "")


def test_the_wildcard_of_mqtt_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        _, _, err = net.run("sub", "demo/+/a", "--for", "1ms")
    assert err == "'demo/+/a': + is no wildcard in Zenoh; did you mean 'demo/*/a'?\n"


@pytest.mark.slow
def test_log_lines_do_not_run_into_the_status_line() -> None:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    command = ["sub", "demo/**", "-m", "peer", "-l", "tcp/127.0.0.1:0", "-e", endpoint, "--no-multicast-scouting"]
    with zenspark_on_terminal(*command, width=200) as terminal:
        terminal.wait_for("connected 0 of 1")
        terminal.wait_for(f"not connected to {endpoint}")
        with zenspark.api.open.open(config("router", [endpoint])) as router:
            terminal.wait_for("connected 1 of 1")
            router.put("demo/a", "hello")
            terminal.wait_for("demo/a hello")
        terminal.wait_for(f"connection to {endpoint} lost")
        terminal.wait_for("connected 0 of 1")
        terminal.type("C-c")
        terminal.wait_for("EXIT CODE 0")
        shown = [line for line in terminal.lines if line]
    assert [re.sub(r"^[\d:.]+ ", "", line) for line in shown] == [
        f"WARNING zenspark.cli: not connected to {endpoint}: cannot connect: Connection refused; retrying",
        f"WARNING zenspark.cli: connection to {endpoint} restored",
        "demo/a hello",
        f"WARNING zenspark.cli: connection to {endpoint} lost: closed by the peer; retrying",
        "EXIT CODE 0",
    ]
