"""A queue that never makes a publisher wait."""

from __future__ import annotations

from tests.unit.api.sessions import pair
from tests.wait import until
from zenspark.arrow.decode import concat_chunks
from zenspark.web.chunk_queue import ChunkQueue


def test_chunk_queue_receives_local_and_remote_publications() -> None:
    woken: list[None] = []
    queue = ChunkQueue(lambda: woken.append(None))
    with pair("router", "client") as (one, other):
        subscriber = one.declare_subscriber("demo/**", queue)
        one.put("demo/own", b"1")
        chunks, skipped = queue.take()
        assert (concat_chunks(chunks)["key"].to_pylist(), skipped) == (["demo/own"], 0)
        other.put("demo/other", b"2", encoding="text/plain")
        other.delete("demo/other")
        keys: list[tuple[str, str]] = []

        def received() -> bool:
            taken = queue.take()[0]
            if taken:
                batch = concat_chunks(taken)
                keys.extend(zip(batch["key"].to_pylist(), batch["kind"].to_pylist(), strict=True))
            return len(keys) == 2

        assert until(received)
        assert keys == [("demo/other", "PUT"), ("demo/other", "DELETE")]
        subscriber.undeclare()
    assert queue.is_closed
    assert len(woken) >= 3  # once for each time it was empty, and at the end


def test_a_full_queue_drops_and_counts() -> None:
    queue = ChunkQueue(max_rows=2)
    with pair("router", "client") as (one, other):
        subscriber = one.declare_subscriber("demo/**", queue)
        for _ in range(5):
            one.put("demo/a", b"x")
        chunks, skipped = queue.take()
        assert (sum(chunk.num_rows for chunk in chunks), skipped) == (2, 3)
        for _ in range(100):
            other.put("demo/b", b"x")
        last = one.declare_subscriber("demo/last")
        other.put("demo/last", b"")
        last.recv()
        chunks, skipped = queue.take()
        assert sum(chunk.num_rows for chunk in chunks) + skipped == 101
        subscriber.undeclare()


def test_chunk_queue_over_its_byte_limit_drops_and_counts() -> None:
    queue = ChunkQueue(max_bytes=1000)
    with pair("router", "client") as (one, _):
        subscriber = one.declare_subscriber("demo/**", queue)
        for _ in range(3):
            one.put("demo/a", bytes(900))
        chunks, skipped = queue.take()
        assert (len(chunks), skipped) == (2, 1)
        subscriber.undeclare()
