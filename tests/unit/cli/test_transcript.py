import json
from pathlib import Path

import pytest

from zenspark.cli import main

STREAMS = Path(__file__).parents[2] / "vectors" / "streams"
C2S = (STREAMS / "pubsub_client_router.c2s.bin").read_bytes()
S2C = (STREAMS / "pubsub_client_router.s2c.bin").read_bytes()


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def files(name: str) -> list[str]:
    return ["--c2s", str(STREAMS / f"{name}.c2s.bin"), "--s2c", str(STREAMS / f"{name}.s2c.bin")]


def written(tmp_path: Path, c2s: bytes, s2c: bytes) -> list[str]:
    (tmp_path / "c2s").write_bytes(c2s)
    (tmp_path / "s2c").write_bytes(s2c)
    return ["--c2s", str(tmp_path / "c2s"), "--s2c", str(tmp_path / "s2c")]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["decode", *arguments]) == 0
    return capsys.readouterr().out


def test_transcript_has_the_handshake_and_every_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, *files("lowlatency_client_router")).splitlines() == [
        "→ c2s  client c0c1c2c3",
        "← s2c  router a0a1a2a3",
        "agreed: batches of up to 49152 bytes, sequence numbers of 28 bits, low latency,",
        "patch 1",
        "",
        "#     offset  message       key        details",
        "────────────────────────────────────────────────────────────────────────────────",
        "1  →       2  INIT_SYN                 version 9, whatami client, zid c0c1c2c3,",
        "                                       resolution 10, batch_size 65480,",
        "                                       low_latency, patch 1",
        "2  ←       2  INIT_ACK                 version 9, whatami router, zid a0a1a2a3,",
        "                                       resolution 10, batch_size 49152, cookie",
        "                                       of 33 bytes, low_latency, patch 1",
        "3  →      17  OPEN_SYN                 lease 10 s, initial_sn 102766003, cookie",
        "                                       of 33 bytes",
        "4  ←      51  OPEN_ACK                 lease 10 s, initial_sn 6376485",
        "5  →      61  D_KEYEXPR     demo/k     expr_id 1",
        "6  →      78  D_SUBSCRIBER  demo/k/**  id 1",
        '7  ←      61  PUSH PUT      demo/k/a   "hello", at 2026-11-15 19:17:24.721167 by',
        "                                       a0a1a2a3",
        "8  →      92  PUSH PUT      o/k        00 01 02 fe ff",
        "9  →     109  CLOSE                    reason 0 generic",
        "",
        "9 messages; c2s: all 115 bytes followed (4 after CLOSE ignored); s2c: all 87",
        "bytes followed",
    ]


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", sorted(path.stem for path in STREAMS.glob("*.json")))
def test_transcript_fits_the_terminal_width(
    name: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = shown(capsys, *files(name))
    assert max(map(len, out.splitlines())) <= columns
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_shows_fragments_and_request_keys(capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(shown(capsys, *files("pubsub_client_router")).split())
    assert '"ZZZZZZZZZZZZZZZZZZZZZZZZZZZ…" 200000 bytes, in 5 fragments' in out
    out = " ".join(shown(capsys, *files("advanced_pubsub_client_router")).split())
    assert "request demo/k/**/@adv/**" in out


def test_remark_on_a_capture_without_handshake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, *written(tmp_path, C2S[120:], S2C[57:]))
    assert out.startswith("→ c2s  unknown\n← s2c  unknown\n")
    assert "the recording of c2s and s2c begins after the handshake" in out
    assert out.count("keys shown as #number+suffix") == 1
    assert "#1+/r1" in out


def test_remark_on_exchanged_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the two files seem to\nbe exchanged" in shown(capsys, *written(tmp_path, S2C, C2S))


def test_transcript_of_one_direction_has_no_bytes_of_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, *files("queries_client_router")[:2])
    assert out.endswith("c2s: all 267 bytes followed; s2c: no bytes\n")


def test_transcript_of_empty_files_has_no_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, *written(tmp_path, b"", b"")).endswith("\n\n0 messages; c2s: no bytes; s2c: no bytes\n")


def test_truncated_session_is_reported_after_decoded_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", *written(tmp_path, C2S[:200], S2C)]) == 2
    printed = capsys.readouterr()
    assert '"hello4"' in printed.out
    assert "c2s: 177 of 200 bytes followed; s2c: all 129 bytes followed" in printed.out
    assert printed.err == (
        "zenspark decode: c2s ends in the middle of a batch at byte 200: expected 21 more bytes "
        "(the batch begins at byte 177)\n"
    )


def test_garbage_is_reported_after_decoded_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    garbled = S2C[:93] + b"\x18" + S2C[94:]
    assert main(["decode", *written(tmp_path, C2S, garbled)]) == 2
    printed = capsys.readouterr()
    assert "demo/k/r1" in printed.out
    assert "s2c: 91 of 129 bytes followed" in printed.out
    assert printed.err == "zenspark decode: s2c: expected a transport message at byte 93, found id 0x18\n"


def test_shows_messages_lost_by_the_receiver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first_push = S2C[57:91]
    out = " ".join(shown(capsys, *written(tmp_path, C2S, S2C[:91] + first_push)).split())
    assert "lost FRAME with 1 message dropped: sequence number 6376485 is not newer than 6376485" in out


def test_shows_best_effort(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = bytes.fromhex("0e0005b8ab80315d02010568656c6c6f")
    assert "best effort" in shown(capsys, *written(tmp_path, frame, b""))


# -- fields ---


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_prints_one_line_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    events = lines(shown(capsys, "--json", *files("lowlatency_client_router")))
    assert events[6] == {
        "from": "s2c",
        "offset": 61,
        "end": 87,
        "key": "demo/k/a",
        "fields": {
            "msg": "PUSH",
            "wire_expr": {"scope": 1, "suffix": "/a", "mapping": "receiver"},
            "body": {
                "kind": "PUT",
                "timestamp": {"ntp64": 7708479504911329488, "id": "a0a1a2a3"},
                "payload": "68656c6c6f",
            },
        },
    }
    assert events[-1] == {"from": "c2s", "offset": 111, "ignored": 4}


def test_prints_carrier_and_request_key_of_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    events = lines(shown(capsys, "--json", *files("queries_client_router")))
    assert events[5]["request_key"] == "q/srv/1"
    assert events[5]["carrier"] == {"reliable": True, "priority": 5, "sn": 6376485, "pieces": 1}


def test_prints_errors_as_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first_push = S2C[57:91]
    garbled = S2C[:91] + first_push + b"\x01\x00\x18"
    assert main(["decode", "--json", *written(tmp_path, C2S[:200], garbled)]) == 2
    events = lines(capsys.readouterr().out)
    lost = next(event for event in events if "lost" in event)
    assert (lost["from"], lost["offset"], lost["end"]) == ("s2c", 93, 125)
    assert [(event["from"], event["error"]) for event in events if "error" in event] == [
        ("s2c", {"message": "expected a transport message at byte 127, found id 0x18", "offset": 127}),
        ("c2s", {"message": "21 more bytes expected in the batch at 177", "offset": 177}),
    ]
