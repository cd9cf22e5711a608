"""The driver: when what is written, what happens when the peer does not read, time, and the end."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from tests.unit.net.ends import PATIENCE, meanwhile, readable, receive
from tests.unit.net.nodes import QUICK, End, accepting, ends, opening, push, qos
from zenspark.errors import CloseReason
from zenspark.net.driver import Driver, Patience
from zenspark.net.links import Buffer, Link, pair
from zenspark.transport.connection import Event
from zenspark.transport.handshake import Offer, Opened
from zenspark.wire.values import Congestion, Priority, QoS

CHUNK = b"c" * 20_000
TALKATIVE = Patience(quiet=3600.0, linger=0.2)
"""Never so quiet that a message is written by itself."""
IMPATIENT = Patience(drop_after=0.001, block=0.1, linger=0.1)


class Watched(Link):
    """A link that remembers what was sent, and by whom."""

    def __init__(self, inner: Link) -> None:
        self._inner = inner
        self.endpoint, self.src, self.dst = inner.endpoint, inner.src, inner.dst
        self.is_streamed, self.is_reliable = inner.is_streamed, inner.is_reliable
        self.writes: list[tuple[int, bool]] = []
        self.loop_thread: object = None

    def fileno(self) -> int:
        return self._inner.fileno()

    def recv_into(self, buffer: memoryview) -> int:
        return self._inner.recv_into(buffer)

    def send(self, data: Buffer) -> int:
        self.writes.append((len(data), "test-end" in threading.current_thread().name))
        return self._inner.send(data)

    def wait_writable(self, timeout: float) -> bool:
        return self._inner.wait_writable(timeout)

    def close(self) -> None:
        self._inner.close()


@contextlib.contextmanager
def watched(patience: Patience) -> Iterator[tuple[End, End, Watched]]:
    left, right = pair()
    link = Watched(left)
    bob = End(right, accepting())
    alice = End(link, opening(), patience)
    try:
        alice.wait_open()
        bob.wait_open()
        link.writes.clear()
        yield alice, bob, link
    finally:
        alice.close()
        bob.close()


@contextlib.contextmanager
def deaf(patience: Patience, offer: Offer | None = None) -> Iterator[tuple[End, End]]:
    """Two ends, the second of which does not read for the moment."""
    with ends(offer, patience, buffer_size=4096) as (alice, bob):
        bob.driver.pause()
        bob.in_loop(lambda: None)
        yield alice, bob


def fill(alice: End) -> int:
    """Say things until the link takes no more; how many."""
    count = 0
    while not alice.driver._residue:
        assert alice.put(b"fill%d" % count + CHUNK)
        count += 1
    return count


# -- when it is written -------------------------------------------------------------------------------------------


def test_after_silence_a_message_is_written_at_once_by_who_says_it() -> None:
    with watched(Patience(quiet=-1.0, linger=0.2)) as (alice, bob, link):
        assert alice.put(b"hello")
        assert [by_loop for _, by_loop in link.writes] == [False]
        assert bob.wait_payloads(1) == [b"hello"]


def test_in_a_run_messages_are_batched_and_written_by_the_loop() -> None:
    with watched(TALKATIVE) as (alice, bob, link):
        alice.driver._spoke = time.monotonic()
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(PATIENCE))
        for number in range(100):
            assert alice.put(b"%d" % number)
        assert link.writes == []
        go_on.set()
        assert bob.wait_payloads(100) == [b"%d" % number for number in range(100)]
        assert [by_loop for _, by_loop in link.writes] == [True]


def test_a_full_batch_is_written_by_who_filled_it() -> None:
    with watched(TALKATIVE) as (alice, bob, link):
        alice.driver._spoke = time.monotonic()
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(PATIENCE))
        for _ in range(4):
            assert alice.put(CHUNK)
        assert [by_loop for _, by_loop in link.writes] == [False]
        assert 60_000 < link.writes[0][0] <= 0xFFFF
        go_on.set()
        bob.wait_payloads(4)


def test_express_is_written_at_once_with_what_was_said_before() -> None:
    with watched(TALKATIVE) as (alice, bob, link):
        alice.driver._spoke = time.monotonic()
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(PATIENCE))
        assert alice.put(b"first")
        assert alice.put(b"second", qos(express=True))
        assert len(link.writes) == 1
        assert bob.wait_payloads(2) == [b"first", b"second"]
        go_on.set()


def test_what_is_said_without_a_payload_comes_before_what_is_put_later() -> None:
    with watched(TALKATIVE) as (alice, bob, _):
        alice.driver._spoke = time.monotonic()
        alice.driver.say(push(b"said"), qos(priority=Priority.BACKGROUND))
        assert alice.put(b"put", qos(priority=Priority.REAL_TIME))
        assert bob.wait_payloads(2) == [b"said", b"put"]


def test_nothing_is_said_before_there_is_a_session() -> None:
    left, right = pair()
    alice = End(left, opening(), QUICK)
    with contextlib.closing(right):
        assert not alice.put(b"too early")
        alice.driver.say(push(b"too early"), QoS.DEFAULT)
        assert receive(right)
    alice.wait_closed()
    assert alice.released.wait(PATIENCE)
    assert alice.loop.stop(PATIENCE)


def test_a_message_too_large_for_the_session_is_refused_and_the_next_one_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ends(Offer(low_latency=True)) as (alice, bob), caplog.at_level(logging.WARNING, "zenspark.net"):
        alice.driver.say(push(bytes(100_000)), qos())
        alice.driver.say(push(b"small"), qos())
        assert bob.wait_payloads(1) == [b"small"]
        assert "not sent" in caplog.text


# -- when the peer does not read ----------------------------------------------------------------------------------


def test_block_waits_and_goes_on_in_order_with_nothing_lost() -> None:
    with deaf(QUICK) as (alice, bob):
        count = fill(alice)
        blocked = threading.Event()

        def publish() -> bool:
            blocked.set()
            return all(alice.put(b"more%d" % number) for number in range(500))

        with meanwhile(publish) as result:
            assert blocked.wait(PATIENCE)
            bob.driver.resume()
            assert result()
        payloads = bob.wait_payloads(count + 500)
        assert payloads == [b"fill%d" % n + CHUNK for n in range(count)] + [b"more%d" % n for n in range(500)]


def test_drop_waits_a_moment_once_and_then_not_at_all() -> None:
    with deaf(Patience(drop_after=0.05, linger=0.1)) as (alice, bob):
        count = fill(alice)
        start = time.monotonic()
        assert not alice.put(b"dropped", qos(Congestion.DROP))
        waited = time.monotonic() - start
        assert waited >= 0.05
        assert not any(alice.put(b"dropped", qos(Congestion.DROP)) for _ in range(1000))
        assert time.monotonic() - start < waited + 5.0, "a thousand waits would take fifty seconds"
        bob.driver.resume()
        bob.wait_payloads(count)
        assert alice.driver.wait_for_room(Congestion.BLOCK)
        assert alice.put(b"kept", qos(Congestion.DROP))
        assert bob.wait_payloads(count + 1)[-1] == b"kept"


def test_of_block_first_one_waits_and_the_others_are_dropped() -> None:
    first = qos(Congestion.BLOCK_FIRST)
    with deaf(QUICK) as (alice, bob):
        count = fill(alice)
        with meanwhile(lambda: alice.put(b"first", first)) as result:
            while not alice.driver._has_first:
                time.sleep(0)
            assert not alice.put(b"second", first)
            assert not alice.put(b"third", first)
            bob.driver.resume()
            assert result()
        assert bob.wait_payloads(count + 1)[-1] == b"first"
        assert alice.put(b"fourth", first)
        assert bob.wait_payloads(count + 2)[-1] == b"fourth"


def test_a_peer_that_takes_nothing_is_given_up() -> None:
    with deaf(IMPATIENT) as (alice, _):
        fill(alice)
        assert not alice.put(b"never")
        closed = alice.wait_closed()
        assert closed.reason is CloseReason.UNRESPONSIVE
        assert not closed.by_peer
        assert not alice.put(b"over"), "a driver that is closed takes nothing"
        assert not alice.driver.wait_for_room(Congestion.BLOCK)


def test_who_waits_is_woken_when_the_session_ends() -> None:
    with deaf(Patience(block=60.0, linger=0.1)) as (alice, _):
        fill(alice)
        with meanwhile(lambda: alice.put(b"never")) as result:
            alice.in_loop(alice.driver.close)
            assert not result()


def test_the_loop_itself_never_waits() -> None:
    with deaf(QUICK) as (alice, bob):
        count = fill(alice)
        alice.in_loop(lambda: alice.put(b"from the loop"))
        bob.driver.resume()
        assert bob.wait_payloads(count + 1)[-1] == b"from the loop"


def test_draining_waits_until_everything_is_written() -> None:
    with deaf(QUICK) as (alice, bob):
        count = fill(alice)
        with meanwhile(alice.driver.drain):
            bob.driver.resume()
        assert not alice.driver._residue
        bob.wait_payloads(count)


def test_a_large_message_passes_a_narrow_link() -> None:
    large = bytes(range(256)) * 8000
    with ends(buffer_size=4096) as (alice, bob):
        assert alice.put(large)
        assert bob.wait_payloads(1) == [large]


@pytest.mark.parametrize("offer", [Offer(compression=True), Offer(qos=False), Offer(batch_size=512)])
def test_whatever_was_agreed_everything_arrives(offer: Offer) -> None:
    sent = [b"%d" % number * (number % 50) for number in range(300)]
    with ends(offer) as (alice, bob):
        for payload in sent:
            assert alice.put(payload)
        assert bob.wait_payloads(len(sent)) == sent


# -- pausing ------------------------------------------------------------------------------------------------------


def test_paused_nothing_is_read_and_resumed_everything_is() -> None:
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


def test_who_pauses_does_not_take_the_silence_for_the_end() -> None:
    with ends(Offer(lease_ms=600)) as (alice, bob):
        bob.driver.pause()
        assert not alice.wait(lambda: alice.closure is not None, 1.3)
        assert bob.closure is None
        bob.driver.resume()
        assert alice.put(b"still here")
        assert bob.wait_payloads(1) == [b"still here"]


class Buffered(Watched):
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


def test_what_a_link_has_buffered_is_read_although_its_descriptor_is_silent() -> None:
    left, right = pair()
    bob = End(Buffered(right), accepting(), QUICK)
    alice = End(left, opening(), QUICK)
    alice.wait_open()
    assert alice.put(b"x" * 5000)
    assert bob.wait_payloads(1) == [b"x" * 5000]
    alice.close()
    bob.close()


# -- time ---------------------------------------------------------------------------------------------------------


def test_keep_alives_hold_a_silent_session_both_ways() -> None:
    with ends(Offer(lease_ms=600)) as (alice, bob):
        assert not alice.wait(lambda: alice.closure is not None, 1.3)
        assert bob.closure is None
        assert alice.put(b"alive")
        assert bob.wait_payloads(1) == [b"alive"]


@pytest.mark.parametrize("connects", [True, False])
def test_a_peer_that_falls_silent_is_given_up(connects: bool) -> None:
    left, right = pair()
    alice = End(left, opening() if connects else accepting(), QUICK)
    bob = End(right, accepting(offer=Offer(lease_ms=150)) if connects else opening(offer=Offer(lease_ms=150)), QUICK)
    alice.wait_open()
    bob.wait_open()
    assert bob.loop.stop(PATIENCE)  # its process hangs, as it were
    closed = alice.wait_closed()
    assert closed.reason is CloseReason.EXPIRED
    assert alice.released.wait(PATIENCE)
    assert alice.loop.stop(PATIENCE)
    right.close()


# -- the end ------------------------------------------------------------------------------------------------------


def test_close_says_why_and_flushes_what_was_said() -> None:
    with ends(patience=TALKATIVE) as (alice, bob):
        alice.driver._spoke = time.monotonic()

        def say_and_close() -> None:
            for number in range(50):
                alice.put(b"%d" % number)
            alice.driver.close(CloseReason.EXPIRED)

        alice.in_loop(say_and_close)
        closed = bob.wait_closed()
        assert bob.payloads == [b"%d" % n for n in range(50)]
        assert closed.reason is CloseReason.EXPIRED
        assert closed.by_peer
        assert alice.released.wait(PATIENCE)


def test_close_flushes_to_a_peer_that_reads_late() -> None:
    with deaf(Patience(linger=PATIENCE)) as (alice, bob):
        count = fill(alice)
        alice.in_loop(alice.driver.close)
        assert not alice.released.is_set()
        bob.driver.resume()
        bob.wait_closed()
        assert bob.payloads == [b"fill%d" % n + CHUNK for n in range(count)]
        assert alice.released.wait(PATIENCE)


def test_close_does_not_take_back_what_was_said_when_bytes_are_unread() -> None:
    with ends() as (alice, bob):
        alice.driver.pause()
        alice.in_loop(lambda: None)
        for _ in range(10):
            assert bob.put(CHUNK)
        assert alice.put(b"last words")
        alice.in_loop(alice.driver.close)
        assert bob.wait_payloads(1) == [b"last words"]
        assert bob.wait_closed().by_peer


def test_close_ends_in_time_with_a_peer_that_is_stuck() -> None:
    with deaf(IMPATIENT) as (alice, _):
        fill(alice)
        start = time.monotonic()
        alice.in_loop(alice.driver.close)
        assert alice.released.wait(PATIENCE)
        assert time.monotonic() - start < 5.0


def test_the_end_of_the_link_is_the_end_of_the_session() -> None:
    left, right = pair()
    bob = End(right, accepting(), QUICK)
    alice = End(left, opening(), QUICK)
    alice.wait_open()
    bob.in_loop(bob.driver.release)
    closed = alice.wait_closed()
    assert closed.by_peer
    assert alice.released.wait(PATIENCE)
    alice.in_loop(alice.driver.close)
    assert alice.loop.stop(PATIENCE)
    assert bob.loop.stop(PATIENCE)


def test_when_writing_fails_the_session_ends() -> None:
    with ends() as (alice, _):
        alice.in_loop(lambda: None)
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(PATIENCE))
        alice.driver.link.close()
        alice.put(b"into the void", qos(express=True))
        go_on.set()
        assert alice.wait_closed().by_peer


def test_a_mistake_about_one_peer_closes_its_link(caplog: pytest.LogCaptureFixture) -> None:
    left, right = pair()
    alice = End(left, opening(), QUICK)

    class Clumsy(End):
        def _on_event(self, driver: Driver, event: Event) -> None:
            super()._on_event(driver, event)
            if not isinstance(event, Opened) and self.payloads:
                self.events.clear()
                raise RuntimeError("a mistake")

    bob = Clumsy(right, accepting(), QUICK)
    alice.wait_open()
    with caplog.at_level(logging.ERROR, "zenspark.net"):
        assert alice.put(b"x")
        assert alice.wait_closed().reason is CloseReason.GENERIC
    assert "went wrong" in caplog.text
    alice.close()
    bob.close()


# -- datagrams ----------------------------------------------------------------------------------------------------


def test_datagrams_carry_batches_without_their_length() -> None:
    with ends(Offer(batch_size=8192), streamed=False) as (alice, bob):
        sent = [b"%d" % number * 100 for number in range(100)] + [b"large" * 10_000]
        for payload in sent:
            assert alice.put(payload)
        assert bob.wait_payloads(len(sent)) == sent
        alice.in_loop(alice.driver.close)
        closed = bob.wait_closed()
        assert closed.by_peer
        assert closed.reason is CloseReason.GENERIC
