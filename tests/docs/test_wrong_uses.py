"""Wrong uses of the command line: one line that says what was expected, the right exit code, and nothing is made."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import zenspark
from tests.command_process import restored_process
from zenspark.cli import COMMANDS, main

BROKEN = "broken.json5"

WRONG: list[tuple[str, int, str]] = [
    # commands and flags
    ("rooter", 2, "zenspark: there is no command 'rooter'; did you mean router?"),
    ("fly", 2, "zenspark: there is no command 'fly'"),
    ("--fly", 2, "zenspark: there is no flag --fly"),
    ("help rooter", 2, "zenspark help: there is no command 'rooter'; did you mean router?"),
    ("completion tcsh", 2, "zenspark completion: shell: expected one of bash, zsh, fish, found 'tcsh'"),
    ("router --lisen tcp/127.0.0.1:0", 2, "zenspark router: there is no flag --lisen; did you mean --listen?"),
    ("put demo/a x --encodng text/plain", 2, "there is no flag --encodng; did you mean --encoding?"),
    ("sub -x", 2, "zenspark sub: there is no flag -x"),
    ("put demo/a", 2, "zenspark put: missing VALUE"),
    ("put demo/a hello world", 2, "unexpected argument 'world': quote a value with blanks or wildcards"),
    ("sub --json --raw", 2, "zenspark sub: --raw cannot be combined with --json"),
    ("sub -n 0", 2, "-n/--count: expected a whole number from 1, found '0'"),
    ("sub --log-level loud", 2, "--log-level: expected one of off, error, warn, info, debug, trace, found 'loud'"),
    ("sub --for 5parsecs", 2, "expected a duration such as 10, 500ms, 90s, 5m, 1h or 7d, found '5parsecs'"),
    ("put demo/a x --period soon", 2, "--period: expected a duration such as 10, 500ms"),
    ("ping --size huge", 2, "--size: expected a size such as 1000, 64KiB or 2GB, found 'huge'"),
    ("liveliness", 2, "zenspark liveliness: missing COMMAND"),
    ("liveliness tokn a", 2, "expected one of token, get, sub, found 'tokn'; did you mean token?"),
    ("ls everything", 2, "zenspark ls: subject: expected one of keys, nodes, declarations, found 'everything'"),
    ("scout --what boat", 2, "--what: expected one of router, peer, client, found 'boat'"),
    ("ping demo/a --echo", 2, "zenspark ping: give one of SELECTOR, --publish and --echo"),
    ("queryable demo/a", 2, "zenspark queryable: give VALUE or --command"),
    ("put demo/a x --lines", 2, "zenspark put: --lines: expected - as VALUE"),
    ("top", 2, "zenspark top: expected a terminal"),
    # keys and selectors
    ("put demo//a x", 2, "key expression 'demo//a', position 5: expected a chunk that is not empty"),
    ("put /demo/a x", 2, "(keys do not begin with /: did you mean 'demo/a'?)"),
    ("put demo/a?x=1 x", 2, "expected no `?` (parameters belong to a selector, not to a key)"),
    ("sub demo/a*", 2, "expected `*` or `**` as a whole chunk, or `$*` inside one"),
    ("sub demo/#", 2, "expected no `#` (the wildcard for any chunks is `**`, not MQTT's `#`)"),
    ("liveliness token demo/*", 2, "expected a key without wildcards, found 'demo/*'"),
    ("get demo/a --time yesterday", 2, "--time: expected a range of time such as [now(-5s)..], found 'yesterday'"),
    ("get demo/a --target some", 2, "--target: expected one of best-matching, all, all-complete, found 'some'"),
    ("put demo/a x --priority high", 2, "expected one of real-time, interactive-high, interactive-low, data-high"),
    ("put demo/a @missing.bin", 2, "zenspark put: missing.bin: No such file or directory"),
    # endpoints and configuration
    ("sub -e 127.0.0.1:7447", 2, "found '127.0.0.1:7447'; did you mean tcp/127.0.0.1:7447?"),
    ("sub -e tcp://localhost:7447", 2, "did you mean tcp/localhost:7447?"),
    ("sub -e tcp/localhost:99999", 2, "has the port '99999', which is not a number up to 65535"),
    ("sub -e quic/localhost:7447", 2, "has a protocol that is not one of tcp, tls, udp, ws, unixsock-stream"),
    (
        "sub -e tcp/127.0.0.1:1",
        4,
        "tcp/127.0.0.1:1: cannot connect: Connection refused; does a Zenoh node listen there?",
    ),
    ("sub -m client --no-multicast-scouting", 2, "a client needs connect/endpoints or scouting/multicast"),
    ("sub -m pear", 2, "-m/--mode: expected one of router, peer, client, found 'pear'; did you mean peer?"),
    ("sub -i XYZ", 2, "configuration key id: expected 1 to 32 lower-case hexadecimal digits"),
    ("sub --cfg mode", 2, "--cfg: expected KEY:VALUE, found 'mode'"),
    ("sub --cfg mod:1", 2, "configuration key mod: expected a key such as mode, found a key that does not exist"),
    ("sub -c missing.json5", 2, "expected a file that can be read, found missing.json5: No such file or directory"),
    (
        f"sub -c {BROKEN}",
        2,
        "configuration: expected JSON5, found line 1, column 14: expected a comma or }, found the end",
    ),
    ("sub -l tls/127.0.0.1:0 --no-multicast-scouting", 2, "has no listen_certificate: set transport/link/tls/listen_c"),
    (
        "sub -l tcp/127.0.0.1:USED --no-multicast-scouting",
        2,
        "cannot listen: Address already in use; does another node",
    ),
    # recordings and bytes
    ("replay nowhere", 2, "zenspark replay: nowhere: there is no such journal, file or directory"),
    ("journal ls nowhere", 2, "nowhere"),
    ("decode 0x", 2, "zenspark decode:"),
    ("decode xyz", 2, "zenspark decode: 'x' is not a hexadecimal digit"),
    ("encode", 2, "zenspark encode: missing --jsonl"),
]


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    with restored_process():
        yield


@pytest.mark.parametrize(("line", "code", "message"), WRONG, ids=[line for line, _, _ in WRONG])
def test_a_wrong_use_is_one_line(
    line: str,
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(BROKEN).write_text('{mode: "peer"')
    with socket.create_server(("127.0.0.1", 0)) as used:
        assert main(line.replace("USED", str(used.getsockname()[1])).split()) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert os.listdir() == [BROKEN]


def test_wrong_uses_are_at_least_forty_and_cover_most_commands() -> None:
    assert len(WRONG) >= 40
    assert len({line.split()[0] for line, _, _ in WRONG} & set(COMMANDS)) >= 16


def test_frequent_mistakes_in_programs_get_a_hint() -> None:
    config = zenspark.Config.from_json5("{scouting: {multicast: {enabled: false}}, listen: {endpoints: []}}")
    with zenspark.open(config) as session:
        with pytest.raises(TypeError, match=r"found 'dict'; json.dumps\(...\) makes a str of it"):
            session.put("demo/a", {"x": 1})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"expected Priority \(REAL_TIME, INTERACTIVE_HIGH, .*\), found 'str'"):
            session.put("demo/a", "x", priority="high")  # type: ignore[arg-type]
    with pytest.raises(zenspark.ZError, match=r"such as tcp/127.0.0.1:7447 .*found \"127.0.0.1:7447\""):
        zenspark.Config.from_json5('{connect: {endpoints: ["127.0.0.1:7447"]}}')
