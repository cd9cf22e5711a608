"""The end of sessions: by several threads, at exit of their process, when no reference is left, in a forked child."""

from __future__ import annotations

import os
import textwrap
import threading

import pytest

from tests.unit.api.programs import run
from tests.unit.api.sessions import address
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session


def test_concurrent_close_is_safe(router: Session, client: Session) -> None:
    threads = [threading.Thread(target=client.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    until(lambda: not router.info.transports())


@pytest.mark.slow
def test_publications_are_written_at_process_exit(router: Session) -> None:
    subscriber = router.declare_subscriber("a")
    run(
        """
        session = zenspark.open(config)
        session.declare_subscriber("b", print)
        session.put("a", b"x" * 3_000_000, congestion_control=zenspark.CongestionControl.BLOCK)
        """,
        address(router),
    )
    assert len(subscriber.recv(TIMEOUT_SECONDS).payload) == 3_000_000
    until(lambda: not router.info.transports())


SLOW_CALLBACKS = """
    import time
    def show(item):
        started.set()
        time.sleep(0.1)
        print("item", flush=True)
    import threading
    started = threading.Event()
    session = zenspark.open(config)
    session.declare_subscriber("a", zenspark.handlers.Callback(show, lambda: print("drop", flush=True)))
    for number in range(3):
        session.put("a", "x")
    started.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["session.close()", "sys.exit(0)", "pass"])
def test_callbacks_are_called_with_queued_items_at_process_exit(router: Session, end: str) -> None:
    """Then they are dropped, as in eclipse-zenoh: a program may write its last rows there."""
    out = run(textwrap.dedent(SLOW_CALLBACKS) + end, address(router))
    assert out.split() == ["item", "item", "item", "drop"]


@pytest.mark.slow
def test_publications_of_an_unreferenced_session_are_written(router: Session) -> None:
    subscriber = router.declare_subscriber("a")
    run(
        """
        def main():
            session = zenspark.open(config)
            session.put("a", b"x" * 3_000_000, congestion_control=zenspark.CongestionControl.BLOCK)
        main()
        """,
        address(router),
    )
    assert len(subscriber.recv(TIMEOUT_SECONDS).payload) == 3_000_000


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_child_forgets_sessions_of_the_parent(router: Session) -> None:
    subscriber = router.declare_subscriber("a")
    out = run(
        """
        session = zenspark.open(config)
        publisher = session.declare_publisher("a")
        child = os.fork()
        if not child:
            assert session.is_closed()
            try:
                session.put("a", b"never")
            except zenspark.ZError as error:
                print("refused", flush=True)
            session.close()
            del publisher
            with zenspark.open(config) as own:
                own.put("a", b"child")
            sys.exit(0)
        pid, status = os.waitpid(child, 0)
        assert status == 0
        publisher.put(b"parent")
        session.close()
        """,
        address(router),
    )
    assert out == "refused\n"
    assert {subscriber.recv(TIMEOUT_SECONDS).payload.to_bytes() for _ in range(2)} == {b"child", b"parent"}
    assert subscriber.try_recv() is None
