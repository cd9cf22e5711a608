import pytest

from tests.ports import free_port
from tests.unit.cli.commands import network
from zenspark.cli import main


def test_info_prints_connections_and_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        (found,) = net.json("info", "-i", "a1")
        zid = str(net.router.zid())
        assert (found["zid"], found["locators"]) == ("a1", [])
        assert found["connections"] == [{"endpoints": [net.endpoint], "connected": True, "problem": None}]
        assert found["neighbours"] == [{"zid": zid, "whatami": "router", "address": net.endpoint}]
        code, out, _ = net.run("info", "-i", "a1")
        assert (code, out.splitlines()[1:]) == (
            0,
            [
                "  id         a1",
                f"  connects   {net.endpoint} (connected)",
                f"  neighbour  router {zid} at {net.endpoint}",
            ],
        )


@pytest.mark.slow
def test_info_without_neighbours_prints_the_connection_problem(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = f"tcp/127.0.0.1:{free_port()}"
    assert main(["info", "-m", "peer", "-e", nowhere, "-l", "tcp/127.0.0.1:0", "--no-multicast-scouting"]) == 0
    out = capsys.readouterr().out
    assert f"  connects   {nowhere} (not connected: cannot connect: Connection refused)\n" in out
    assert "  neighbour  none\n" in out
