import pytest

from zenspark.cli.formatters import (
    details,
    format_key_expr,
    format_preview,
    format_qos,
    format_title,
    format_value,
    printable,
    truncate,
)
from zenspark.wire.codec import encode_link_states
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import (
    Close,
    Declare,
    DeclareFinal,
    DeclareQueryable,
    Err,
    Frame,
    Interest,
    KeepAlive,
    LinkState,
    NetworkOam,
    OpenSyn,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
)
from zenspark.wire.values import (
    BoundExpr,
    Congestion,
    Encoding,
    EntityId,
    Extension,
    InterestMode,
    Locator,
    Mapping,
    Priority,
    QoS,
    QueryableInfo,
    QueryBody,
    SourceInfo,
    Timestamp,
    TimestampRecord,
    TimestampStack,
    TimeUnit,
    WireExpr,
    ZenohId,
)

ZID = ZenohId.parse("a0a1a2a3")
EXPR = WireExpr(0, "a/b")


def test_control_characters_from_the_network_are_escaped() -> None:
    assert printable("a\x1b[31m\r\n\tü\x7f") == r"a\x1b[31m\r\n\tü\x7f"
    assert printable("\x85\u200b\u202e\U000e0001") == r"\x85\u200b\u202e\U000e0001"
    assert printable("plain") == "plain"
    assert format_value("\x07") == r'"\x07"'
    assert format_preview(b"line\n\x1b[2J") == "6c 69 6e 65 0a 1b 5b 32 4a"
    assert format_key_expr(WireExpr(0, "k\x1b")) == r"k\x1b"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "empty"),
        (b"hello", '"hello"'),
        (b"two\nlines", r'"two\nlines"'),
        (b"\x00\x01", "00 01"),
        ("grüß".encode(), '"grüß"'),
        (b"x" * 28, f'"{"x" * 28}"'),
        (b"x" * 29, f'"{"x" * 27}…" 29 bytes'),
        (b"\xff" * 10, "ff ff ff ff ff ff ff ff ff … 10 bytes"),
        ("ü".encode() * 200, f'"{"ü" * 27}…" 400 bytes'),
        (b"x" + "ü".encode() * 200, f'"x{"ü" * 26}…" 401 bytes'),
    ],
)
def test_previews_bytes(data: bytes, text: str) -> None:
    assert format_preview(data) == text


def test_long_text_is_truncated_with_an_ellipsis() -> None:
    assert truncate("abcdef", 6) == "abcdef"
    assert truncate("abcdefg", 6) == "abcde…"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Timestamp(7386664595088445305, ZenohId(0x33)), "2024-07-01 13:51:12.129693 by 33"),
        (Timestamp((1 << 64) - 1, ZID), "2106-02-07 06:28:16.000000 by a0a1a2a3"),
        (QoS.DEFAULT, "default"),
        (QoS(Priority.REAL_TIME, Congestion.BLOCK_FIRST, True), "priority 1 real_time block first express"),
        (EXPR, "a/b"),
        (WireExpr(), "none"),
        (WireExpr(3, "/x", Mapping.SENDER), "key 3 of the sender + /x"),
        (BoundExpr(3), "key 3"),
        (Encoding(4, "utf-8"), "text/plain;utf-8"),
        (ZID, "a0a1a2a3"),
        (Locator("tcp/x:1"), "tcp/x:1"),
        ((Locator("tcp/x:1"), Locator("udp/y:2")), "tcp/x:1, udp/y:2"),
        ((), "none"),
        (EntityId(ZID, 6), "a0a1a2a3/6"),
        (SourceInfo(ZID, 6, 9), "a0a1a2a3/6 sn 9"),
        (EntityId(ZenohId((1 << 128) - 1), 6), "ffffffff…/6"),
        (ZenohId((1 << 128) - 1), "f" * 32),
        (Priority.CONTROL, "0 control"),
        (InterestMode.CURRENT_FUTURE, "CurrentFuture"),
        (QueryableInfo(True, 0), "complete"),
        (QueryableInfo(False, 2), "incomplete at distance 2"),
        (QueryBody(Encoding.BYTES, b"x"), '"x"'),
        (QueryBody(Encoding(5), b"x"), '"x" application/json'),
        (Extension(0x05), "unknown extension 0x5"),
        (Extension(0x25, 7), "unknown extension 0x5 7"),
        (TimestampStack(1, (TimestampRecord(2, b"\x01"),)), "conf_flags 1, stack [{'flags': 2, 'ts': '01'}]"),
        (42, "42"),
    ],
)
def test_wire_values_are_formatted_as_text(value: object, text: str) -> None:
    assert format_value(value) == text


def test_formats_qos() -> None:
    assert format_qos(QoS.REQUEST) == "block"
    assert format_qos(QoS.DECLARE) == "priority 0 control block"


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (KeepAlive(), "KEEP_ALIVE"),
        (Push(wire_expr=EXPR, body=Put(payload=b"")), "PUSH PUT"),
        (Request(request_id=1, wire_expr=EXPR, body=Query(body=QueryBody(Encoding.BYTES, b""))), "REQUEST"),
        (Response(request_id=1, wire_expr=EXPR, body=Reply(body=Put(payload=b""))), "RESPONSE PUT"),
        (Response(request_id=1, wire_expr=EXPR, body=Err(payload=b"")), "RESPONSE ERR"),
        (Declare(body=DeclareFinal()), "D_FINAL"),
    ],
)
def test_title_names_the_message_and_its_body(message: Message, name: str) -> None:
    assert format_title(message) == name


def test_shows_payload_first_then_non_default_fields() -> None:
    put = Put(payload=b"hello", encoding=Encoding(4), timestamp=Timestamp(1 << 32, ZID), attachment=b"\x01")
    push = Push(wire_expr=EXPR, qos=QoS(Priority.REAL_TIME), body=put, exts=(Extension(0x05),))
    assert details(push) == [
        '"hello"',
        "priority 1 real_time",
        "unknown extension 0x5",
        "at 1970-01-01 00:00:01.000000 by a0a1a2a3",
        "text/plain",
        "attachment 01",
    ]
    assert details(Push(wire_expr=EXPR, qos=QoS.REQUEST, body=Put(payload=b"x"))) == ['"x"']


def test_formats_flags_leases_cookies_and_reasons() -> None:
    assert details(Close(session=True, reason=4)) == ["session", "reason 4 max_links"]
    opening = OpenSyn(unit=TimeUnit.S, lease=10, initial_sn=7, cookie=b"abc")
    assert details(opening) == ["lease 10 s", "initial_sn 7", "cookie of 3 bytes"]
    interest = Interest(id=2, mode=InterestMode.FUTURE, tokens=True, wire_expr=EXPR)
    assert details(interest) == ["mode Future", "id 2", "tokens"]
    queryable = DeclareQueryable(id=4, wire_expr=EXPR, info=QueryableInfo(True))
    assert details(Declare(body=queryable, qos=QoS.DECLARE)) == ["id 4", "complete"]
    assert details(Frame(reliable=True, sn=3)) == ["reliable", "sn 3"]


def test_details_of_oam_have_the_decoded_link_states() -> None:
    entry = LinkState(psid=1, sn=2, zid=ZID, locators=(Locator("tcp/x:1"),), links=(0,))
    oam = NetworkOam(id=1, zbuf=encode_link_states([entry]))
    assert details(oam) == ["id 1", "node (psid 1, sn 2, zid a0a1a2a3, locators tcp/x:1, links 0)"]
    assert details(NetworkOam(id=2, zbuf=b"\x00")) == ["id 2", "zbuf 00"]
    (_, broken) = details(NetworkOam(id=1, zbuf=b"\x05"))
    assert broken.startswith("link states that cannot be read: ")
