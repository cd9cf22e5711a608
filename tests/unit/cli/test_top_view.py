import pytest

from tests.unit.api.sessions import listening
from tests.wait import until
from zenspark.cli.key_traffic import KeyTraffic
from zenspark.cli.top_view import SessionRow, TopState, TopView, format_rate, make_filter

CONNECTED = ("connected 1 of 1", "")


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def view() -> TopView:
    clock = Clock()
    traffic = KeyTraffic(clock=clock)
    with listening("peer") as session:
        session.declare_subscriber("**", traffic)
        for number in range(30):
            for _ in range(number + 1):
                session.put(f"fleet/robot{number:02}/pose", f'{{"x": {number}}}', encoding="application/json")
        session.delete("fleet/gone")
        until(lambda: traffic.total.messages == 466)
    clock.now += 1
    traffic.tick()
    clock.now += 2
    return TopView(traffic, ["fleet/**"], clock)


def shown(view: TopView, state: TopState, width: int = 90, height: int = 12) -> list[str]:
    lines = view.lines(state, CONNECTED, [], width, height)
    assert len(lines) == height
    assert all(len(text) <= width for _, text in lines)
    return [text for _, text in lines]


def test_the_busiest_keys_come_first(view: TopView) -> None:
    lines = shown(view, TopState())
    assert lines[0] == "zenspark top  fleet/**"
    assert lines[1].startswith("connected 1 of 1  466 messages/s")
    assert "31 keys  0 sessions" in lines[1]
    assert lines[2].split() == ["key", "msg/s", "B/s", "messages", "age", "value"]
    assert lines[3].split() == ["fleet/robot29/pose", "30.0", "270", "B", "30", "3s", '{"x":29}']
    assert lines[-1].startswith("q quit  space pause  s sort: rate")


def test_top_view_sorts_scrolls_and_filters_keys(view: TopView) -> None:
    assert shown(view, TopState(sort="key"))[3].startswith("fleet/gone")
    assert "DELETE" in shown(view, TopState(sort="key"))[3]
    assert shown(view, TopState(sort="key", offset=2))[3].startswith("fleet/robot01")
    assert shown(view, TopState(filter="ROBOT05"))[3].startswith("fleet/robot05")
    assert shown(view, TopState(filter="ROBOT05"))[4] == ""
    state = TopState(offset=10_000)
    assert shown(view, state)[-2].startswith("fleet/robot00")
    assert state.offset == 31 - 8


def test_rows_that_fit_are_not_scrolled(view: TopView) -> None:
    state = TopState(offset=1)
    assert shown(view, state, height=40)[3].startswith("fleet/robot29")
    assert state.offset == 0
    state = TopState(offset=1, filter="robot1")
    assert len([line for line in shown(view, state, height=15) if line.startswith("fleet/")]) == 10
    assert state.offset == 0
    rows = [SessionRow("router", "a1", "", 0, 0, 0), SessionRow("peer", "b1", "", 0, 0, 0)]
    state = TopState(shows_sessions=True, offset=1)
    assert view.lines(state, CONNECTED, rows, 90, 9)[3][1].startswith("router")
    assert view.lines(TopState(shows_sessions=True, offset=1), CONNECTED, rows, 90, 5)[3][1].startswith("peer")


def test_a_filter_is_counted(view: TopView) -> None:
    assert "1 of 31 keys  0 sessions" in shown(view, TopState(filter="ROBOT05"))[1]
    assert "0 of 31 keys" in shown(view, TopState(filter="nothing"))[1]


def test_top_view_fits_narrow_and_low_terminals(view: TopView) -> None:
    assert shown(view, TopState(), width=40, height=6)[3].startswith("fleet/robot29/p")
    shown(view, TopState(), width=10, height=3)


def test_top_view_lists_sessions_with_their_counters(view: TopView) -> None:
    rows = [SessionRow("router", "a1", "tcp/127.0.0.1:7447", 12, 1, 2), SessionRow("peer", "b1", "", 0, 0, 0)]
    lines = [text for _, text in view.lines(TopState(shows_sessions=True), ("connected 0 of 1", "red"), rows, 90, 9)]
    assert "2 sessions" in lines[1]
    assert lines[3].split() == ["router", "a1", "12", "1", "2", "tcp/127.0.0.1:7447"]
    assert view.lines(TopState(), ("connected 0 of 1", "red"), rows, 90, 9)[1][0] == "fg:ansired bold"


def test_next_sort_cycles_and_scroll_stops_at_the_top() -> None:
    state = TopState()
    seen = []
    for _ in range(5):
        state.next_sort()
        seen.append(state.sort)
    assert seen == ["bytes", "messages", "age", "key", "rate"]
    state.scroll(3)
    state.scroll(-5)
    assert state.offset == 0


def test_footer_shows_the_filter_being_typed_and_header_shows_paused(view: TopView) -> None:
    assert shown(view, TopState(is_editing=True, filter="ro"))[-1].startswith("filter: ro_")
    assert "PAUSED" in shown(view, TopState(is_paused=True))[0]


@pytest.mark.parametrize(
    ("text", "key", "matches"),
    [
        ("robot", "fleet/robot1", True),
        ("fleet/*", "fleet/robot1", True),
        ("fleet/*", "fleet/robot1/pose", False),
        ("fleet/**", "fleet/robot1/pose", True),
        ("fleet/ro*", "fleet/robot1", False),
    ],
)
def test_filter_matches_a_substring_or_a_key_expression(text: str, key: str, matches: bool) -> None:
    wanted = make_filter(text)
    assert wanted is not None
    assert wanted(key) is matches


def test_rates_are_formatted_with_a_decimal_or_a_prefix() -> None:
    assert make_filter("") is None
    assert [format_rate(rate) for rate in (0, 9.96, 99, 1234)] == ["0.0", "10.0", "99.0", "1.23 k"]
