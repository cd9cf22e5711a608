import json

import pytest

from tests.unit.cli.commands import network
from tests.wait import until
from zenspark.cli.perf import KEY, Report


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rates_each_second_and_in_all(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    report = Report(3.0, is_json=False, clock=clock)
    report.add(10, 80)
    assert report.tick()
    clock.now += 1
    report.add(1990, 15920)
    assert report.tick()
    clock.now += 2
    assert not report.tick()
    report.end()
    assert capsys.readouterr().out.splitlines() == [
        "2 k messages/s, 16 kB/s",
        "0 messages/s, 0 B/s",
        "2000 messages, 16 kB in 1.0 s: 2 k messages/s, 16 kB/s",
    ]


def test_perf_pub_counts_published_messages(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        count = 0

        def add(_: object) -> None:
            nonlocal count
            count += 1

        net.router.declare_subscriber(KEY, add)
        total = net.json("perf pub", "--for", "50ms", "--size", "16")[-1]
        assert total["bytes"] == 16 * total["messages"] > 0
        until(lambda: count == total["messages"])


@pytest.mark.slow
def test_perf_sub_counts_received_messages(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:

        def publish() -> None:
            for _ in range(10):
                net.router.put(KEY, bytes(8))

        with net.meanwhile(lambda: net.declared("subscriber"), publish):
            code, out, _ = net.run("perf sub", "--for", "2s", "--json")
        total = json.loads(out.splitlines()[-1])
        assert (code, total["total"], total["messages"], total["bytes"]) == (0, True, 10, 80)
