import json

import pytest

from tests.unit.cli.commands import network
from zenspark.cli.get import add_time
from zenspark.types.query import Query


def on_query(query: Query) -> None:
    with query:
        if "fail" in query.parameters:
            query.reply_err("no such thing")
        else:
            query.reply("demo/a", query.payload or str(query.parameters), encoding="text/plain")


def test_replies_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        net.router.declare_queryable("demo/a", on_query)
        code, out, err = net.run("get", "demo/**?x=1")
        assert (code, out.split(maxsplit=1)[1], err) == (0, "demo/a x=1\n", "")
        (reply,) = net.json("get", "demo/**", "--value", "sent", "--target", "all", "--consolidation", "none")
        assert (reply["key"], reply["value"], reply["encoding"]) == ("demo/a", "sent", "text/plain")


@pytest.mark.slow
def test_error_reply_and_no_reply_are_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        net.router.declare_queryable("demo/a", on_query)
        assert net.run("get", "demo/a?fail") == (1, "", "error reply: no such thing\n")
        code, out, _ = net.run("get", "demo/a?fail", "--json")
        assert (code, json.loads(out)) == (1, {"error": {"value": "no such thing"}, "encoding": "zenoh/bytes"})
        hint = "no reply to demo/b: is there a queryable or storage for it?\n"
        assert net.run("get", "demo/b", "--timeout", "1s") == (1, "", hint)
        assert net.run("get", "demo/b", "--timeout", "1s", "-q") == (1, "", "")


def test_no_reply_for_a_time_range_hints_at_missing_values(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "no reply to {}: no value of that time was recorded, or no storage replies\n"
    with network(capsys) as net:
        for arguments in (["demo/b?_limit=1;_time=[now(-1h)..]"], ["demo/b?_limit=1", "--time", "[now(-1h)..]"]):
            code, out, err = net.run("get", *arguments, "--timeout", "1s")
            assert (code, out) == (1, "")
            assert err == expected.format("demo/b?_limit=1;_time=[now(-1h)..]")
        code, _, err = net.run("get", "demo/_time", "--timeout", "1s")
        assert "is there a queryable" in err


def test_a_time_range_is_a_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert add_time("a", None) == "a"
    assert add_time("a", "[now(-1h)..]") == "a?_time=[now(-1h)..]"
    assert add_time("a?x=1", "[now(-1h)..]") == "a?x=1;_time=[now(-1h)..]"
    with network(capsys) as net:
        net.router.declare_queryable("demo/a", on_query)
        (reply,) = net.json("get", "demo/a", "--time", "[now(-1h)..]")
        assert reply["value"] == "_time=[now(-1h)..]"
        (reply,) = net.json("get", "demo/a", "--time", "[now(-2m);3s]")
        assert reply["value"] == "_time=[now(-2m)..now(-117s)]"
        code, _, err = net.run("get", "demo/a", "--time", "yesterday")
        assert code == 2
        assert "--time: expected a range of time such as [now(-5s)..], found 'yesterday'" in err
