import io
import sys

import pytest

from tests.unit.cli.commands import network
from tests.wait import until
from zenspark.api.session import Session
from zenspark.cli import main, put
from zenspark.types.sample import Sample


def received(router: Session) -> list[Sample]:
    samples: list[Sample] = []
    router.declare_subscriber("demo/**", samples.append)
    return samples


def test_a_value_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        samples = received(net.router)
        assert net.run("put", "demo/a", "hello", "--attachment", "more", "--priority", "background") == (0, "", "")
        until(lambda: samples)
        (sample,) = samples
        assert (str(sample.key_expr), sample.payload.to_string(), str(sample.encoding)) == (
            "demo/a",
            "hello",
            "text/plain",
        )
        assert (sample.attachment and sample.attachment.to_string(), sample.priority.name) == ("more", "BACKGROUND")


def test_a_value_is_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        samples = received(net.router)
        assert net.run("put", "demo/a", "hello", "-n", "3", "--period", "1ms")[0] == 0
        until(lambda: len(samples) == 3)


def test_lines_of_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\r\ntwo\nthree")))
    with network(capsys) as net:
        samples = received(net.router)
        assert net.run("put", "demo/a", "-", "--lines")[0] == 0
        until(lambda: len(samples) == 3)
        assert [sample.payload.to_string() for sample in samples] == ["one", "two", "three"]


def test_without_a_node_the_exit_code_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    listen = ["-l", "tcp/127.0.0.1:0", "--no-multicast-scouting"]
    assert main(["put", "demo/a", "hello", *listen]) == 1


@pytest.mark.parametrize("arguments", [["demo/a", "x", "--lines"], ["demo/a", "-", "--lines", "-n", "2"]])
def test_lines_flag_with_a_value_or_count_is_rejected(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["put", *arguments]) == 2
    assert "--lines" in capsys.readouterr().err


@pytest.mark.parametrize(("count", "period", "values"), [(None, None, 1), (2, None, 2), (None, 0.0, 9), (3, 0.0, 3)])
def test_value_is_repeated_by_count_and_period(
    count: int | None, period: float | None, values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    found = [value for value, _ in zip(put.repeat(b"a", count, period), range(9), strict=False)]
    assert found == [b"a"] * values
