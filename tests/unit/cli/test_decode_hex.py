import json

import pytest

from zenspark.cli import main
from zenspark.cli.decode_hex import detect_layer

FRAME = "a5b3ab803131009e21082001000664656d6f2f6bf90253022108"
PUSH = "5d02010568656c6c6f"
TWO_FRAMES = f"390005b8ab8031{PUSH}{PUSH}{PUSH}25bfab80317d000a64656d6f2f6b2f72656c0105000102feff"
COMPRESSED = "250001ff0925b3ab80317d000864656d6f2f6b2f6301c80168656c6c6f0500aa606f68656c6c6f"


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def drawn(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["decode", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_draws_messages_inside_messages(capsys: pytest.CaptureFixture[str]) -> None:
    assert drawn(capsys, FRAME).splitlines() == [
        "FRAME at byte 0, 26 bytes",
        " 7 6 5 4 3 2 1 0",
        "+-+-+-+-+-+-+-+-+",
        "|Z|X|R|   0x05  | 0 a5                  Z, R reliable",
        "+-+-+-+---------+",
        "%       sn      % 1 b3 ab 80 31         102766003",
        "+---------------+",
        "~   [priority]  ~ 5 31 00               0 control",
        "+---------------+",
        "~      msgs     ~ 7 9e 21 08 20 01 00 … 2 messages, below",
        "+---------------+",
        "├── DECLARE at byte 7, 13 bytes",
        "│    7 6 5 4 3 2 1 0",
        "│   +-+-+-+-+-+-+-+-+",
        "│   |Z|X|I|   0x1e  |  7 9e                  Z",
        "│   +-+-+-+---------+",
        "│   ~     [qos]     ~  8 21 08               priority 0 control block",
        "│   +---------------+",
        "│   ~      body     ~ 10 20 01 00 06 64 65 … D_KEYEXPR, below",
        "│   +---------------+",
        "│   └── D_KEYEXPR at byte 10, 10 bytes",
        "│        7 6 5 4 3 2 1 0",
        "│       +-+-+-+-+-+-+-+-+",
        "│       |Z|X|N|   0x00  | 10 20                  N",
        "│       +-+-+-+---------+",
        "│       %    expr_id    % 11 01                  1",
        "│       +---------------+",
        "│       ~   wire_expr   ~ 12 00 06 64 65 6d 6f … demo/k",
        "│       +---------------+",
        "└── INTEREST at byte 20, 6 bytes",
        "     7 6 5 4 3 2 1 0",
        "    +-+-+-+-+-+-+-+-+",
        "    |Z|MOD|   0x19  | 20 f9    Z, MODE CurrentFuture",
        "    +-+---+---------+",
        "    %       id      % 21 02    2",
        "    +---------------+",
        "    |A|M|N|R|T|Q|S|K| 22 53    M, R, S subscribers, K keyexprs",
        "    +-+-+-+-+-+-+-+-+",
        "    ~   wire_expr   ~ 23 02    key 2 of the sender",
        "    +---------------+",
        "    ~     [qos]     ~ 24 21 08 priority 0 control block",
        "    +---------------+",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_boxes_fit_the_terminal_width(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for text in (FRAME, TWO_FRAMES, COMPRESSED):
        assert max(map(len, drawn(capsys, text).splitlines())) <= columns


def test_wide_terminal_shows_more_bytes_of_a_field(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert "~   wire_expr   ~ 12 00 06 64 65 6d 6f 2f 6b demo/k" in drawn(capsys, FRAME)


def test_messages_before_a_malformed_one_are_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", FRAME, "26"]) == 2
    printed = capsys.readouterr()
    assert "D_KEYEXPR at byte 10" in printed.out
    assert "FRAGMENT at byte 26, 1 byte, broken" in printed.out
    assert printed.err == "zenspark decode: FRAGMENT: expected an integer at byte 27, found the end\n"


def test_unit_extension_is_drawn_without_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert "|     [qos]     | 10 81" in drawn(capsys, "c10932c3c2c1c00ac8ff812701")


# -- which layer ---


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        (FRAME, "transport"),
        ("9a01210d", "network"),
        (TWO_FRAMES, "stream"),
        ("0d0000009e21082001000664656d6f2f6b", "stream"),
        ("0100", "transport"),
        ("1d", "network"),
    ],
)
def test_layer_is_detected_from_the_bytes(text: str, layer: str) -> None:
    assert detect_layer(bytes.fromhex(text))[0] == layer


def test_undecodable_bytes_are_reported_by_their_first_byte(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "08"]) == 2
    assert capsys.readouterr().err == "zenspark decode: expected a transport message at byte 0, found id 0x08\n"


def test_fallback_to_another_layer_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    out = drawn(capsys, "14002" + "58bac80317d00056269672f73010568656c6c6f")
    assert out.startswith(
        "No message begins with 0x14: read as a stream.\nbatch at byte 0: 20 bytes behind a u16 length"
    )
    out = drawn(capsys, "010004")
    assert out.startswith("Not a transport message (INIT_SYN: expected")
    assert "read as a" in out


def test_draws_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    out = drawn(capsys, "--layer", "stream", "00001400258bac80317d00056269672f73010568656c6c6f")
    assert "batch at byte 0: 0 bytes behind a u16 length\nbatch at byte 2: 20 bytes behind a u16 length\n" in out
    assert "└── PUSH at byte 9, 15 bytes" in out
    out = drawn(capsys, "--layer", "stream", "0d0000009e21082001000664656d6f2f6b")
    assert "batch at byte 0: 13 bytes behind a u32 length\nDECLARE at byte 4, 13 bytes\n" in out


def test_draws_a_compressed_batch(capsys: pytest.CaptureFixture[str]) -> None:
    out = drawn(capsys, "--layer", "stream", COMPRESSED)
    assert "compressed; unpacked, and counted from 0, it has 219 bytes\nFRAME at byte 0, 219 bytes\n" in out


def test_scouting_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert drawn(capsys, "--layer", "scouting", "010903").startswith("SCOUT at byte 0, 3 bytes")


# -- fields ---


def test_prints_the_fields_of_each_message(capsys: pytest.CaptureFixture[str]) -> None:
    lines = drawn(capsys, "--json", "04", FRAME).splitlines()
    assert [json.loads(line)["msg"] for line in lines] == ["KEEP_ALIVE", "FRAME"]


def test_prints_the_fields_of_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    fields = json.loads(drawn(capsys, "--json", "010004"))
    assert fields == {"framing": "u16", "batch_len": 1, "messages": [{"msg": "KEEP_ALIVE"}]}


def test_json_flag_reports_a_fallback_to_a_stream_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--json", "010004"]) == 0
    error = capsys.readouterr().err
    assert error.startswith("zenspark decode: Not a transport message (INIT_SYN: expected")
    assert error.endswith("): read as a stream.\n")
    assert main(["decode", "--json", "04"]) == 0
    assert capsys.readouterr().err == ""


def test_json_flag_prints_no_fields_of_a_malformed_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--json", "0403"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "zenspark decode: CLOSE: expected a byte at byte 2, found the end\n")
