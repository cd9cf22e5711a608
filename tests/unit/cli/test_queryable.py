import json
from pathlib import Path

import pytest

from tests.unit.cli.commands import Network, network
from zenspark.cli import main


def replies_of(net: Network, queryable: list[str], *queries: str) -> list[str]:
    """Run the command for some queries; the replies, errors with a mark."""
    found: list[str] = []

    def send_queries() -> None:
        for query in queries:
            for reply in net.router.get(query, payload="sent"):
                result = reply.ok or reply.err
                assert result is not None
                found.append(("" if reply.ok else "error: ") + result.payload.to_string())

    with net.meanwhile(lambda: net.declared("queryable"), send_queries):
        code, out, _ = net.run("queryable", *queryable, "-n", str(len(queries)))
    assert code == 0
    found.append(out)
    return found


def test_queryable_replies_with_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        value, printed = replies_of(net, ["demo/a", "1.2.3"], "demo/a?x=1")
    assert value == "1.2.3"
    assert printed.split(maxsplit=1)[1] == "demo/a?x=1 sent\n"


def test_a_file_is_read_for_every_query(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("first")
    with network(capsys) as net:
        value, printed = replies_of(net, ["demo/a", f"@{file}", "--json"], "demo/*")
    assert value == "first"
    assert json.loads(printed) == {"key": "demo/*", "parameters": "", "value": "sent"}


def test_queryable_replies_with_the_output_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = 'test "$ZENOH_PARAMETERS" != fail || { echo wrong >&2; exit 3; }; echo "$ZENOH_KEY $(cat)"'
    with network(capsys) as net:
        *found, _ = replies_of(net, ["demo/*", "--command", command], "demo/a", "demo/b?fail", "demo/**")
    assert found == ["demo/a sent", "error: wrong", "error: the queryable has wildcards (demo/*): query one key"]


@pytest.mark.parametrize("arguments", [["demo/a"], ["demo/a", "x", "--command", "y"]])
def test_a_value_or_a_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queryable", *arguments]) == 2
    assert "give VALUE or --command" in capsys.readouterr().err
