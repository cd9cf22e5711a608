import json
from typing import Any

import pytest

from zenspark.errors import EncodeError, UsageError
from zenspark.wire.codec import encode
from zenspark.wire.json_fields import DECODERS, LAYERS, from_json_fields, to_json_fields, to_plain
from zenspark.wire.message_schema import Message, z64
from zenspark.wire.messages import (
    Declare,
    DeclareSubscriber,
    Err,
    Fragment,
    Frame,
    Hello,
    InitSyn,
    Interest,
    Join,
    KeepAlive,
    LinkState,
    NetworkMessage,
    NetworkOam,
    Push,
    Put,
    Query,
    Request,
    Response,
    Scout,
    ScoutingMessage,
    TransportMessage,
)
from zenspark.wire.values import (
    Congestion,
    Encoding,
    EntityId,
    Extension,
    InterestMode,
    Locator,
    Mapping,
    NextSns,
    Priority,
    QoS,
    QueryBody,
    Roles,
    SourceInfo,
    Timestamp,
    TimestampRecord,
    TimestampStack,
    TimeUnit,
    WhatAmI,
    WireExpr,
    ZenohId,
)

ZID = ZenohId(0xA0A1)
PUT = {"kind": "PUT", "payload": "6869"}
PUSH = {"msg": "PUSH", "wire_expr": {"scope": 0, "suffix": "a", "mapping": "sender"}, "body": PUT}
JOIN = {"msg": "JOIN", "version": 9, "whatami": "peer", "zid": "7", "unit": "s", "lease": 1, "sn_re": 0, "sn_be": 0}

SHOWN: list[tuple[type[Message], Message, dict[str, Any]]] = [
    (ScoutingMessage, Scout(version=9, what=Roles(3)), {"msg": "SCOUT", "version": 9, "what": 3}),
    (
        ScoutingMessage,
        Hello(version=9, whatami=WhatAmI.ROUTER, zid=ZID, locators=(Locator("tcp/h:1"),)),
        {"msg": "HELLO", "version": 9, "whatami": "router", "zid": "a0a1", "locators": ["tcp/h:1"]},
    ),
    (TransportMessage, KeepAlive(), {"msg": "KEEP_ALIVE"}),
    (
        TransportMessage,
        KeepAlive(exts=(Extension(0x4F, b"\xaa"), Extension(0x2E, 5))),
        {
            "msg": "KEEP_ALIVE",
            "exts": [
                {"id": 15, "enc": "zbuf", "mandatory": False, "value": "aa"},
                {"id": 14, "enc": "z64", "mandatory": False, "value": 5},
            ],
        },
    ),
    (
        TransportMessage,
        InitSyn(
            version=9,
            whatami=WhatAmI.CLIENT,
            zid=ZID,
            resolution=10,
            batch_size=65_535,
            qos=True,
            shm=b"\xaa",
            patch=1,
            region_name="eu",
            exts=(Extension(0x0F),),
        ),
        {
            "msg": "INIT_SYN",
            "version": 9,
            "whatami": "client",
            "zid": "a0a1",
            "resolution": 10,
            "batch_size": 65_535,
            "exts": [
                {"id": 1, "enc": "unit", "mandatory": False},
                {"id": 2, "enc": "zbuf", "mandatory": False, "value": "aa"},
                {"id": 7, "enc": "z64", "mandatory": False, "value": 1},
                {"id": 8, "enc": "zbuf", "mandatory": False, "value": "6575"},
                {"id": 15, "enc": "unit", "mandatory": False},
            ],
        },
    ),
    (
        TransportMessage,
        Join(
            version=9,
            whatami=WhatAmI.PEER,
            zid=ZenohId(7),
            unit=TimeUnit.S,
            lease=1,
            sn_re=0,
            sn_be=0,
            qos=NextSns(((1, 2),) * 8),
        ),
        {**JOIN, "exts": [{"id": 1, "enc": "zbuf", "mandatory": True, "value": "0102" * 8}]},
    ),
    (
        TransportMessage,
        Frame(reliable=True, sn=1),
        {"msg": "FRAME", "reliable": True, "sn": 1, "priority": 5, "msgs": []},
    ),
    (
        TransportMessage,
        Frame(
            reliable=False,
            sn=1,
            priority=Priority.CONTROL,
            msgs=(Push(wire_expr=WireExpr(0, "a"), body=Put(payload=b"hi")),),
        ),
        {"msg": "FRAME", "reliable": False, "sn": 1, "priority": 0, "qos_raw": 0, "msgs": [PUSH]},
    ),
    (
        TransportMessage,
        Fragment(more=True, reliable=True, sn=1, first=True, payload=b"\xaa\xbb"),
        {
            "msg": "FRAGMENT",
            "more": True,
            "reliable": True,
            "sn": 1,
            "first": True,
            "priority": 5,
            "payload": "aabb",
            "payload_len": 2,
        },
    ),
    (
        NetworkMessage,
        Push(
            wire_expr=WireExpr(3, "", Mapping.RECEIVER),
            qos=QoS(Priority.DATA, Congestion.BLOCK_FIRST, True),
            ts_stack=TimestampStack(1, (TimestampRecord(4, b"\xcc"),)),
            body=Put(
                timestamp=Timestamp(1 << 63, ZID),
                encoding=Encoding(4, "utf-8"),
                source_info=SourceInfo(ZID, 1, 2),
                attachment=b"",
                payload=b"",
            ),
        ),
        {
            "msg": "PUSH",
            "wire_expr": {"scope": 3, "suffix": "", "mapping": "receiver"},
            "qos": {"priority": 5, "congestion": "block_first", "express": True},
            "ts_stack": {"conf_flags": 1, "stack": [{"flags": 4, "ts": "cc"}]},
            "body": {
                "kind": "PUT",
                "timestamp": {"ntp64": 1 << 63, "id": "a0a1"},
                "encoding": {"id": 4, "schema": "utf-8"},
                "source_info": {"zid": "a0a1", "eid": 1, "sn": 2},
                "attachment": "",
                "payload": "",
            },
        },
    ),
    (
        NetworkMessage,
        Request(request_id=1, wire_expr=WireExpr(1), body=Query(body=QueryBody(Encoding.BYTES, b"x"))),
        {
            "msg": "REQUEST",
            "request_id": 1,
            "wire_expr": {"scope": 1, "suffix": "", "mapping": "sender"},
            "body": {"kind": "QUERY", "body": {"encoding": {"id": 0}, "payload": "78"}},
        },
    ),
    (
        NetworkMessage,
        Response(request_id=1, wire_expr=WireExpr(1), responder=EntityId(ZID, 3), body=Err(payload=b"no")),
        {
            "msg": "RESPONSE",
            "request_id": 1,
            "wire_expr": {"scope": 1, "suffix": "", "mapping": "sender"},
            "responder": {"zid": "a0a1", "eid": 3},
            "body": {"kind": "ERR", "payload": "6e6f"},
        },
    ),
    (
        NetworkMessage,
        Declare(interest_id=0, body=DeclareSubscriber(id=1, wire_expr=WireExpr(1))),
        {
            "msg": "DECLARE",
            "interest_id": 0,
            "body": {
                "decl": "D_SUBSCRIBER",
                "id": 1,
                "wire_expr": {"scope": 1, "suffix": "", "mapping": "sender"},
            },
        },
    ),
    (NetworkMessage, Interest(mode=InterestMode.FINAL, id=1), {"msg": "INTEREST", "mode": "Final", "id": 1}),
    (
        NetworkMessage,
        Interest(mode=InterestMode.CURRENT_FUTURE, id=1, aggregate=True, subscribers=True, wire_expr=WireExpr(1, "/*")),
        {
            "msg": "INTEREST",
            "mode": "CurrentFuture",
            "id": 1,
            "options": "SRNMA",
            "wire_expr": {"scope": 1, "suffix": "/*", "mapping": "sender"},
        },
    ),
    (
        NetworkMessage,
        NetworkOam(id=1, zbuf=bytes.fromhex("0115000101a0000101")),
        {
            "msg": "OAM",
            "id": 1,
            "zbuf": "0115000101a0000101",
            "linkstate": [
                {"options": 0x15, "psid": 0, "sn": 1, "zid": "a0", "locators": [], "links": [1]},
            ],
        },
    ),
    (
        NetworkMessage,
        NetworkOam(id=1, zbuf=b"\x01"),
        {
            "msg": "OAM",
            "id": 1,
            "zbuf": "01",
            "linkstate_error": "expected an integer at byte 1, found the end",
        },
    ),
    (NetworkMessage, NetworkOam(id=2, zbuf=b"\x01"), {"msg": "OAM", "id": 2, "zbuf": "01"}),
    (NetworkMessage, NetworkOam(id=1), {"msg": "OAM", "id": 1}),
]


@pytest.mark.parametrize(("family", "message", "shown"), SHOWN, ids=[shown["msg"] for _, _, shown in SHOWN])
def test_messages_round_trip_through_json_fields(
    family: type[Message], message: Message, shown: dict[str, Any]
) -> None:
    assert to_json_fields(message) == shown
    assert from_json_fields(family, json.loads(json.dumps(shown))) == message


def test_any_family_of_declarations_can_be_shown() -> None:
    class Family(Message): ...

    class Numbers(Family, header="Z|_:2|0x01"):
        found: tuple[z64, ...]

    assert to_json_fields(Numbers(found=(1, 2))) == {"msg": "NUMBERS", "found": [1, 2]}
    assert from_json_fields(Family, {"msg": "NUMBERS", "found": [1, 2]}) == Numbers(found=(1, 2))


def test_layers_are_decoded_by_name() -> None:
    assert LAYERS.keys() == DECODERS.keys()
    for layer, wire in {"scouting": "010903", "transport": "04", "network": "1d0002"}.items():
        assert isinstance(DECODERS[layer](bytes.fromhex(wire)), LAYERS[layer])


def test_link_states_are_shown_with_their_flag_byte() -> None:
    entry = LinkState(gateway=True, psid=0, sn=1, whatami=4, links=(1,), weights=(7,))
    assert to_plain(entry) == {"options": 0x1A, "psid": 0, "sn": 1, "whatami": 4, "links": [1], "weights": [7]}


def test_absent_json_fields_may_be_null() -> None:
    assert from_json_fields(NetworkMessage, {**PUSH, "timestamp": None}) == from_json_fields(NetworkMessage, PUSH)
    encoding = {"id": 4, "schema": None}
    push = from_json_fields(NetworkMessage, {**PUSH, "body": {**PUT, "encoding": encoding}})
    assert isinstance(push, Push)
    assert isinstance(push.body, Put)
    assert push.body.encoding == Encoding(4)


def with_body(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - anything JSON has
    return {**PUSH, "body": {**PUT, **fields}}


def keep_alive(extension: Any) -> dict[str, Any]:  # noqa: ANN401 - anything JSON has
    return {"msg": "KEEP_ALIVE", "exts": [extension]}


def join(extension: Any) -> dict[str, Any]:  # noqa: ANN401 - anything JSON has
    return {**JOIN, "exts": [extension]}


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


WRONG: list[tuple[type[Message], Any, str]] = [
    (NetworkMessage, [], "fields: expected an object, got []"),
    (NetworkMessage, {}, "fields.msg: expected one of INTEREST, RESPONSE_FINAL"),
    (NetworkMessage, {"msg": "FRAME"}, 'OAM, got "FRAME"'),
    (NetworkMessage, {"msg": ["PUSH"]}, 'OAM, got ["PUSH"]'),
    (NetworkMessage, {"msg": "\ud800"}, r"OAM, got '\ud800'"),
    (NetworkMessage, {"msg": 10**40}, f"OAM, got {10**40}"),
    (NetworkMessage, {"msg": nested(100_000)}, "OAM, got [[[[[[[...]]]]]]]"),
    (NetworkMessage, {"msg": "PUSH"}, "fields.wire_expr is missing"),
    (NetworkMessage, {**PUSH, "pay": 1, "boddy": 1}, "fields (PUSH) has no field 'boddy'; did you mean 'body'?"),
    (NetworkMessage, {**PUSH, "zzz": 1}, "fields (PUSH) has no field 'zzz'; known: wire_expr, qos, "),
    (NetworkMessage, {**PUSH, "wire_expr": None}, "fields.wire_expr: expected an object, got null"),
    (NetworkMessage, {**PUSH, "wire_expr": {"scop": 1}}, "fields.wire_expr has no field 'scop'; did you mean 'scope'?"),
    (NetworkMessage, {**PUSH, "wire_expr": {"scope": "1"}}, 'fields.wire_expr.scope: expected an integer, got "1"'),
    (NetworkMessage, {**PUSH, "wire_expr": {"suffix": 1}}, "fields.wire_expr.suffix: expected text, got 1"),
    (NetworkMessage, {**PUSH, "node_id": True}, "fields.node_id: expected an integer, got true"),
    (NetworkMessage, {**PUSH, "qos": {"express": 1}}, "fields.qos.express: expected true or false, got 1"),
    (NetworkMessage, {**PUSH, "qos": {"priority": True}}, "fields.qos.priority: expected one of 0, 1, 2, 3"),
    (NetworkMessage, {**PUSH, "qos": {"priority": 8}}, "fields.qos.priority: expected one of 0, 1, 2, 3"),
    (NetworkMessage, {**PUSH, "qos": {"congestion": "stop"}}, "expected one of drop, block, block_first, got"),
    (NetworkMessage, {**PUSH, "timestamp": {"ntp64": 1}}, "fields.timestamp.id is missing"),
    (NetworkMessage, {**PUSH, "timestamp": {"ntp64": 1, "id": "A"}}, "fields.timestamp.id: zid: 'A' is not"),
    (NetworkMessage, with_body(kind="QUERYY"), "fields.body.kind: expected one of PUT, DEL, QUERY, REPLY, ERR, got"),
    (NetworkMessage, with_body(payload="6"), "fields.body.payload: expected hexadecimal text with two digits a byte"),
    (NetworkMessage, with_body(payload="\ud800"), "fields.body.payload: expected hexadecimal text"),
    (NetworkMessage, with_body(payload=7), "fields.body.payload: expected text, got 7"),
    (NetworkMessage, {"msg": "INTEREST", "mode": "Now", "id": 1}, "fields.mode: expected one of Final, Current"),
    (NetworkMessage, {"msg": "INTEREST", "options": "X"}, "fields.options: expected letters out of KSQTRNMA"),
    (NetworkMessage, {"msg": "INTEREST", "options": ["K"]}, "fields.options: expected letters out of KSQTRNMA"),
    (
        NetworkMessage,
        {"msg": "INTEREST", "options": "KR"},
        "fields.options: expected R exactly if there is a wire_expr",
    ),
    (NetworkMessage, {"msg": "INTEREST", "tokens": True}, "fields.tokens: is the letter T in options"),
    (TransportMessage, {"msg": "FRAME", "reliable": True, "sn": 1, "msgs": {}}, "fields.msgs: expected a list, got {}"),
    (
        TransportMessage,
        {"msg": "FRAME", "reliable": True, "sn": 1, "msgs": [PUSH, {"msg": "PUSH"}]},
        "fields.msgs[1].wire_expr is missing",
    ),
    (ScoutingMessage, {"msg": "SCOUT", "version": 9, "what": "all"}, 'fields.what: expected an integer, got "all"'),
    (
        ScoutingMessage,
        {"msg": "HELLO", "version": 9, "whatami": "peer", "zid": "7", "locators": "tcp/a"},
        'fields.locators: expected a list, got "tcp/a"',
    ),
    (
        ScoutingMessage,
        {"msg": "HELLO", "version": 9, "whatami": "peer", "zid": "7", "locators": [7]},
        "fields.locators[0]: expected text, got 7",
    ),
    (TransportMessage, keep_alive(7), "fields.exts[0]: expected an object, got 7"),
    (TransportMessage, keep_alive({"idd": 1}), "fields.exts[0] has no field 'idd'; did you mean 'id'?"),
    (TransportMessage, keep_alive({}), "fields.exts[0].id: expected an integer, got null"),
    (TransportMessage, keep_alive({"id": 16}), "fields.exts[0].id: expected 0 to 15, got 16"),
    (TransportMessage, keep_alive({"id": 1, "enc": ["z64"]}), "fields.exts[0].enc: expected unit, z64 or zbuf"),
    (TransportMessage, keep_alive({"id": 1, "enc": "z64"}), "fields.exts[0].value: expected an integer, got null"),
    (
        TransportMessage,
        keep_alive({"id": 1, "enc": "unit", "value": 1}),
        "fields.exts[0].value: expected nothing, got 1",
    ),
    (TransportMessage, {**JOIN, "exts": {}}, "fields.exts: expected a list, got {}"),
    (TransportMessage, {**JOIN, "shm": "aa"}, "fields (JOIN) has no field 'shm'"),
    (
        TransportMessage,
        join({"id": 1, "enc": "zbuf", "mandatory": True, "value": "00"}),
        "fields.exts[0].value: expected an integer at byte 1, found the end",
    ),
    (
        TransportMessage,
        join({"id": 1, "enc": "zbuf", "mandatory": True, "value": "00" * 17}),
        'fields.exts[0].value: expected nothing after the value, got "1 bytes more"',
    ),
    (
        TransportMessage,
        {
            "msg": "INIT_SYN",
            "version": 9,
            "whatami": "peer",
            "zid": "7",
            "exts": [{"id": 8, "enc": "zbuf", "value": "ff"}],
        },
        "fields.exts[0].value: expected UTF-8 text at byte 0, found byte 0xff",
    ),
]


@pytest.mark.parametrize(("family", "fields", "problem"), WRONG, ids=[problem for *_, problem in WRONG])
def test_an_error_names_the_field_that_is_wrong(family: type[Message], fields: object, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_json_fields(family, fields)
    assert problem in str(caught.value)


def test_numbers_are_checked_when_they_are_written() -> None:
    push = from_json_fields(NetworkMessage, {**PUSH, "node_id": 1 << 70})
    with pytest.raises(EncodeError, match=r"PUSH.node_id: .* does not fit 16 bits"):
        encode(push)
