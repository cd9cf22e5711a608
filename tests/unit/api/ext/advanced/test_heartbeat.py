"""Heartbeats of an advanced publisher."""

from __future__ import annotations

from zenspark.api.ext.advanced.heartbeat import Heartbeat, SequenceCounter


def test_heartbeat_is_not_sent_before_the_first_sample_nor_repeated_if_sporadic() -> None:
    class RecordingPublisher:
        def __init__(self) -> None:
            self.sent: list[bytes] = []

        def put(self, payload: bytes) -> None:
            self.sent.append(payload)

    for only_changes, expected in ((True, 2), (False, 3)):
        publisher, counter = RecordingPublisher(), SequenceCounter()
        heart = Heartbeat(publisher, counter, only_changes)  # type: ignore[arg-type]
        heart.publish_last_sn()
        counter.take()
        heart.publish_last_sn()
        heart.publish_last_sn()
        counter.take()
        heart.publish_last_sn()
        assert len(publisher.sent) == expected
        assert publisher.sent[-1] == b"\1\0\0\0"
