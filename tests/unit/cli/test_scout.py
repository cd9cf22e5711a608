import json
import socket

import pytest

import zenspark.api.open
from tests.ports import free_port
from tests.unit.api.sessions import config
from zenspark.cli import main
from zenspark.net.links.interfaces import find_interface

LOOPBACK = find_interface("127.0.0.1").name


def run(port: int, *arguments: str) -> int:
    where = [
        "--cfg",
        f'scouting/multicast/address:"224.0.0.224:{port}"',
        "--cfg",
        f'scouting/multicast/interface:"{LOOPBACK}"',
    ]
    return main(["scout", *arguments, *where])


@pytest.mark.slow
def test_nodes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port(socket.SOCK_DGRAM)
    multicast = {"enabled": True, "address": f"224.0.0.224:{port}", "interface": LOOPBACK, "listen": True}
    settings = config("router", ["tcp/127.0.0.1:0"], scouting__multicast=multicast)
    with zenspark.api.open.open(settings) as router:
        assert run(port, "-n", "1", "--timeout", "30s", "--what", "router", "--json") == 0
        (found,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert (found["zid"], found["whatami"]) == (str(router.zid()), "router")
        assert run(port, "-n", "1", "--timeout", "30s") == 0
        assert capsys.readouterr().out.startswith(f"router {router.zid()} tcp/")


def test_no_node_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(free_port(socket.SOCK_DGRAM), "--timeout", "50ms") == 1
    assert capsys.readouterr().err == "no node replied; multicast may be blocked, or scouting disabled there\n"
