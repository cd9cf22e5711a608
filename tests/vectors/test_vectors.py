"""Bytes captured from eclipse-zenoh 1.10.2: single messages with their fields, and whole conversations.

`messages/*.jsonl` record what each message means; `streams/*.json` record what the two programs did, and how many bytes
each direction had carried after each step. Which messages a step must consist of is written down here.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from zenspark.capture.conversation import Conversation, Event, Ignored
from zenspark.capture.direction import CapturedMessage, Side
from zenspark.cli.decode import DecodeLine, to_fields
from zenspark.cli.encode import to_bytes
from zenspark.cli.formatters import format_title
from zenspark.errors import UsageError
from zenspark.wire.messages import Del, Err, Push, Put, Reply, Response

HERE = Path(__file__).parent
VECTORS = [json.loads(line) for path in sorted(HERE.glob("messages/*.jsonl")) for line in path.read_text().splitlines()]
STREAMS = {path.stem: json.loads(path.read_text()) for path in sorted(HERE.glob("streams/*.json"))}
NOT_WHOLE = "stream_uncompressed_batch_on_compressed_link"
"""Its fields leave out the sequence number of the frame, so its bytes cannot be made from them."""
REORDERED = {"request_relayed_nodeid": "9c0103a10db301b40126904e2303"}
"""Messages whose extensions we write in the order of the specification, and eclipse-zenoh in another: NodeId last."""


def test_the_vectors_are_all_here() -> None:
    assert len(VECTORS) == 177
    assert len(STREAMS) == len(STEPS) == 8


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_decodes_to_its_fields(vector: dict[str, Any]) -> None:
    assert to_fields(DecodeLine(vector["layer"], vector["hex"])) == vector["fields"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_fields_encode_to_the_bytes_of_the_vector(vector: dict[str, Any]) -> None:
    if vector["name"] == NOT_WHOLE:
        with pytest.raises(UsageError, match="push has no sequence number"):
            to_bytes(vector["layer"], vector["fields"])
    else:
        expected = REORDERED.get(vector["name"], vector["hex"])
        assert to_bytes(vector["layer"], vector["fields"]).hex() == expected


# -- conversations ---

HELLO, BYTES, TEXT = b"hello", b"\x00\x01\x02\xfe\xff", b"text value"
OPEN = ["c2s INIT_SYN", "c2s OPEN_SYN", "s2c INIT_ACK", "s2c OPEN_ACK"]
ADVANCED = "demo/k/adv/@adv/pub/c0c1c2c3/6/_"

STEPS: dict[str, list[list[str]]] = {
    "pubsub_client_router": [
        OPEN,
        ["c2s D_KEYEXPR demo/k", "c2s D_SUBSCRIBER demo/k/**"],
        [f"s2c PUSH PUT demo/k/r1 {HELLO!r}"],
        ["c2s D_KEYEXPR up/demo/k", "c2s INTEREST up/demo/k", "s2c D_FINAL up/demo/k"],
        ["s2c D_SUBSCRIBER up/**"],
        [f"c2s PUSH PUT up/demo/k {HELLO + digit!r}" for digit in (b"0", b"1", b"2", b"3", b"4")],
        [f"c2s PUSH PUT up/x {TEXT!r}"],
        ["c2s PUSH DEL up/x"],
        [f"c2s PUSH PUT up/big {b'Z' * 200000!r}", "s2c KEEP_ALIVE"],
        ["c2s U_SUBSCRIBER demo/k/**", "c2s INTEREST up/demo/k"],
        ["c2s CLOSE"],
    ],
    "queries_client_router": [
        OPEN,
        [
            "c2s REQUEST q/srv/1",
            f"s2c RESPONSE PUT q/srv/1 {HELLO!r}",
            f"s2c RESPONSE PUT q/srv/1 {BYTES!r}",
            "s2c RESPONSE_FINAL q/srv/1",
        ],
        [
            "c2s REQUEST q/srv/2",
            f"s2c RESPONSE PUT q/srv/2 {HELLO!r}",
            f"s2c RESPONSE PUT q/srv/2 {BYTES!r}",
            "s2c RESPONSE_FINAL q/srv/2",
        ],
        ["c2s REQUEST q/srv/err", "s2c RESPONSE ERR q/srv/err b'no'", "s2c RESPONSE_FINAL q/srv/err"],
        ["c2s REQUEST nothing/here", "s2c RESPONSE_FINAL nothing/here"],
        ["c2s D_KEYEXPR cq", "c2s D_QUERYABLE cq/**"],
        [f"c2s RESPONSE PUT cq/7 {TEXT!r}", "c2s RESPONSE_FINAL cq/7", "s2c REQUEST cq/7"],
        ["c2s CLOSE"],
    ],
    "lowlatency_client_router": [
        OPEN,
        ["c2s D_KEYEXPR demo/k", "c2s D_SUBSCRIBER demo/k/**"],
        [f"s2c PUSH PUT demo/k/a {HELLO!r}"],
        [f"c2s PUSH PUT o/k {BYTES!r}"],
        ["c2s CLOSE"],
    ],
    "compression_client_router": [
        OPEN,
        [f"c2s PUSH PUT demo/k/c {HELLO * 40!r}"],
        ["c2s PUSH PUT demo/k/c b'\\x01'"],
        ["c2s CLOSE"],
    ],
    "liveliness_client_router": [
        OPEN,
        ["c2s D_KEYEXPR demo/k/me", "c2s D_TOKEN demo/k/me"],
        [],
        [
            "c2s D_KEYEXPR demo/k",
            "c2s INTEREST demo/k/*",
            "s2c D_TOKEN demo/k/rt",
            "s2c D_TOKEN demo/k/me",
            "s2c D_FINAL demo/k/*",
        ],
        [
            "c2s INTEREST demo/k/*",
            "s2c D_KEYEXPR demo/k/rt",
            "s2c D_TOKEN demo/k/rt",
            "s2c D_TOKEN demo/k/me",
            "s2c D_FINAL demo/k/*",
        ],
        ["s2c U_TOKEN demo/k/rt"],
        ["c2s INTEREST demo/k/*", "c2s U_TOKEN demo/k/me", "s2c U_TOKEN demo/k/me"],
        ["c2s CLOSE"],
    ],
    "advanced_pubsub_client_router": [
        OPEN,
        [
            "c2s D_KEYEXPR demo/k/adv",
            "c2s INTEREST demo/k/adv",
            f"c2s D_KEYEXPR {ADVANCED}",
            f"c2s D_QUERYABLE {ADVANCED}",
            f"c2s D_TOKEN {ADVANCED}",
            f"c2s INTEREST {ADVANCED}",
            "s2c D_FINAL demo/k/adv",
            f"s2c D_FINAL {ADVANCED}",
        ],
        [],
        [
            "c2s RESPONSE PUT demo/k/adv b's1'",
            "c2s RESPONSE PUT demo/k/adv b's2'",
            "c2s RESPONSE_FINAL demo/k/**/@adv/**",
            "c2s RESPONSE PUT demo/k/adv b's1'",
            "c2s RESPONSE PUT demo/k/adv b's2'",
            f"c2s RESPONSE_FINAL {ADVANCED}",
            f"c2s PUSH PUT {ADVANCED} b'\\x02\\x00\\x00\\x00'",
            "s2c D_SUBSCRIBER demo/k/**",
            "s2c REQUEST demo/k/**/@adv/**",
            f"s2c REQUEST {ADVANCED}",
            "s2c D_SUBSCRIBER demo/k/**/@adv/pub/**",
        ],
        [
            "c2s PUSH PUT demo/k/adv b's3'",
            f"c2s PUSH PUT {ADVANCED} b'\\x03\\x00\\x00\\x00'",
            f"c2s PUSH PUT {ADVANCED} b'\\x03\\x00\\x00\\x00'",
        ],
        ["c2s CLOSE"],
    ],
    "peer_peer": [
        [*OPEN[:2], "c2s OAM", "c2s D_FINAL", *OPEN[2:], "s2c OAM", "s2c D_FINAL"],
        ["s2c D_KEYEXPR demo/k/p", "s2c D_SUBSCRIBER demo/k/p/**"],
        [f"c2s PUSH PUT demo/k/p/1 {HELLO!r}"],
        ["c2s D_KEYEXPR demo/k/tok", "c2s D_TOKEN demo/k/tok"],
        [],
        ["c2s U_TOKEN demo/k/tok"],
        ["c2s CLOSE"],
    ],
    "router_router": [
        [*OPEN[:2], "c2s OAM", "c2s OAM", *OPEN[2:], "s2c OAM", "s2c OAM"],
        ["s2c D_KEYEXPR demo/k", "s2c D_SUBSCRIBER demo/k/**"],
        [f"c2s PUSH PUT demo/k/1 {HELLO!r}"],
        ["c2s D_KEYEXPR q/srv", "c2s D_QUERYABLE q/srv"],
        [f"c2s RESPONSE PUT q/srv {BYTES!r}", "c2s RESPONSE_FINAL q/srv", "s2c REQUEST q/srv"],
        ["c2s U_QUERYABLE q/srv", "s2c U_SUBSCRIBER demo/k/**"],
        ["c2s CLOSE"],
    ],
}


def followed(name: str) -> tuple[Conversation, list[Event]]:
    conversation = Conversation()
    for side in Side:
        conversation.receive_data(side, (HERE / "streams" / f"{name}.{side}.bin").read_bytes())
    return conversation, list(conversation.finish())


def described(captured: CapturedMessage) -> str:
    words = [str(captured.side), format_title(captured.message), captured.key or ""]
    body = captured.message.body if isinstance(captured.message, Push | Response) else None
    match body.body if isinstance(body, Reply) else body:
        case Put(payload=payload) | Err(payload=payload):
            words.append(repr(payload))
        case Del() | None:
            pass
    return " ".join(filter(None, words))


@pytest.mark.parametrize("name", STREAMS)
def test_captured_stream_is_followed_to_the_last_byte(name: str) -> None:
    conversation, events = followed(name)
    ignored = {event.side: event.size for event in events if isinstance(event, Ignored)}
    assert ignored == ({Side.C2S: 4} if name == "lowlatency_client_router" else {})
    for side, endpoint in conversation.sides.items():
        assert endpoint.direction.total == STREAMS[name][f"{side}_bytes"]
        assert endpoint.direction.followed + ignored.get(side, 0) == endpoint.direction.total
    assert {type(event) for event in events} <= {CapturedMessage, Ignored}
    assert all(event.is_resolved for event in events if isinstance(event, CapturedMessage))


@pytest.mark.parametrize("name", STREAMS)
def test_captured_stream_has_the_identities_of_both_sides(name: str) -> None:
    conversation, _ = followed(name)
    for side, who in ((Side.C2S, "connector"), (Side.S2C, "listener")):
        identity = conversation.sides[side].identity
        assert identity is not None
        assert (str(identity.zid), identity.whatami.text) == (STREAMS[name][who]["zid"], STREAMS[name][who]["mode"])


@pytest.mark.parametrize("name", STREAMS)
def test_each_step_of_a_stream_has_the_expected_messages(name: str) -> None:
    _, events = followed(name)
    messages = [event for event in events if isinstance(event, CapturedMessage)]
    begun = dict.fromkeys(Side, 0)
    for step, expected in zip(STREAMS[name]["steps"], STEPS[name], strict=True):
        ends = {side: step[f"{side}_end"] for side in Side}
        found = [
            described(captured)
            for side in Side
            for captured in messages
            if captured.side is side and begun[side] <= captured.start < ends[side]
        ]
        assert found == expected, step["action"]
        begun = ends
