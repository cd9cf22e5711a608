import json
from pathlib import Path

import pytest

from zenspark.cli import main
from zenspark.cli.encode import encode_line, to_bytes
from zenspark.errors import UsageError

PUSH = {
    "msg": "PUSH",
    "wire_expr": {"scope": 0, "suffix": "demo/hello", "mapping": "receiver"},
    "body": {"kind": "PUT", "payload": "68656c6c6f"},
}
HEX = "3d000a64656d6f2f68656c6c6f010568656c6c6f"


def test_jsonl_lines_are_encoded_to_hexadecimal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines"
    lines = [{"layer": "network", "fields": PUSH}, {"layer": "transport", "fields": {"msg": "KEEP_ALIVE"}}]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert main(["encode", "--jsonl", str(path)]) == 0
    assert capsys.readouterr().out == f'{{"hex":"{HEX}"}}\n{{"hex":"04"}}\n'


def test_messages_are_encoded_by_layer_and_an_unknown_layer_is_rejected() -> None:
    alive = {"msg": "KEEP_ALIVE"}
    assert to_bytes("transport", alive) == b"\x04"
    assert to_bytes("stream", {"framing": "u16", "messages": [alive]}) == b"\x01\x00\x04"
    assert to_bytes("scouting", {"msg": "SCOUT", "version": 9, "what": 3}) == b"\x01\x09\x03"
    with pytest.raises(UsageError, match="unknown layer 'session': transport, network, scouting or stream"):
        to_bytes("session", alive)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "Input data was truncated"),
        (b"{", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"layer": "network"}', "Object missing required field `fields`"),
        (b'{"layer": "network", "fields": {}}', "fields.msg: expected one of INTEREST"),
        (b'{"layer": "nowhere", "fields": {}}', "unknown layer 'nowhere'"),
        (b'{"layer": "transport", "fields": {"msg": "CLOSE", "session": false, "reason": 256}}', "CLOSE.reason: 256"),
        (b'{"layer": "\xff", "fields": {}}', "invalid start byte"),
        (b"[" * 100000, "Expected `object`, got `array`"),  # rejected before anything nested is read
    ],
)
def test_invalid_line_encodes_to_an_error_object(line: bytes, message: str) -> None:
    error = encode_line(line)["error"]
    assert list(error) == ["message"]
    assert message in error["message"]


def test_errors_of_lines_do_not_end_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines"
    path.write_text('no json\n{"layer": "transport", "fields": {"msg": "KEEP_ALIVE"}}\n')
    assert main(["encode", "--jsonl", str(path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "error" in json.loads(first)
    assert json.loads(second) == {"hex": "04"}


def test_encode_without_jsonl_is_a_one_line_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encode"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
