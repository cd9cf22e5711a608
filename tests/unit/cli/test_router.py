"""Command line, output and end of `zenspark router`. `tests/interop` runs it with eclipse-zenoh."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from zenspark.cli import main, router

TIMEOUT_SECONDS = 30.0


def settings_from_flags(*arguments: str) -> dict[str, object]:
    config = router.build_config(router.parser().parse_args(arguments))
    keys = ("mode", "id", "listen/endpoints", "connect/endpoints", "adminspace", "timestamping/enabled")
    return {key: json.loads(config.get_json(key)) for key in (*keys, "scouting/multicast/enabled", "metadata")}


def test_router_without_flags_has_an_admin_space_and_listens_on_port_7447() -> None:
    found = settings_from_flags()
    assert found["mode"] == "router"
    assert found["adminspace"] == {"enabled": True, "permissions": {"read": True, "write": False}}
    config = router.build_config(router.parser().parse_args([]))
    assert config.settings().listen.endpoints == ("tcp/[::]:7447",)


def test_flags_set_keys() -> None:
    found = settings_from_flags(
        *("-l", "tcp/127.0.0.1:1", "--listen", "tcp/127.0.0.1:2", "-e", "tcp/127.0.0.1:3", "-i", "a1"),
        *("--no-timestamp", "--no-multicast-scouting", "--adminspace-permissions", "rw", "--cfg", "metadata:{a:1}"),
    )
    assert found == {
        "mode": "router",
        "id": "a1",
        "listen/endpoints": ["tcp/127.0.0.1:1", "tcp/127.0.0.1:2"],
        "connect/endpoints": ["tcp/127.0.0.1:3"],
        "adminspace": {"enabled": True, "permissions": {"read": True, "write": True}},
        "timestamping/enabled": False,
        "scouting/multicast/enabled": False,
        "metadata": {"a": 1},
    }


@pytest.mark.parametrize(
    ("flag", "read", "write"), [("r", True, False), ("w", False, True), ("rw", True, True), ("none", False, False)]
)
def test_adminspace_permissions_flag_sets_read_and_write(flag: str, read: bool, write: bool) -> None:
    expected = {"enabled": True, "permissions": {"read": read, "write": write}}
    assert settings_from_flags("--adminspace-permissions", flag)["adminspace"] == expected


def test_flags_override_the_file_and_cfg_overrides_flags(tmp_path: Path) -> None:
    file = tmp_path / "router.json5"
    file.write_text('{mode: "peer", id: "a1", metadata: "file", listen: {endpoints: ["tcp/127.0.0.1:1"]}}')
    found = settings_from_flags(
        "-c", str(file), "-i", "a2", "-l", "tcp/127.0.0.1:2", "--cfg", 'listen/endpoints:["tcp/[::1]:3"]'
    )
    assert found["mode"] == "peer"
    assert found["metadata"] == "file"
    assert found["id"] == "a2"
    assert found["listen/endpoints"] == ["tcp/[::1]:3"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--rest-http-port", "http"], "configuration key plugins/rest/http_port: expected a port, an address and"),
        (["--cfg", "mode"], "--cfg: expected KEY:VALUE, found 'mode'"),
        (["--cfg", "metadata:["], "configuration key metadata: expected JSON5"),
        (["--cfg", "no/such:1"], "configuration key no: expected one of"),
        (["-i", "XYZ"], "configuration key id: expected"),
        (["-c", "missing.json5"], "configuration: expected a file that can be read"),
        (["-l", "nonsense"], "-l/--listen: expected an endpoint such as tcp/127.0.0.1:7447"),
        (["--adminspace-permissions", "all"], "--adminspace-permissions: expected one of r, w, rw, none, found 'all'"),
        (["--fly"], "there is no flag --fly"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["router", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"zenspark router: {line}")
    assert printed.err.count("\n") == 1


def test_the_rest_interface_is_a_key_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "router.json5"
    file.write_text("{plugins: {rest: {http_port: 8000}}}")

    def wanted(*arguments: str) -> object:
        config = router.build_config(router.parser().parse_args(arguments))
        return json.loads(config.get_json("plugins"))

    assert wanted() == {}
    assert wanted("--rest-http-port", "127.0.0.1:0") == {"rest": {"http_port": "127.0.0.1:0"}}
    assert wanted("-c", str(file)) == {"rest": {"http_port": 8000}}
    assert wanted("-c", str(file), "--rest-http-port", "none") == {"rest": {"http_port": "none"}}


def start_router(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "zenspark", "router", "--no-multicast-scouting", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def without_log_lines(err: str) -> str:
    """What is on standard error besides what is logged at info."""
    return "".join(line for line in err.splitlines(keepends=True) if " INFO zenspark" not in line)


@pytest.mark.slow
def test_an_address_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start_router("-l", f"tcp/127.0.0.1:{port}")
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 2
    assert out == ""
    assert without_log_lines(err) == (
        f"zenspark router: tcp/127.0.0.1:{port}: cannot listen: Address already in use; does another node run there?"
        " -l chooses another endpoint, with port 0 any free one\n"
    )


@pytest.mark.slow
def test_a_rest_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start_router("-l", "tcp/127.0.0.1:0", "--rest-http-port", f"127.0.0.1:{port}")
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, out) == (2, "")
    assert without_log_lines(err) == (
        f"zenspark router: http://127.0.0.1:{port}: cannot listen: Address already in use; "
        "does another node run there? --http chooses another address, with port 0 any free one\n"
    )


@pytest.mark.slow
def test_rest_address_is_printed_and_router_ends_on_signal() -> None:
    process = start_router("-l", "tcp/127.0.0.1:0", "--rest-http-port", "127.0.0.1:0", "-i", "a1")
    try:
        assert process.stdout is not None
        url = [process.stdout.readline() for _ in range(4)][-1].removeprefix("  REST on    ").strip()
        with urllib.request.urlopen(f"{url}/@/local/router", timeout=TIMEOUT_SECONDS) as response:
            (described,) = json.load(response)
        process.terminate()
        rest, err = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    assert described["key"] == "@/a1/router"
    assert (process.returncode, rest, without_log_lines(err)) == (0, "", "")


@pytest.mark.slow
def test_page_rejects_put_without_http_write_and_rest_accepts_it() -> None:
    process = start_router("-l", "tcp/127.0.0.1:0", "--http", "127.0.0.1:0", "--rest-http-port", "127.0.0.1:0")
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        page, rest = (line.split()[-1] for line in lines[3:])
        assert lines[3].startswith("  page       http://127.0.0.1:")
        with urllib.request.urlopen(f"{page}/health", timeout=TIMEOUT_SECONDS) as response:
            assert response.status == 200
        for url, expected in ((page, 403), (rest, 200)):
            request = urllib.request.Request(f"{url}/demo/a", data=b"hello", method="PUT")
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                    status = response.status
            except urllib.error.HTTPError as error:
                status = error.code
                error.close()
            assert status == expected
        process.terminate()
        process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_router_prints_its_address_and_ends_on_signal(number: signal.Signals) -> None:
    process = start_router("-l", "tcp/127.0.0.1:0", "-i", "a1")
    try:
        assert process.stdout is not None
        first, second, third = (process.stdout.readline() for _ in range(3))
        process.send_signal(number)
        rest, err = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    assert first.startswith("zenspark ")
    assert second == "  id         a1\n"
    assert third.startswith("  listens on tcp/127.0.0.1:")
    assert (process.returncode, rest) == (0, "")
    events = [line.partition(" INFO ")[2] for line in err.splitlines()]
    listening = third.split()[-1]
    assert events == [
        "zenspark.api: Using ZID: a1",
        f"zenspark.net: Zenoh can be reached at: {listening}",
        "zenspark.api: close session zid=a1",
    ]


@pytest.mark.slow
def test_sessions_that_open_and_close_are_logged() -> None:
    process = start_router("-l", "tcp/127.0.0.1:0", "-i", "a1")
    try:
        assert process.stdout is not None
        endpoint = [process.stdout.readline() for _ in range(3)][-1].split()[-1]
        other = start_router("-l", "tcp/127.0.0.1:0", "-e", endpoint, "-i", "a2")
        try:
            assert process.stderr is not None
            opened = [process.stderr.readline() for _ in range(3)][-1]  # behind its id and where it listens
            other.terminate()
            other.communicate(timeout=TIMEOUT_SECONDS)
            closed = process.stderr.readline()
        finally:
            other.kill()
        process.terminate()
        process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    assert re.search(r"INFO zenspark\.net: session with router a2 \(tcp/127\.0\.0\.1:\d+\) opened", opened)
    assert re.search(r"INFO zenspark\.net: session with router a2 \(tcp/127\.0\.0\.1:\d+\) closed: ", closed)


@pytest.mark.slow
def test_router_does_not_import_pyarrow_asyncio_and_other_large_modules() -> None:
    """Memory and start-up time: pyarrow alone, with what it loads, takes 90 MB."""
    program = """
        import sys
        import zenspark.cli.router
        from zenspark.api.open import open
        from zenspark.config.config import Config
        config = '{mode: "router", listen: {endpoints: ["tcp/127.0.0.1:0"]}, adminspace: {enabled: true}}'
        with open(Config.from_json5(config)):
            costly = {"pyarrow", "numpy", "pandas", "pyspark", "ssl", "websockets", "http.server", "asyncio", "yaml"}
            print(sorted(costly & set(sys.modules)))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"
