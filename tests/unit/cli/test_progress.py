import pytest

from tests.unit.cli.terminals import use_terminal
from tests.wait import until
from zenspark.cli import progress
from zenspark.cli.progress import Activity, Progress
from zenspark.cli.status_line import CLEAR


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_after_a_second_share_rate_and_time_left_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, "stderr")
    clock = Clock()
    with Progress("replaying", 10_000, "rows", clock=clock) as shown:
        clock.now += 0.9
        shown.update(900)
        assert terminal.getvalue() == ""
        clock.now += 0.1
        shown.update(1000)
        shown.update(1001)  # too soon after the last one
        clock.now += 1
        shown.update(2000)
    assert terminal.getvalue().split(CLEAR) == [
        "replaying: 10%, 1 k of 10 k rows, 1 k rows/s, 9s left",
        "replaying: 20%, 2 k of 10 k rows, 1 k rows/s, 8s left",
        "",
    ]


def test_without_a_total_the_time_so_far_is_shown() -> None:
    assert Progress("reading", unit="B").format(5000, 2) == "reading: 5 k B, 2.5 k B/s, 2s"
    assert Progress("reading").format(5000, 2) == "reading: 5 k, 2.5 k/s, 2s"
    assert Progress("reading", 10, "rows").format(0, 2) == "reading: 0%, 0 of 10 rows, 0 rows/s, no progress yet"
    assert Progress("reading", 10, "rows").format(20, 2) == "reading: 100%, 20 of 10 rows, 10 rows/s, 0s left"


def test_track_yields_its_items_and_prints_nothing_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading", 6, "B") as shown:
        assert list(shown.track(["a", "bb", "ccc"], len)) == ["a", "bb", "ccc"]
    assert capsys.readouterr().err == ""


def test_an_activity_shows_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, "stderr")
    monkeypatch.setattr(progress, "SHOW_AFTER_SECONDS", 0.01)
    with Activity("starting Spark"):
        until(lambda: "starting Spark: " in terminal.getvalue())
    assert terminal.getvalue().endswith(CLEAR)


def test_activity_without_a_terminal_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Activity("starting Spark"):
        pass
    assert capsys.readouterr().err == ""
