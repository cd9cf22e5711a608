from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

import zenspark
from tests.interop.reference import ours
from tests.ports import free_port
from tests.wait import until
from zenspark.cli import doctor, main
from zenspark.cli.doctor import Finding, Verdict
from zenspark.journal import Journal, JournalWriter, Recorder
from zenspark.lake.lake import Lake


def verdicts(found: list[Finding]) -> dict[str, Verdict]:
    return {each.check: each.verdict for each in found}


@pytest.mark.slow
def test_a_line_per_check_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["doctor", "--lake", str(tmp_path / "lake"), "--port", str(free_port())]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.split()[0] in ("ok", "warn") for line in lines)
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"build", "spark", "java", "port", "multicast", "disk", "lake"} <= {each["check"] for each in found}
    assert not (tmp_path / "lake").exists()


def test_doctor_reports_version_and_clock_of_a_router() -> None:
    config = ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"], adminspace__enabled=True)
    with zenspark.open(config) as session:
        found = list(doctor.check_router(session.info.locators()[0]))
    assert verdicts(found) == {"router": Verdict.OK, "clock": Verdict.OK}
    assert str(session.zid()) in found[0].text
    assert "version" in found[0].text


@pytest.mark.slow
def test_comparing_clocks_leaves_nothing_in_a_recording_of_all_keys(tmp_path: Path) -> None:
    config = ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"], adminspace__enabled=True)
    with (
        zenspark.open(config) as session,
        JournalWriter(tmp_path / "journal") as writer,
        Recorder(session, ["**"], writer, observe=False) as recorder,
    ):
        found = verdicts(list(doctor.check_router(session.info.locators()[0])))
        session.put("end", b"")
        until(lambda: recorder.status().rows > 0)
        recorder.stop()
        keys = [key for batch in Journal(writer.path).read(0, writer.end) for key in batch.column("key").to_pylist()]
    assert found["clock"] is Verdict.OK
    assert keys == ["end"]


def test_a_clock_that_differs_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    with zenspark.open(ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"])) as session:
        real = time.time
        monkeypatch.setattr(doctor, "now", lambda: real() - 60.0)
        found = verdicts(list(doctor.check_router(session.info.locators()[0])))
    assert found["clock"] is Verdict.WARN


@pytest.mark.slow
def test_a_router_that_is_required_and_absent_fails(capsys: pytest.CaptureFixture[str]) -> None:
    (finding,) = doctor.check_router("tcp/127.0.0.1:1")
    assert finding.verdict is Verdict.FAIL
    assert "tcp/127.0.0.1:1" in finding.text


@pytest.mark.slow
def test_port_used_by_a_router_is_ok_and_the_router_check_connects_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"], adminspace__enabled=True)
    with zenspark.open(config) as session:
        port = session.info.locators()[0].rpartition(":")[2]
        assert main(["doctor", "--lake", str(tmp_path / "lake"), "--port", port, "--json"]) == 0
        found = {each["check"]: (each["verdict"], each["text"]) for each in json.loads(capsys.readouterr().out)}
        zid = session.zid()
    assert found["port"] == ("ok", f"{port} is used by router {zid}")
    assert found["router"][1].startswith(f"tcp/127.0.0.1:{port}: {zid} version ")
    assert found["clock"][0] == "ok"


@pytest.mark.slow
def test_a_port_in_use_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "NETWORK_CHECK_TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (finding,) = doctor.check_port(taken.getsockname()[1])
    assert finding.verdict is Verdict.WARN
    assert "in use, and no Zenoh node replies there" in finding.text
    with zenspark.open(ours(mode="peer", listen__endpoints=["tcp/127.0.0.1:0"])) as session:
        monkeypatch.undo()
        (finding,) = doctor.check_port(int(session.info.locators()[0].rpartition(":")[2]))
        assert finding.text.partition(" ")[2] == f"is used by peer {session.zid()}; choose another port with -l"
    assert finding.verdict is Verdict.WARN


def test_doctor_checks_disk_space_and_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "lake"
    assert next(iter(doctor.check_lake(str(place)))).text.startswith("there is none")
    Lake(place).create()
    (finding,) = doctor.check_lake(str(place))
    assert (finding.verdict, "0 samples can be read" in finding.text) == (Verdict.OK, True)
    for limit, verdict in (("MIN_DISK_BYTES", Verdict.FAIL), ("LOW_DISK_BYTES", Verdict.WARN)):
        with monkeypatch.context() as patch:
            patch.setattr(doctor, limit, 1 << 62)
            (finding,) = doctor.check_disk(str(place / "below"))
            assert finding.verdict is verdict


@pytest.mark.slow
def test_a_check_that_breaks_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> list[Finding]:
        raise OSError("no such device")

    monkeypatch.setattr(doctor, "check_disk", broken)
    given = doctor.parser().parse_args(["--lake", str(tmp_path)])
    assert verdicts(list(doctor.run_checks(given)))["disk"] is Verdict.FAIL


def test_missing_spark_extra_is_a_warning_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SPARK_PACKAGES", ("no_such_package",))
    (finding,) = doctor.check_spark()
    assert finding.verdict is Verdict.WARN
    assert "pip install 'zenspark[spark]'" in finding.text
