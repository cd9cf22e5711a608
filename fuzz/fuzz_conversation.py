"""Any two directions are followed to the end without an exception, and each has the same events however it is cut.

The first byte chooses where the streams are cut, the next two how many of the following bytes the client sent; the
server sent the others. How to run: see harness.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.harness import run
from zenspark.capture.conversation import Conversation, Event, Ignored, Truncated, follow
from zenspark.capture.direction import CapturedMessage, InvalidBytes, LostMessage, Side


def fields_of(event: Event) -> tuple[object, ...]:
    """Return the fields that depend on the direction of the event only: keys depend on messages of the other side."""
    match event:
        case CapturedMessage():
            return event.start, event.end, event.message, event.carrier
        case LostMessage() | InvalidBytes() | Ignored() | Truncated():
            return (event,)


def by_side(events: list[Event]) -> dict[Side, list[tuple[object, ...]]]:
    return {side: [fields_of(event) for event in events if event.side is side] for side in Side}


def follow_in_chunks(c2s: bytes, s2c: bytes, cut: int) -> Iterator[Event]:
    conversation = Conversation()
    for start in range(0, max(len(c2s), len(s2c)), cut):
        conversation.receive_data(Side.C2S, c2s[start : start + cut])
        conversation.receive_data(Side.S2C, s2c[start : start + cut])
        yield from conversation.events()
    yield from conversation.finish()


def check(data: bytes) -> None:
    cut = data[0] + 1 if data else 1
    size = int.from_bytes(data[1:3], "little")
    c2s, s2c = data[3 : 3 + size], data[3 + size :]
    whole = list(follow(c2s, s2c))
    for event in whole:
        if isinstance(event, CapturedMessage | LostMessage):
            assert 0 <= event.start <= event.end <= len(c2s if event.side is Side.C2S else s2c), event
    assert by_side(list(follow_in_chunks(c2s, s2c, cut))) == by_side(whole)


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
