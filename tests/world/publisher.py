"""A process of eclipse-zenoh that publishes a mixture: `python -m tests.world.publisher ENDPOINT SEED [steady]`.

It reads commands from its standard input, and prints one line when each is done:

    send COUNT     publish the next messages of the mixture
    pace RATE SECONDS   publish so many messages a second for so long
    fence NUMBER   publish the number on every way that messages take: when it has arrived, so have they

The mixture follows from the seed, so the process that started this one can compute what was sent.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import zenoh

from tests.world.mixture import PRIORITIES, STEADY, Message, Mixture

BLOCK = zenoh.CongestionControl.BLOCK
FENCE = "fence"
LANES = 2 * len(set(PRIORITIES))
"""The ways that messages take: of each session one per priority."""


class Publishers:
    """Two sessions, of which one adds timestamps, with a publisher for each topic of a mixture."""

    def __init__(self, endpoint: str, mixture: Mixture) -> None:
        self.mixture = mixture
        self.sessions = [_opened(endpoint, has_timestamps) for has_timestamps in (False, True)]
        self.declared = [
            [self._declared(number, topic.key, topic.encoding, topic.priority) for topic in topics]
            for number, topics in enumerate(mixture.topics)
        ]
        self.places = {topic.key: place for topics in mixture.topics for place, topic in enumerate(topics)}

    def _session(self, publisher: int) -> Any:  # noqa: ANN401 - eclipse-zenoh's
        return self.sessions[self.mixture.has_timestamps(publisher)]

    def _declared(self, number: int, key: str, encoding: str, priority: str) -> Any:  # noqa: ANN401 - eclipse-zenoh's
        return self._session(number).declare_publisher(
            key, encoding=zenoh.Encoding(encoding), priority=_priority(priority), congestion_control=BLOCK
        )

    def send(self, message: Message) -> None:
        place = self.places.get(message.key)
        if place is None:
            self._send_by_session(message)
            return
        publisher = self.declared[message.publisher][place]
        more: dict[str, Any] = {} if message.sn is None else {"source_info": zenoh.SourceInfo(publisher.id, message.sn)}
        if message.attachment is not None:
            more["attachment"] = message.attachment
        if message.payload is None:
            publisher.delete(**more)
        else:
            publisher.put(message.payload, **more)

    def _send_by_session(self, message: Message) -> None:
        session = self._session(message.publisher)
        if message.payload is None:
            session.delete(message.key, congestion_control=BLOCK)
        else:
            encoding = zenoh.Encoding(message.encoding)
            session.put(message.key, message.payload, encoding=encoding, congestion_control=BLOCK)

    def fence(self, number: int) -> None:
        for place, session in enumerate(self.sessions):
            for priority in sorted(set(PRIORITIES)):
                key = f"{FENCE}/{self.mixture.seed}/{place}/{priority}"
                session.put(key, str(number), priority=_priority(priority), congestion_control=BLOCK)

    def pace(self, rate: float, seconds: float) -> int:
        """Publish at a rate; how many."""
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < seconds:
            for message in self.mixture.messages(int(passed * rate) - sent):
                self.send(message)
                sent += 1
            time.sleep(0.005)
        return sent


def _opened(endpoint: str, has_timestamps: bool) -> Any:  # noqa: ANN401 - eclipse-zenoh's
    config = zenoh.Config()
    settings = {
        "mode": "client",
        "connect/endpoints": [endpoint],
        "scouting/multicast/enabled": False,
        "timestamping/enabled": has_timestamps,
        "transport/shared_memory/enabled": False,
    }
    for name, value in settings.items():
        config.insert_json5(name, json.dumps(value))
    return zenoh.open(config)


def _priority(name: str) -> Any:  # noqa: ANN401 - eclipse-zenoh's
    return getattr(zenoh.Priority, name)


def main(endpoint: str, seed: str, kind: str | None = None) -> None:
    """Open, then run the commands of the input until it ends; `steady` is a mixture that never needs more."""
    publishers = Publishers(endpoint, Mixture(int(seed), shares=STEADY if kind == "steady" else None))
    print("open", flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "send":
            for message in publishers.mixture.messages(int(numbers[0])):
                publishers.send(message)
            print("sent", *numbers, flush=True)
        elif command == "pace":
            print("sent", publishers.pace(float(numbers[0]), float(numbers[1])), flush=True)
        else:
            publishers.fence(int(numbers[0]))
            print("fenced", *numbers, flush=True)
    for session in publishers.sessions:
        session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
