"""The driver: when what is written, what happens when the peer does not read, time, and the end."""

from __future__ import annotations

import itertools
import logging
import threading
import time

import pytest

from tests.unit.net.ends import link_pair, readable
from tests.unit.net.nodes import (
    CHUNK,
    QUICK,
    End,
    RecordingLink,
    accepting,
    ends,
    ends_with_paused_reader,
    fill,
    opening,
    push,
    qos,
)
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import CloseReason, LinkError
from zenspark.net.io.congestion_control import WriterSettings
from zenspark.net.io.link_driver import MAX_EVENTS_PER_TURN, ConnectionDriver
from zenspark.net.links.base import Link
from zenspark.transport.connection import INITIAL_STREAM_BUFFER_BYTES, ConnectionEvent
from zenspark.transport.handshake import Capabilities, Opened
from zenspark.wire.codec import encode
from zenspark.wire.messages import Push, Put, ResponseFinal

NEVER_IDLE = WriterSettings(idle_before_direct_write=3600.0, close_linger=0.2)
"""Never so quiet that a message is written by itself."""
SHORT_WAITS = WriterSettings(wait_before_drop=0.001, wait_before_close=0.1, close_linger=0.1)


# -- pausing ------------------------------------------------------------------------------------------------------


def test_paused_link_is_not_read_until_it_is_resumed() -> None:
    with ends() as (alice, bob):
        bob.driver.pause()
        bob.driver.pause()
        bob.in_loop(lambda: None)
        assert alice.put(b"waits")
        assert readable(bob.driver.link)
        bob.in_loop(lambda: None)
        assert bob.payloads == []
        bob.driver.resume()
        bob.driver.resume()
        assert bob.wait_payloads(1) == [b"waits"]


@pytest.mark.slow
def test_paused_link_keeps_its_lease() -> None:
    with ends(Capabilities(lease_ms=600)) as (alice, bob):
        bob.driver.pause()
        assert not alice.wait(lambda: alice.closure is not None, 1.3)
        assert bob.closure is None
        bob.driver.resume()
        assert alice.put(b"still here")
        assert bob.wait_payloads(1) == [b"still here"]


class Buffered(RecordingLink):
    """A link that has read everything already when its descriptor falls silent, as TLS may."""

    def __init__(self, inner: Link) -> None:
        super().__init__(inner)
        self._held = b""

    @property
    def has_buffered(self) -> bool:
        return bool(self._held)

    def recv_into(self, buffer: memoryview) -> int:
        if not self._held:
            room = memoryview(bytearray(1 << 18))
            count = self._inner.recv_into(room)
            if count <= 0:
                return count
            self._held = bytes(room[:count])
        piece, self._held = self._held[:10], self._held[10:]
        buffer[: len(piece)] = piece
        return len(piece)


def test_buffered_data_is_read_without_descriptor_events() -> None:
    left, right = link_pair()
    bob = End(Buffered(right), accepting(), QUICK)
    alice = End(left, opening(), QUICK)
    alice.wait_open()
    assert alice.put(b"x" * 5000)
    assert bob.wait_payloads(1) == [b"x" * 5000]
    alice.close()
    bob.close()


def test_a_read_full_of_small_messages_is_handled_in_portions() -> None:
    """Other links get their turn in between, and nothing is lost or overtaken."""
    count = 4 * MAX_EVENTS_PER_TURN
    with ends() as (alice, bob):
        bob.driver.pause()
        bob.in_loop(lambda: None)
        for number in range(count):
            message = encode(ResponseFinal(request_id=number)) if number % 8 else encode(push(b"%d" % number, qos()))
            assert alice.driver.publish(message, None, qos(), True)
        assert readable(bob.driver.link)
        alice.driver.flush_and_wait()
        received, handled = bob.driver.bytes_received, [len(bob.events)]

        def note() -> None:
            handled.append(len(bob.events))
            if handled[-1] < handled[0] + count:
                bob.loop.call_soon(note)

        bob.loop.call_soon(note)
        bob.driver.resume()
        assert bob.wait(lambda: len(bob.events) == handled[0] + count), len(bob.events)
        steps = [after - before for before, after in itertools.pairwise(handled)]
        assert max(steps) <= 2 * MAX_EVENTS_PER_TURN, steps
        assert bob.driver.bytes_received - received < INITIAL_STREAM_BUFFER_BYTES, "it was one read"
        numbers = [_number(event) for event in bob.events[handled[0] :]]
        assert numbers == list(range(count))


def _number(event: object) -> int:
    if isinstance(event, ResponseFinal):
        return event.request_id
    assert isinstance(event, Push)
    assert isinstance(event.body, Put)
    return int(event.body.payload)


def test_events_left_of_a_read_are_handled_before_the_link_is_given_up() -> None:
    with ends() as (alice, bob):
        bob.driver.pause()
        bob.in_loop(lambda: None)
        for number in range(3 * MAX_EVENTS_PER_TURN):
            message = encode(ResponseFinal(request_id=number))
            assert alice.driver.publish(message, None, qos(), True)
        alice.driver.flush_and_wait()
        assert readable(bob.driver.link)
        before = len(bob.events)
        bob.in_loop(lambda: bob.driver._fail(LinkError("here", "broken")))
        assert bob.wait(lambda: bob.closure is not None)
        finals = [event for event in bob.events[before:] if isinstance(event, ResponseFinal)]
        assert [final.request_id for final in finals] == list(range(3 * MAX_EVENTS_PER_TURN))


# -- time ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_keep_alives_keep_a_silent_session_open_on_both_sides() -> None:
    with ends(Capabilities(lease_ms=600)) as (alice, bob):
        assert not alice.wait(lambda: alice.closure is not None, 1.3)
        assert bob.closure is None
        assert alice.put(b"alive")
        assert bob.wait_payloads(1) == [b"alive"]


@pytest.mark.slow
@pytest.mark.parametrize("connects", [True, False])
def test_silent_peer_is_closed_after_its_lease(connects: bool) -> None:
    left, right = link_pair()
    alice = End(left, opening() if connects else accepting(), QUICK)
    bob = End(
        right,
        accepting(offer=Capabilities(lease_ms=150)) if connects else opening(offer=Capabilities(lease_ms=150)),
        QUICK,
    )
    alice.wait_open()
    bob.wait_open()
    assert bob.loop.stop(TIMEOUT_SECONDS)  # its process hangs, as it were
    closed = alice.wait_closed()
    assert closed.reason is CloseReason.EXPIRED
    assert alice.link_closed.wait(TIMEOUT_SECONDS)
    assert alice.loop.stop(TIMEOUT_SECONDS)
    right.close()


# -- the end ------------------------------------------------------------------------------------------------------


def test_close_sends_its_reason_after_earlier_messages() -> None:
    with ends(writer=NEVER_IDLE) as (alice, bob):
        alice.driver._last_write = time.monotonic()

        def send_and_close() -> None:
            for number in range(50):
                alice.put(b"%d" % number)
            alice.driver.end_session(CloseReason.EXPIRED)

        alice.in_loop(send_and_close)
        closed = bob.wait_closed()
        assert bob.payloads == [b"%d" % n for n in range(50)]
        assert closed.reason is CloseReason.EXPIRED
        assert closed.by_peer
        assert alice.link_closed.wait(TIMEOUT_SECONDS)


def test_close_flushes_to_a_peer_that_reads_late() -> None:
    with ends_with_paused_reader(WriterSettings(close_linger=TIMEOUT_SECONDS)) as (alice, bob):
        count = fill(alice)
        alice.in_loop(alice.driver.end_session)
        assert not alice.link_closed.is_set()
        bob.driver.resume()
        bob.wait_closed()
        assert bob.payloads == [b"fill%d" % n + CHUNK for n in range(count)]
        assert alice.link_closed.wait(TIMEOUT_SECONDS)


def test_close_with_unread_bytes_does_not_lose_sent_messages() -> None:
    with ends() as (alice, bob):
        alice.driver.pause()
        alice.in_loop(lambda: None)
        for _ in range(10):
            assert bob.put(CHUNK)
        assert alice.put(b"last words")
        alice.in_loop(alice.driver.end_session)
        assert bob.wait_payloads(1) == [b"last words"]
        assert bob.wait_closed().by_peer


def test_simultaneous_close_of_both_ends_does_not_linger() -> None:
    with ends(writer=WriterSettings(close_linger=TIMEOUT_SECONDS)) as (alice, bob):
        start = time.monotonic()
        for end in (alice, bob):  # neither reads that the other closes before it closes itself
            end.driver.pause()
            end.in_loop(lambda: None)
        for end in (alice, bob):
            end.in_loop(end.driver.end_session)
        assert alice.link_closed.wait(TIMEOUT_SECONDS)
        assert bob.link_closed.wait(TIMEOUT_SECONDS)
        assert time.monotonic() - start < TIMEOUT_SECONDS / 2


@pytest.mark.slow
def test_close_ends_in_time_with_a_peer_that_is_stuck() -> None:
    with ends_with_paused_reader(SHORT_WAITS) as (alice, _):
        fill(alice)
        start = time.monotonic()
        alice.in_loop(alice.driver.end_session)
        assert alice.link_closed.wait(TIMEOUT_SECONDS)
        assert time.monotonic() - start < 5.0


def test_the_end_of_the_link_is_the_end_of_the_session() -> None:
    left, right = link_pair()
    bob = End(right, accepting(), QUICK)
    alice = End(left, opening(), QUICK)
    alice.wait_open()
    bob.in_loop(bob.driver.close_link)
    closed = alice.wait_closed()
    assert closed.by_peer
    assert alice.link_closed.wait(TIMEOUT_SECONDS)
    alice.in_loop(alice.driver.end_session)
    assert alice.loop.stop(TIMEOUT_SECONDS)
    assert bob.loop.stop(TIMEOUT_SECONDS)


def test_when_writing_fails_the_session_ends() -> None:
    with ends() as (alice, _):
        alice.in_loop(lambda: None)
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(TIMEOUT_SECONDS))
        alice.driver.link.close()
        alice.put(b"into the void", qos(express=True))
        go_on.set()
        assert alice.wait_closed().by_peer


def test_internal_error_closes_the_link_of_its_peer(caplog: pytest.LogCaptureFixture) -> None:
    left, right = link_pair()
    alice = End(left, opening(), QUICK)

    class Clumsy(End):
        def _on_event(self, driver: ConnectionDriver, event: ConnectionEvent) -> None:
            super()._on_event(driver, event)
            if not isinstance(event, Opened) and self.payloads:
                self.events.clear()
                raise RuntimeError("a mistake")

    bob = Clumsy(right, accepting(), QUICK)
    alice.wait_open()
    with caplog.at_level(logging.ERROR, "zenspark.net"):
        assert alice.put(b"x")
        assert alice.wait_closed().reason is CloseReason.GENERIC
    assert "internal error" in caplog.text
    alice.close()
    bob.close()


# -- datagrams ----------------------------------------------------------------------------------------------------


def test_datagrams_carry_batches_without_their_length() -> None:
    with ends(Capabilities(batch_size=8192), streamed=False) as (alice, bob):
        sent = [b"%d" % number * 100 for number in range(100)] + [b"large" * 10_000]
        for payload in sent:
            assert alice.put(payload)
        assert bob.wait_payloads(len(sent)) == sent
        alice.in_loop(alice.driver.end_session)
        closed = bob.wait_closed()
        assert closed.by_peer
        assert closed.reason is CloseReason.GENERIC
