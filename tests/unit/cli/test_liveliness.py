import pytest

from tests.unit.cli.commands import network
from tests.wait import until


@pytest.mark.slow
def test_tokens_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net, net.router.liveliness().declare_token("group/one"):
        assert net.run("liveliness get", "group/*") == (0, "group/one\n", "")
        assert net.json("liveliness get", "group/*") == [{"key": "group/one"}]
        assert net.run("liveliness get", "other/*") == (1, "", "there is no token under other/*\n")


@pytest.mark.slow
def test_tokens_are_watched(capsys: pytest.CaptureFixture[str]) -> None:
    with network(capsys) as net:
        token = net.router.liveliness().declare_token("group/one")
        assert net.json("liveliness sub", "group/*", "-n", "1") == [{"key": "group/one", "alive": True}]
        token.undeclare()
        code, out, _ = net.run("liveliness sub", "group/*", "--for", "10ms")
        assert (code, out) == (0, "")
        assert net.run("liveliness sub", "group/*", "--for", "10ms", "-n", "1", "--no-history")[0] == 1


@pytest.mark.slow
def test_a_token_is_declared(capsys: pytest.CaptureFixture[str]) -> None:
    found: list[str] = []
    with network(capsys) as net:
        net.router.liveliness().declare_subscriber("group/*", lambda sample: found.append(sample.kind.name))
        code, out, _ = net.run("liveliness token", "group/me", "--for", "10ms")
        assert (code, out) == (0, "token group/me is declared; Ctrl-C ends it\n")
        until(lambda: found == ["PUT", "DELETE"])
