import json
import subprocess
import sys
from pathlib import Path

import pytest

from zenspark.cli import main
from zenspark.cli.decode import decode_line, from_hex
from zenspark.errors import UsageError

HELLO = "3d000a64656d6f2f68656c6c6f010568656c6c6f"
STREAMS = Path(__file__).parents[2] / "vectors" / "streams"


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["decode", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def error_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["decode", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error.strip()


# -- hexadecimal ---


@pytest.mark.parametrize(
    "text",
    [
        "01a2ff",
        "01A2FF",
        "01 a2 ff",
        "01:a2:ff",
        "0x01 0xa2 0xFF",
        "0x01,0xa2,0xff",
        "0x01A2ff",
        " 01a2\nff ",
        "0 1a 2ff",
    ],
)
def test_hexadecimal_with_prefixes_and_separators_is_parsed(text: str) -> None:
    assert from_hex(text) == b"\x01\xa2\xff"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("abc", "3 hexadecimal digits are not a whole number of bytes"),
        ("zz", "'z' is not a hexadecimal digit"),
        ("0x", None),
        ("10x1", "'x' is not a hexadecimal digit"),
    ],
)
def test_invalid_hexadecimal_is_reported(text: str, problem: str | None) -> None:
    if problem is None:
        assert from_hex(text) == b""
    else:
        with pytest.raises(UsageError, match=problem):
            from_hex(text)


# -- which way ---


def test_draws_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed([HELLO], capsys)
    assert out.startswith("PUSH at byte 0, 20 bytes\n 7 6 5 4 3 2 1 0\n+-+-+-+-+-+-+-+-+\n|Z|M|N|   0x1d  |")
    assert '~    payload    ~ 14 05 68 65 6c 6c 6f "hello"\n' in out


def test_takes_several_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(["3D:00:0A", "64656d6f2f68656c6c6f", "0x01 05", "68656c6c6f"], capsys) == printed([HELLO], capsys)


def test_prints_fields(capsys: pytest.CaptureFixture[str]) -> None:
    fields = json.loads(printed([HELLO, "--json"], capsys))
    assert fields["body"] == {"kind": "PUT", "payload": "68656c6c6f"}


def test_both_directions_of_a_captured_session_are_decoded(capsys: pytest.CaptureFixture[str]) -> None:
    name = STREAMS / "queries_client_router"
    out = printed(["--c2s", f"{name}.c2s.bin", "--s2c", f"{name}.s2c.bin"], capsys)
    assert out.endswith("23 messages; c2s: all 267 bytes followed; s2c: all 286 bytes followed\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give HEX, or --jsonl, or --c2s and --s2c"),
        (["00", "--jsonl", "-"], "give HEX, or --jsonl, or --c2s and --s2c, not several of them"),
        (["00", "--c2s", "x"], "not several of them"),
        (["--layer", "network", "--jsonl", "-"], "--layer needs HEX"),
        (
            ["--layer", "session", "00"],
            "--layer: expected one of scouting, transport, network, stream, found 'session'",
        ),
        (["abc"], "zenspark decode: 3 hexadecimal digits are not a whole number of bytes"),
        ([""], "HEX is empty"),
        (["--jsonl", "nowhere.jsonl"], "zenspark decode: nowhere.jsonl: No such file or directory"),
        (["--s2c", "nowhere.bin"], "zenspark decode: nowhere.bin: No such file or directory"),
    ],
)
def test_bad_arguments_are_one_line(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert problem in error_line(arguments, capsys)


# -- lines ---


def test_jsonl_lines_decode_to_fields_or_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines"
    path.write_text('{"layer": "transport", "hex": "04"}\n{"layer": "transport", "hex": "03"}\n')
    lines = printed(["--jsonl", str(path)], capsys).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"fields": {"msg": "KEEP_ALIVE"}},
        {"error": {"message": "CLOSE: expected a byte at byte 1, found the end", "offset": 1}},
    ]


@pytest.mark.parametrize(
    ("line", "message", "offset"),
    [
        (b'{"layer": "network", "hex": "ff00"}', "OAM: expected a known body encoding at byte 0, found 3", 0),
        (b'{"layer": "stream", "hex": "0500"}', "expected 5 more bytes at byte 2, found the end", 2),
        (b'{"layer": "network", "hex": "f"}', "1 hexadecimal digits are not a whole number of bytes", None),
        (b'{"layer": "session", "hex": "00"}', "unknown layer 'session': scouting, transport, network, stream", None),
        (b'{"layer": "network"}', "Object missing required field `hex`", None),
        (b'{"layer": "network", "hex": 7}', "Expected `str`, got `int` - at `$.hex`", None),
        (b'{"layer": "stream", "hex": "00", "framing": "u8"}', "Invalid enum value 'u8' - at `$.framing`", None),
        (b"", "Input data was truncated", None),
        (b"{]", "JSON is malformed", None),
    ],
)
def test_invalid_line_decodes_to_an_error_object(line: bytes, message: str, offset: int | None) -> None:
    error = decode_line(line)["error"]
    assert (error["offset"], message in error["message"]) == (offset, True), error


@pytest.mark.parametrize("line", [b'{"layer": "\xff"', b"[" * 100000])
def test_invalid_utf8_and_deep_nesting_decode_to_an_error_object(line: bytes) -> None:
    assert decode_line(line)["error"]["offset"] is None


def test_line_may_give_framing_and_compression_of_a_stream() -> None:
    line = {"layer": "stream", "hex": "02000004", "framing": "u16", "compression": True}
    assert decode_line(json.dumps(line).encode())["fields"]["compression_header"] == 0


@pytest.mark.slow
def test_decoding_jsonl_does_not_import_rich() -> None:
    code = (
        "import sys; from zenspark.cli import main; main(['decode', '--jsonl', '-']);"
        "print([name for name in sys.modules if name in ('rich', 'hashlib', 'zenspark.wire.trace')], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=b'{"layer": "transport", "hex": "04"}', capture_output=True, check=True
    )
    assert json.loads(done.stdout) == {"fields": {"msg": "KEEP_ALIVE"}}
    assert done.stderr == b"[]\n"
