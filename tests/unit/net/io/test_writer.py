"""Sending: when what is written, and what happens when the peer does not read."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from array import array
from collections.abc import Iterator
from itertools import accumulate

import pytest

from tests.unit.net.ends import link_pair, meanwhile, receive
from tests.unit.net.nodes import (
    CHUNK,
    KEY,
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
from zenspark.errors import CloseReason
from zenspark.net.io.congestion_control import WriterSettings
from zenspark.net.io.counters import DropReason, NeighbourCounters
from zenspark.net.io.writer import nonblocking
from zenspark.transport.handshake import Capabilities
from zenspark.wire.codec import decode_batch, encode
from zenspark.wire.columns import (
    LANE_EXPRESS,
    BatchDecoder,
    BinaryColumn,
    Framing,
    OutgoingRows,
    PushColumns,
    RowForwarder,
    StopReason,
)
from zenspark.wire.messages import Del, Frame, Push
from zenspark.wire.values import Congestion, Priority, QoS, WireExpr, ZenohId

NEVER_IDLE = WriterSettings(idle_before_direct_write=3600.0, close_linger=0.2)
"""Never so quiet that a message is written by itself."""
SHORT_WAITS = WriterSettings(wait_before_drop=0.001, wait_before_close=0.1, close_linger=0.1)


@contextlib.contextmanager
def ends_with_recording_link(settings: WriterSettings) -> Iterator[tuple[End, End, RecordingLink]]:
    left, right = link_pair()
    link = RecordingLink(left)
    bob = End(right, accepting())
    alice = End(link, opening(), settings)
    try:
        alice.wait_open()
        bob.wait_open()
        link.writes.clear()
        yield alice, bob, link
    finally:
        alice.close()
        bob.close()


# -- when it is written -------------------------------------------------------------------------------------------


def test_message_after_idle_time_is_written_by_the_sending_thread() -> None:
    with ends_with_recording_link(WriterSettings(idle_before_direct_write=-1.0, close_linger=0.2)) as (
        alice,
        bob,
        link,
    ):
        assert alice.put(b"hello")
        assert [by_loop for _, by_loop in link.writes] == [False]
        assert bob.wait_payloads(1) == [b"hello"]


def test_in_a_run_messages_are_batched_and_written_by_the_loop() -> None:
    with ends_with_recording_link(NEVER_IDLE) as (alice, bob, link):
        alice.driver._last_write = time.monotonic()
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(TIMEOUT_SECONDS))
        for number in range(100):
            assert alice.put(b"%d" % number)
        assert link.writes == []
        go_on.set()
        assert bob.wait_payloads(100) == [b"%d" % number for number in range(100)]
        assert [by_loop for _, by_loop in link.writes] == [True]


def test_full_batch_is_written_by_the_thread_that_filled_it() -> None:
    with ends_with_recording_link(NEVER_IDLE) as (alice, bob, link):
        alice.driver._last_write = time.monotonic()
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(TIMEOUT_SECONDS))
        for _ in range(4):
            assert alice.put(CHUNK)
        assert [by_loop for _, by_loop in link.writes] == [False]
        assert 60_000 < link.writes[0][0] <= 0xFFFF
        go_on.set()
        bob.wait_payloads(4)


def test_in_bulk_publishers_write_full_batches_and_the_loop_the_last() -> None:
    sent = [b"%d" % number * 50 for number in range(700)]
    with ends_with_recording_link(NEVER_IDLE) as (alice, bob, link):
        alice.driver._last_write = time.monotonic()
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(TIMEOUT_SECONDS))
        for payload in sent:
            assert alice.put(payload)
        go_on.set()
        assert bob.wait_payloads(len(sent)) == sent
        writers = [by_loop for _, by_loop in link.writes]
        assert writers.count(True) == 1
        assert writers[-1], "what is left is written by the loop"


def test_full_batch_already_written_by_the_loop_does_not_hold_back_later_messages() -> None:
    with ends_with_recording_link(NEVER_IDLE) as (alice, bob, _):
        alice.driver.write_full_batches()  # by a publisher that filled a batch, after the loop wrote it
        alice.driver.send_encoded(encode(push(b"declared")), None, QoS.DEFAULT)
        alice.driver.flush()
        assert bob.wait_payloads(1) == [b"declared"]


@pytest.mark.slow
def test_blocked_publisher_continues_although_the_loop_is_busy() -> None:
    sent = [b"%d" % number + CHUNK for number in range(100)]
    with ends_with_recording_link(NEVER_IDLE) as (alice, bob, _):
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(TIMEOUT_SECONDS))
        for payload in sent:
            assert alice.put(payload)
        go_on.set()
        assert bob.wait_payloads(len(sent)) == sent


def test_publisher_with_space_does_not_wait_for_the_loop() -> None:
    with ends_with_paused_reader(QUICK) as (alice, bob):
        count = fill(alice)
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(TIMEOUT_SECONDS))
        bob.driver.resume()
        bob.wait_payloads(count - 2)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not alice.put(b"now", qos(Congestion.DROP)):
            assert time.monotonic() < deadline
        go_on.set()
        assert bob.wait_payloads(count + 1)[-1] == b"now"


def batches_of(link: RecordingLink) -> list[list[bytes]]:
    """The payloads in each batch that was written."""
    found, data = [], bytes(link.bytes_sent)
    while data:
        size = int.from_bytes(data[:2], "little")
        frames, data = decode_batch(data[2 : 2 + size]), data[2 + size :]
        found.append([message.body.payload for frame in frames for message in frame.msgs])  # type: ignore[attr-defined]
    return found


@contextlib.contextmanager
def ends_with_busy_loop(settings: WriterSettings = NEVER_IDLE) -> Iterator[tuple[End, End, RecordingLink]]:
    """Two ends, of which one is in the middle of a run, and its loop has something else to do."""
    with ends_with_recording_link(settings) as (alice, bob, link):
        alice.driver._last_write = time.monotonic()
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(TIMEOUT_SECONDS))
        try:
            link.bytes_sent.clear()
            yield alice, bob, link
        finally:
            go_on.set()


def test_express_message_is_written_at_once_in_its_own_batch() -> None:
    with ends_with_busy_loop() as (alice, bob, link):
        for payload, is_express in [(b"1", False), (b"2", False), (b"3", True), (b"4", True), (b"5", False)]:
            assert alice.put(payload, qos(express=is_express))
        assert batches_of(link) == [[b"1", b"2"], [b"3"], [b"4"]]
        assert bob.wait_payloads(4) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("in_full_flow", [False, True])
def test_express_send_message_is_written_in_its_own_batch(in_full_flow: bool) -> None:
    with ends_with_busy_loop() as (alice, _, link):
        assert alice.put(b"1")
        alice.driver._is_bulk = in_full_flow
        alice.driver.send_message(push(b"2"), qos(priority=Priority.REAL_TIME))
        alice.driver.send_message(push(b"3"), qos(express=True))
        alice.driver.send_message(push(b"4"), qos())
        assert batches_of(link) == [[b"2"], [b"1"], [b"3"]]


def test_each_express_row_is_written_in_its_own_batch() -> None:
    with ends_with_busy_loop() as (alice, bob, link):
        assert alice.put(b"0")
        assert alice.driver.publish_rows(rows_of([b"1", b"2", CHUNK]), qos(express=True), True)
        assert batches_of(link)[:3] == [[b"0"], [b"1"], [b"2"]]
        assert bob.wait_payloads(4) == [b"0", b"1", b"2", CHUNK]


def test_each_forwarded_express_row_is_written_in_its_own_batch() -> None:
    messages = [push(b"%d" % number, qos(express=number in (2, 3))) for number in range(6)]
    columns = PushColumns(8)
    batch = encode(Frame(reliable=True, sn=0, msgs=tuple(messages)))
    assert BatchDecoder(batch, Framing.BATCH).decode(columns) is StopReason.END
    templates = [columns.template_at(index) for index in range(columns.template_count)]
    lanes = bytes(13 | (LANE_EXPRESS if template.qos.express else 0) for template in templates)
    heads = [encode(Push(wire_expr=template.wire_expr, qos=template.qos, body=Del()))[:-1] for template in templates]
    with ends_with_busy_loop() as (alice, bob, link):
        alice.driver.forward_rows(RowForwarder(columns, 0, 6, lanes, heads, b"\1"))
        assert batches_of(link) == [[b"0", b"1"], [b"2"], [b"3"]]
        alice.driver.flush_and_wait()
        assert batches_of(link)[3:] == [[b"4", b"5"]]
        assert bob.wait_payloads(6) == [b"%d" % number for number in range(6)]


def test_send_message_is_written_before_later_publications() -> None:
    with ends_with_recording_link(NEVER_IDLE) as (alice, bob, _):
        alice.driver._last_write = time.monotonic()
        alice.driver.send_message(push(b"sent"), qos(priority=Priority.BACKGROUND))
        assert alice.put(b"put", qos(priority=Priority.REAL_TIME))
        assert bob.wait_payloads(2) == [b"sent", b"put"]


def test_nothing_is_sent_before_the_session_is_open() -> None:
    left, right = link_pair()
    alice = End(left, opening(), QUICK)
    with contextlib.closing(right):
        assert not alice.put(b"too early")
        alice.driver.send_message(push(b"too early"), QoS.DEFAULT)
        assert receive(right)
    alice.wait_closed()
    assert alice.link_closed.wait(TIMEOUT_SECONDS)
    assert alice.loop.stop(TIMEOUT_SECONDS)


def test_message_too_large_is_dropped_and_the_next_one_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ends(Capabilities(low_latency=True)) as (alice, bob), caplog.at_level(logging.DEBUG, "zenspark.net"):
        counters = attach_counters(alice)
        alice.driver.send_message(push(bytes(100_000)), qos())
        alice.driver.send_message(push(b"small"), qos())
        alice.driver.flush()
        assert bob.wait_payloads(1) == [b"small"]
        assert f"dropped message to {counters}: bytes of a message in a low-latency session: 1000" in caplog.text


def test_messages_of_other_threads_are_written_on_flush() -> None:
    with ends_with_recording_link(NEVER_IDLE) as (alice, bob, link):
        for number in range(3):
            alice.driver.send_message(push(b"%d" % number), qos())
        assert link.writes == []
        alice.driver.flush()
        alice.driver.flush()
        assert [by_loop for _, by_loop in link.writes] == [False]
        assert bob.wait_payloads(3) == [b"0", b"1", b"2"]


# -- rows ----------------------------------------------------------------------------------------------------------


def rows_of(payloads: list[bytes]) -> OutgoingRows:
    offsets = array("i", [0, *accumulate(map(len, payloads))])
    return OutgoingRows(len(payloads), WireExpr(0, KEY), BinaryColumn.from_offsets(b"".join(payloads), offsets))


MANY = [b"%d" % number * (number % 50) for number in range(30_000)]


def test_rows_are_written_in_chunks_after_earlier_messages() -> None:
    with ends_with_recording_link(NEVER_IDLE) as (alice, bob, link):
        alice.driver._last_write = time.monotonic()
        go_on = threading.Event()
        alice.loop.call_soon(lambda: go_on.wait(TIMEOUT_SECONDS))
        assert alice.put(b"before")
        assert alice.driver.publish_rows(rows_of(MANY[:1000]), qos(), True)
        assert [by_loop for _, by_loop in link.writes] == [False, False]
        go_on.set()
        assert bob.wait_payloads(1001) == [b"before", *MANY[:1000]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "offer", [Capabilities(), Capabilities(compression=True), Capabilities(qos=False), Capabilities(batch_size=512)]
)
@pytest.mark.parametrize("streamed", [True, False])
def test_rows_arrive_in_order_with_any_session_parameters(offer: Capabilities, streamed: bool) -> None:
    sent = [*MANY[:2000], bytes(200_000), b"last"]
    with ends(offer, streamed=streamed) as (alice, bob):
        rows = rows_of(sent)
        assert alice.driver.publish_rows(rows, qos(), True)
        assert rows.row == rows.count
        assert bob.wait_payloads(len(sent)) == sent


@pytest.mark.slow
def test_rows_arrive_in_a_low_latency_session_too() -> None:
    with ends(Capabilities(low_latency=True)) as (alice, bob):
        assert alice.driver.publish_rows(rows_of(MANY), qos(), True)
        assert bob.wait_payloads(len(MANY)) == MANY


@pytest.mark.slow
def test_rows_that_must_wait_are_not_overwritten_by_those_behind_them() -> None:
    with ends(buffer_size=4096) as (alice, bob):
        assert alice.driver.publish_rows(rows_of(MANY), qos(), True)
        assert bob.wait_payloads(len(MANY)) == MANY


@pytest.mark.slow
def test_rows_from_the_loop_do_not_wait_nor_overwrite_each_other() -> None:
    with ends_with_paused_reader(QUICK) as (alice, bob):
        alice.in_loop(lambda: alice.driver.publish_rows(rows_of(MANY), qos(), True))
        assert alice.driver._unsent
        bob.driver.resume()
        assert bob.wait_payloads(len(MANY)) == MANY


def test_rows_with_drop_lose_only_the_last_rows_on_a_full_link() -> None:
    with ends_with_paused_reader(QUICK) as (alice, bob):
        rows = rows_of([*MANY, *MANY])
        assert not alice.driver.publish_rows(rows, qos(Congestion.DROP), True)
        assert 0 < rows.row < rows.count
        bob.driver.resume()
        assert bob.wait_payloads(rows.row) == [*MANY, *MANY][: rows.row]


@pytest.mark.slow
def test_rows_with_block_wait_until_the_peer_reads() -> None:
    with ends_with_paused_reader(QUICK) as (alice, bob):
        count = fill(alice)
        with meanwhile(lambda: alice.driver.publish_rows(rows_of(MANY), qos(), True)) as result:
            bob.driver.resume()
            assert result()
        assert bob.wait_payloads(count + len(MANY))[count:] == MANY


def test_no_rows_are_sent_before_or_after_a_session() -> None:
    left, right = link_pair()
    alice = End(left, opening(), QUICK)
    with contextlib.closing(right):
        assert not alice.driver.publish_rows(rows_of([b"early"]), qos(), True)
    alice.wait_closed()
    assert alice.link_closed.wait(TIMEOUT_SECONDS)
    assert alice.loop.stop(TIMEOUT_SECONDS)
    with ends() as (alice, bob):
        alice.in_loop(alice.driver.end_session)
        rows = rows_of([b"late"])
        assert not alice.driver.publish_rows(rows, qos(), True)
        assert rows.row == 0
        assert bob.payloads == []


# -- when the peer does not read ----------------------------------------------------------------------------------


def test_block_waits_and_continues_in_order_without_loss() -> None:
    with ends_with_paused_reader(QUICK) as (alice, bob):
        count = fill(alice)
        blocked = threading.Event()

        def publish() -> bool:
            blocked.set()
            return all(alice.put(b"more%d" % number) for number in range(500))

        with meanwhile(publish) as result:
            assert blocked.wait(TIMEOUT_SECONDS)
            bob.driver.resume()
            assert result()
        payloads = bob.wait_payloads(count + 500)
        assert payloads == [b"fill%d" % n + CHUNK for n in range(count)] + [b"more%d" % n for n in range(500)]


def test_drop_waits_once_until_the_link_drains() -> None:
    with ends_with_paused_reader(WriterSettings(wait_before_drop=0.05, close_linger=0.1)) as (alice, bob):
        count = fill(alice)
        start = time.monotonic()
        assert not alice.put(b"dropped", qos(Congestion.DROP))
        waited = time.monotonic() - start
        assert waited >= 0.05
        assert not any(alice.put(b"dropped", qos(Congestion.DROP)) for _ in range(1000))
        assert time.monotonic() - start < waited + 5.0, "a thousand waits would take fifty seconds"
        bob.driver.resume()
        bob.wait_payloads(count)
        assert alice.driver.wait_until_drained(Congestion.BLOCK)
        assert alice.put(b"kept", qos(Congestion.DROP))
        assert bob.wait_payloads(count + 1)[-1] == b"kept"


def test_block_first_waits_once_and_others_are_dropped() -> None:
    first = qos(Congestion.BLOCK_FIRST)
    with ends_with_paused_reader(QUICK) as (alice, bob):
        count = fill(alice)
        with meanwhile(lambda: alice.put(b"first", first)) as result:
            while not alice.driver.congestion.has_block_first:
                time.sleep(0)
            assert not alice.put(b"second", first)
            assert not alice.put(b"third", first)
            bob.driver.resume()
            assert result()
        assert bob.wait_payloads(count + 1)[-1] == b"first"
        assert alice.put(b"fourth", first)
        assert bob.wait_payloads(count + 2)[-1] == b"fourth"


@pytest.mark.slow
def test_unresponsive_peer_is_disconnected() -> None:
    with ends_with_paused_reader(SHORT_WAITS) as (alice, _):
        fill(alice)
        assert not alice.put(b"never")
        closed = alice.wait_closed()
        assert closed.reason is CloseReason.UNRESPONSIVE
        assert not closed.by_peer
        assert not alice.put(b"over"), "a driver that is closed takes nothing"
        assert not alice.driver.wait_until_drained(Congestion.BLOCK)


@pytest.mark.slow
def test_blocked_publisher_is_woken_when_the_session_ends() -> None:
    with ends_with_paused_reader(WriterSettings(wait_before_close=60.0, close_linger=0.1)) as (alice, _):
        fill(alice)
        with meanwhile(lambda: alice.put(b"never")) as result:
            alice.in_loop(alice.driver.end_session)
            assert not result()


def test_publish_in_the_loop_thread_never_waits() -> None:
    with ends_with_paused_reader(QUICK) as (alice, bob):
        count = fill(alice)
        alice.in_loop(lambda: alice.put(b"from the loop"))
        bob.driver.resume()
        assert bob.wait_payloads(count + 1)[-1] == b"from the loop"


def test_nonblocking_thread_never_waits() -> None:
    with ends_with_paused_reader(QUICK) as (alice, bob):
        count = fill(alice)
        with nonblocking:
            assert alice.put(b"one too many")
            assert not alice.put(b"dropped", qos(Congestion.DROP))
            assert not alice.put(b"dropped", qos(Congestion.BLOCK_FIRST))
        bob.driver.resume()
        assert bob.wait_payloads(count + 1)[-1] == b"one too many"


def test_would_block_does_not_wait() -> None:
    with ends_with_paused_reader(QUICK) as (alice, bob):
        makes_wait = alice.driver.would_block
        assert not any(makes_wait(congestion) for congestion in Congestion)
        fill(alice)
        assert all(makes_wait(congestion) for congestion in Congestion)
        assert not alice.put(b"dropped", qos(Congestion.DROP))
        assert not makes_wait(Congestion.DROP), "it was found out just now that there is no room"
        with meanwhile(lambda: alice.put(b"first", qos(Congestion.BLOCK_FIRST))) as result:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not alice.driver.congestion.has_block_first and time.monotonic() < deadline:
                time.sleep(0)
            assert not makes_wait(Congestion.BLOCK_FIRST), "another one waits already"
            assert makes_wait(Congestion.BLOCK)
            bob.driver.resume()
            assert result()
        assert alice.driver.wait_until_drained(Congestion.BLOCK)
        assert not any(makes_wait(congestion) for congestion in Congestion)


@pytest.mark.slow
def test_closed_link_is_not_waited_for() -> None:
    with ends_with_paused_reader(WriterSettings(close_linger=1.0)) as (alice, _):
        fill(alice)
        alice.in_loop(alice.driver.end_session)
        assert not alice.driver.would_block(Congestion.BLOCK)


def test_draining_waits_until_everything_is_written() -> None:
    with ends_with_paused_reader(QUICK) as (alice, bob):
        count = fill(alice)
        with meanwhile(alice.driver.flush_and_wait):
            bob.driver.resume()
        assert not alice.driver._unsent
        bob.wait_payloads(count)


def test_large_message_arrives_through_a_small_send_buffer() -> None:
    large = bytes(range(256)) * 8000
    with ends(buffer_size=4096) as (alice, bob):
        assert alice.put(large)
        assert bob.wait_payloads(1) == [large]


@pytest.mark.parametrize(
    "offer", [Capabilities(compression=True), Capabilities(qos=False), Capabilities(batch_size=512)]
)
def test_messages_arrive_with_any_session_parameters(offer: Capabilities) -> None:
    sent = [b"%d" % number * (number % 50) for number in range(300)]
    with ends(offer) as (alice, bob):
        for payload in sent:
            assert alice.put(payload)
        assert bob.wait_payloads(len(sent)) == sent


def attach_counters(alice: End) -> NeighbourCounters:
    """Counters for what this end does not send."""
    counters = NeighbourCounters(ZenohId(0xB0B))
    alice.driver.neighbour_counters = (counters,)
    return counters


@pytest.mark.slow
def test_drops_are_counted_by_reason() -> None:
    with ends_with_paused_reader(SHORT_WAITS) as (alice, _):
        counters = attach_counters(alice)
        fill(alice)
        assert not any(alice.put(b"dropped", qos(Congestion.DROP)) for _ in range(10))
        assert counters.totals.dropped == {DropReason.CONGESTION: 10}
        assert not alice.put(b"never")
        before_close = {DropReason.CONGESTION: 10, DropReason.BLOCKED: 1}
        # The loop closes the link meanwhile, and then counts the one message that lay before them.
        after_close = before_close | {DropReason.UNRESPONSIVE: 1}
        assert counters.totals.dropped in (before_close, after_close)
        alice.wait_closed()
        assert not alice.put(b"over")
        assert counters.totals.dropped == after_close, "there is no neighbour to count for after the end"


def test_unsent_batches_of_a_slow_consumer_are_counted() -> None:
    with ends_with_paused_reader(QUICK, Capabilities(batch_size=512)) as (alice, _):
        counters, backlog = attach_counters(alice), 0
        alice.driver.publish_rows(rows_of([b"x" * 100] * 2000), qos(), True)
        alice.driver.send_message(push(b"in the outbox"), qos())

        def end_session() -> None:
            nonlocal backlog
            backlog = alice.driver.backlog
            alice.driver.end_session(CloseReason.UNRESPONSIVE)

        alice.in_loop(end_session)
        unsent_batches = counters.totals.dropped[DropReason.UNRESPONSIVE]
        assert backlog // 512 < unsent_batches <= backlog // 400 + 2, "a batch has four rows, the last ones fewer"
        assert alice.driver.backlog == 0


@pytest.mark.slow
def test_rows_that_are_dropped_are_counted() -> None:
    with ends_with_paused_reader(QUICK) as (alice, _):
        counters = attach_counters(alice)
        rows = rows_of([*MANY, *MANY])
        assert not alice.driver.publish_rows(rows, qos(Congestion.DROP), True)
        assert counters.totals.dropped == {DropReason.CONGESTION: rows.count - rows.row}


@pytest.mark.slow
def test_sent_messages_are_not_counted_as_dropped() -> None:
    with ends() as (alice, bob):
        counters = attach_counters(alice)
        assert all(alice.put(b"sent", qos(Congestion.BLOCK)) for _ in range(100))
        assert alice.driver.publish_rows(rows_of(MANY), qos(Congestion.BLOCK), True)
        bob.wait_payloads(100 + len(MANY))
        assert counters.totals.dropped == {}


def test_message_too_large_is_counted_as_dropped() -> None:
    with ends(Capabilities(low_latency=True, qos=False)) as (alice, bob):
        counters = attach_counters(alice)
        alice.driver.send_message(push(bytes(100_000)), qos())
        alice.put(b"next")
        assert bob.wait_payloads(1) == [b"next"]
        assert counters.totals.dropped == {DropReason.TOO_LARGE: 1}


# -- passing on


def rows_to_forward(*payloads: bytes) -> tuple[PushColumns, RowForwarder]:
    columns = PushColumns(16)
    content = encode(Frame(reliable=True, sn=1, msgs=tuple(push(payload) for payload in payloads)))
    assert BatchDecoder(content, Framing.BATCH).decode(columns) is StopReason.END
    head = encode(Push(wire_expr=WireExpr(0, KEY), qos=qos(), body=Del()))[:-1]
    return columns, RowForwarder(columns, 0, len(payloads), bytes([13]), [head], b"\1")


@pytest.mark.parametrize("low_latency", [False, True])
def test_forwarded_rows_arrive_except_too_large_ones(low_latency: bool, caplog: pytest.LogCaptureFixture) -> None:
    offer = Capabilities(low_latency=low_latency, batch_size=100, qos=not low_latency)
    with ends(offer) as (alice, bob):
        columns, rows = rows_to_forward(b"first", b"x" * 200, b"last")
        with caplog.at_level(logging.DEBUG, "zenspark.net"):
            alice.in_loop(lambda: alice.driver.forward_rows(rows))
            expected = [b"first", b"last"] if low_latency else [b"first", b"x" * 200, b"last"]
            assert bob.wait_payloads(len(expected)) == expected
        assert ("dropped message to " in caplog.text) is low_latency
        assert len(columns) == 3


@pytest.mark.slow
def test_no_rows_are_forwarded_before_or_after_a_session() -> None:
    left, right = link_pair()
    end = End(left, opening())
    _, rows = rows_to_forward(b"x")
    end.in_loop(lambda: end.driver.forward_rows(rows))
    assert rows.lane >= 0
    end.close()
    right.close()
    with ends() as (alice, _):
        alice.in_loop(alice.driver.end_session)
        alice.in_loop(lambda: alice.driver.forward_rows(rows))
        assert rows.lane >= 0


# -- the limit of what waits ------------------------------------------------------------------------------------------

BOUNDED = WriterSettings(wait_before_close=60.0, close_linger=0.2, max_backlog=200_000)


def test_backlog_of_send_message_is_bounded() -> None:
    with ends_with_paused_reader(BOUNDED) as (alice, _):
        counters = attach_counters(alice)
        message = push(CHUNK)

        def send_all() -> None:
            for _ in range(100):
                alice.driver.send_message(message, message.qos)

        alice.in_loop(send_all)
        closed = alice.wait_closed()
        assert closed.reason is CloseReason.UNRESPONSIVE
        assert closed.text.startswith("slow consumer: ")
        assert counters.totals.dropped[DropReason.BACKLOG] > 50
        assert alice.driver.backlog == 0, "nothing is kept of it"


def test_backlog_of_forwarded_rows_is_bounded() -> None:
    """Short publications with a long key: they are many more bytes than were received."""
    columns = PushColumns(1 << 15)
    pushes = tuple(push(b"x") for _ in range(2000))
    frame = encode(Frame(reliable=True, sn=0, msgs=pushes))
    assert BatchDecoder(frame, Framing.BATCH).decode(columns) is StopReason.END
    head = encode(Push(wire_expr=WireExpr(0, "k" * 10_000), qos=qos(), body=Del()))[:-1]
    with ends_with_paused_reader(BOUNDED) as (alice, _):
        lanes = bytes([Priority.DATA | 8]) * columns.template_count
        forwarder = RowForwarder(columns, 0, len(pushes), lanes, [head] * columns.template_count, bytes(1))
        alice.in_loop(lambda: alice.driver.forward_rows(forwarder))
        assert alice.wait_closed().reason is CloseReason.UNRESPONSIVE
        assert forwarder.lane >= 0, "the rest was not even written"


@pytest.mark.slow
def test_blocked_put_can_be_interrupted_and_releases_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    def contend() -> None:
        while not done.is_set():
            with alice.driver._lock:
                time.sleep(0)

    monkeypatch.setattr("zenspark.net.io.congestion_control.DRAIN_RECHECK_INTERVAL_SECONDS", 0.0001)
    done = threading.Event()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    interrupts = 0
    with ends_with_paused_reader(WriterSettings(wait_before_close=60.0, close_linger=0.1)) as (alice, _):
        fill(alice)
        with meanwhile(contend):
            for number in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + number % 20 * 0.0001)
                    alice.put(b"never")
                except KeyboardInterrupt:
                    interrupts += 1
            done.set()
        signal.signal(signal.SIGALRM, previous)
        assert interrupts == 300
        assert alice.driver._lock.acquire(timeout=TIMEOUT_SECONDS)
        alice.driver._lock.release()
