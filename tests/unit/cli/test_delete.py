import pytest

from tests.unit.cli.commands import network
from tests.wait import until
from zenspark.types.sample import Sample


def test_keys_are_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        samples: list[Sample] = []
        net.router.declare_subscriber("demo/**", samples.append)
        assert net.run("delete", "demo/a", "demo/b/*") == (0, "", "")
        until(lambda: len(samples) == 2)
        assert [(str(each.key_expr), each.kind.name) for each in samples] == [
            ("demo/a", "DELETE"),
            ("demo/b/*", "DELETE"),
        ]
