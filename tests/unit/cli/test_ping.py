import pytest

from tests.unit.cli.commands import network
from zenspark.cli import main
from zenspark.cli.ping import PING_KEY, PONG_KEY, format_summary, summarize


def test_routers_are_pinged(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        (result,) = net.json("ping", "-n", "3", "--period", "1ms", "--timeout", "30s")
        assert (result["sent"], result["received"]) == (3, 3)
        assert 0 < result["min_ms"] <= result["median_ms"] <= result["max_ms"]
        code, out, _ = net.run("ping", "-n", "2", "--period", "1ms", "--timeout", "30s")
        assert code == 0
        assert out.splitlines()[2].startswith("2 of 2 replies: min ")


def test_ping_publish_counts_echoed_publications(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        net.router.declare_subscriber(PING_KEY, lambda sample: net.router.put(PONG_KEY, sample.payload))
        (result,) = net.json("ping", "--publish", "-n", "2", "--period", "1ms", "--size", "1KiB", "--timeout", "30s")
        assert result["received"] == 2


def test_ping_without_reply_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        code, out, err = net.run("ping", "demo/nothing", "-n", "1", "--timeout", "1s")
    assert (code, out) == (1, "1: no reply\n0 of 1 replies\n")
    assert err.startswith("no reply: ")


def test_ping_with_both_selector_and_echo_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", "demo/a", "--echo"]) == 2
    assert "give one of SELECTOR, --publish and --echo" in capsys.readouterr().err


def test_ping_summary_has_minimum_median_and_maximum() -> None:
    found = summarize([0.002, 0.001, 0.004], 4)
    assert found == {"sent": 4, "received": 3, "min_ms": 1.0, "median_ms": 2.0, "max_ms": 4.0}
    assert format_summary(found) == "3 of 4 replies: min 1.000 ms, median 2.000 ms, max 4.000 ms"
    assert format_summary(summarize([], 1)) == "0 of 1 replies"
