"""What goes wrong between us and eclipse-zenoh: processes that die, datagrams that are lost, readers that are slow."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

import zenspark
from tests.interop.reference import unused
from tests.unit.net.ends import meanwhile
from tests.wait import TIMEOUT_SECONDS, until

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

Api: TypeAlias = Any
Found: TypeAlias = Any

RETRY = {"period_init_ms": 50, "period_max_ms": 100, "period_increase_factor": 2}
BOTH_WAYS = pytest.mark.parametrize("apis", [(zenspark, zenoh), (zenoh, zenspark)], ids=["we call", "they call"])


def start(api: Api, **config: object) -> Found:
    made = api.Config()
    settings = {
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        "listen/endpoints": [],
        "connect/retry": RETRY,
        **{name.replace("__", "/"): value for name, value in config.items()},
    }
    for key, value in settings.items():
        made.insert_json5(key, json.dumps(value))
    return api.open(made)


# --- our process dies -----------------------------------------------------------------------------

OURS = """
import json, sys, zenspark
config = zenspark.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
session = zenspark.open(config)
held = []
subscriber = session.declare_subscriber("down", lambda sample: print(sample.payload.to_string(), flush=True))
queryable = session.declare_queryable("query", held.append)
quick = session.declare_queryable("quick", lambda query: query.reply("quick", "yes"))
token = session.liveliness().declare_token("alive")
publisher = session.declare_publisher("up", congestion_control=zenspark.CongestionControl.BLOCK)
print("ready", flush=True)
while True:
    publisher.put("x")
"""


@contextlib.contextmanager
def our_process(mode: str, there: str) -> Iterator[subprocess.Popen[str]]:
    settings = {
        "mode": mode,
        "connect/endpoints": [there],
        "listen/endpoints": [],
        "scouting/multicast/enabled": False,
        "connect/retry": RETRY,
    }
    process = subprocess.Popen([sys.executable, "-c", OURS, json.dumps(settings)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("mode", "theirs"), [("client", "router"), ("peer", "peer"), ("client", "peer")])
def test_killed_zenspark_process_is_undeclared_and_a_new_one_is_accepted(mode: str, theirs: str) -> None:
    """It is subscribed, publishing, alive and replying when it dies; a second one is as good as the first."""
    there = unused()
    announced: list[str] = []
    came = threading.Event()
    with (
        start(zenoh, mode=theirs, listen__endpoints=[there]) as session,
        session.liveliness().declare_subscriber("alive", lambda sample: announced.append(str(sample.kind))),
        session.declare_subscriber("up", lambda _: came.set()),
        session.declare_publisher("down") as publisher,
        session.declare_querier("query", timeout=600) as querier,
    ):
        for lives in (1, 2):
            with our_process(mode, there) as ours:
                until(lambda: publisher.matching_status.matching and querier.matching_status.matching)
                until(lambda: len(announced) == 2 * lives - 1)  # noqa: B023 - called at once
                came.clear()
                assert came.wait(3 * TIMEOUT_SECONDS), "it publishes"
                publisher.put("received")
                assert ours.stdout is not None
                assert ours.stdout.readline() == "received\n"
                assert [reply.ok.payload.to_string() for reply in session.get("quick")] == ["yes"]
                with meanwhile(lambda: list(querier.get())) as replies:
                    ours.kill()
                    replies()
                until(lambda: len(announced) == 2 * lives)  # noqa: B023 - called at once
                until(lambda: not publisher.matching_status.matching and not querier.matching_status.matching)
        assert announced == ["SampleKind.PUT", "SampleKind.DELETE"] * 2
        assert not list(session.liveliness().get("alive"))


# --- datagrams are lost ---------------------------------------------------------------------------


class LossyUdpProxy:
    """Carries datagrams to a place and back, but for one of them."""

    def __init__(self, there: str, lost: tuple[str, int]) -> None:
        host, _, port = there.removeprefix("udp/").rpartition(":")
        self._there = (host, int(port))
        self._lost = lost
        self._count = {"there": 0, "back": 0}
        self.dropped: list[bytes] = []
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind(("127.0.0.1", 0))
        self.endpoint = f"udp/127.0.0.1:{self._front.getsockname()[1]}"
        self._backs: dict[Any, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._front, selectors.EVENT_READ, None)
        self._over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(0.05):
                with contextlib.suppress(ConnectionRefusedError):
                    self._carry(key.data)

    def _carry(self, caller: Found) -> None:
        if caller is None:
            batch, caller = self._front.recvfrom(1 << 16)
            if caller not in self._backs:
                back = self._backs[caller] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                back.connect(self._there)
                self._selector.register(back, selectors.EVENT_READ, caller)
            if self._passes("there", batch):
                self._backs[caller].send(batch)
        else:
            batch = self._backs[caller].recv(1 << 16)
            if self._passes("back", batch):
                self._front.sendto(batch, caller)

    def _passes(self, way: str, batch: bytes) -> bool:
        number = self._count[way]
        self._count[way] += 1
        if (way, number) == self._lost:
            self.dropped.append(batch)
            return False
        return True

    def close(self) -> None:
        self._over = True
        self._thread.join(TIMEOUT_SECONDS)
        self._selector.close()
        for each in (self._front, *self._backs.values()):
            each.close()


@BOTH_WAYS
@pytest.mark.parametrize(
    ("lost", "header"),
    [(("there", 0), 0x01), (("back", 0), 0x21), (("there", 1), 0x02), (("back", 1), 0x22)],
    ids=["InitSyn", "InitAck", "OpenSyn", "OpenAck"],
)
def test_a_handshake_over_a_lossy_link_begins_again(apis: tuple[Api, Api], lost: tuple[str, int], header: int) -> None:
    """Nothing is sent again: the attempt fails, and the next one succeeds."""
    caller, callee = apis
    quick = {
        "transport__unicast__open_timeout": 300,
        "transport__unicast__accept_timeout": 300,
        "transport__link__tx__lease": 600,
    }
    there = unused("udp")
    with contextlib.closing(LossyUdpProxy(there, lost)) as between, contextlib.ExitStack() as stack:
        one = stack.enter_context(start(callee, mode="peer", listen__endpoints=[there], **quick))
        other = stack.enter_context(start(caller, mode="peer", connect__endpoints=[between.endpoint], **quick))
        found: list[Any] = []
        stack.enter_context(one.declare_subscriber("k", found.append))
        publisher = stack.enter_context(other.declare_publisher("k"))

        def is_received() -> bool:
            publisher.put("")
            return bool(found)

        until(is_received)
        assert [batch[0] & 0x3F for batch in between.dropped] == [header]


# --- one node, one link ---------------------------------------------------------------------------


@BOTH_WAYS
def test_a_second_link_from_the_same_node_is_refused(apis: tuple[Api, Api]) -> None:
    caller, callee = apis
    there = unused()
    with (
        start(callee, mode="router", listen__endpoints=[there]) as router,
        start(caller, mode="client", connect__endpoints=[there], id="abc") as first,
    ):
        until(lambda: router.info.transports())
        with pytest.raises(caller.ZError):
            start(caller, mode="client", connect__endpoints=[there], id="abc")
        found: list[Any] = []
        with router.declare_subscriber("k", found.append), first.declare_publisher("k") as publisher:
            until(lambda: publisher.matching_status.matching)
            publisher.put("")
            until(lambda: found)
        assert len(list(router.info.transports())) == 1


# --- slow readers ---------------------------------------------------------------------------------


def test_with_block_first_one_waits_and_others_are_dropped() -> None:
    """Their subscriber does not read for a while; then it gets what waited, and not what came meanwhile."""
    there = unused()
    with (
        start(zenoh, mode="peer", listen__endpoints=[there]) as theirs,
        start(zenspark, mode="peer", connect__endpoints=[there]) as ours,
        theirs.declare_subscriber("k", zenoh.handlers.FifoChannel(1)) as subscriber,
        ours.declare_publisher("k", congestion_control=zenspark.CongestionControl.BLOCK_FIRST) as publisher,
    ):
        until(lambda: publisher.matching_status.matching)
        (driver,) = ours._runtime.node.drivers.values()
        sent = [0]

        def fill() -> None:
            while not released.is_set():
                publisher.put(str(sent[0]).rjust(1 << 20))
                sent[0] += 1

        tried: list[str] = []

        def is_dropped() -> bool:
            """Whether nothing moved while one more was published: at first they may still be reading a little."""
            before = driver._bytes_sent, sent[0]
            if not (driver.congestion.has_block_first and driver._unsent):
                return False
            tried.append(f"try {len(tried)}")
            publisher.put(tried[-1])
            return driver.congestion.has_block_first and (driver._bytes_sent, sent[0]) == before

        released = threading.Event()
        with meanwhile(fill) as filled, contextlib.ExitStack() as otherwise:
            otherwise.callback(theirs.close)  # or else it would wait forever for a reader
            until(is_dropped)
            otherwise.pop_all()
            stuck = sent[0]
            released.set()
            found: list[str] = []
            while str(stuck) not in found:
                found.append(subscriber.recv().payload.to_string().strip())
            filled()
        publisher.put("last")
        while found[-1] != "last":
            found.append(subscriber.recv().payload.to_string().strip())
        assert tried[-1] not in found
        numbers = [int(each) for each in found if each.isdigit()]
        assert numbers == sorted(set(numbers))
        assert len(numbers) >= sent[0] - len(tried) + 1  # an earlier try may have been the one that waited


@BOTH_WAYS
def test_slow_querier_throttles_replies_without_loss(apis: tuple[Api, Api]) -> None:
    """All replies arrive, and the queryable is slowed down instead of filling its memory with them."""
    asker, answerer = apis
    there = unused()
    count, given = 20_000, [0]

    def on_query(query: Found) -> None:
        with query:
            for number in range(count):
                query.reply("q", number.to_bytes(4, "big") + bytes(2000))
                given[0] += 1

    with (
        start(answerer, mode="peer", listen__endpoints=[there]) as one,
        start(asker, mode="peer", connect__endpoints=[there]) as other,
        one.declare_queryable("q", on_query),
    ):
        with other.declare_querier("q") as querier:
            until(lambda: querier.matching_status.matching)
        replies = other.get("q", consolidation=asker.ConsolidationMode.NONE, timeout=600)
        first = next(iter(replies))
        looks: list[int] = []

        def has_stalled() -> bool:
            looks.append(given[0])
            return looks[-20:] == [given[0]] * 20

        until(has_stalled)
        assert given[0] < count
        rest = [int.from_bytes(reply.ok.payload.to_bytes()[:4], "big") for reply in replies]
        assert [int.from_bytes(first.ok.payload.to_bytes()[:4], "big"), *rest] == list(range(count))


# --- timestamp stacks -----------------------------------------------------------------------------


def readings(stack: Found) -> list[tuple[str, str]]:
    """The place and the node of each reading."""
    return [
        (str(record.point).rpartition(".")[2].lower(), str(record.timestamp()).rpartition("/")[2])
        for record in stack.records
    ]


@BOTH_WAYS
@pytest.mark.parametrize("points", [("send",), ("receive",), ("send", "receive"), ("send", "route", "receive")])
def test_timestamp_stacks_have_readings_of_sender_and_receiver(apis: tuple[Api, Api], points: tuple[str, ...]) -> None:
    """Sender and receiver each add a reading, to publications, queries and replies."""
    sender, receiver = apis
    builder = sender.TimestampInstrumentationBuilder()
    for point in points:
        builder = getattr(builder, f"set_{point}")(True)
    instrumentation = builder.build()
    place = unused()
    stacks: list[Any] = []

    def on_query(query: Found) -> None:
        with query:
            stacks.append(query.timestamp_stack)
            query.reply("q", "")

    with (
        start(receiver, mode="peer", listen__endpoints=[place]) as one,
        start(sender, mode="peer", connect__endpoints=[place]) as other,
        one.declare_subscriber("k", lambda sample: stacks.append(sample.timestamp_stack)),
        one.declare_queryable("q", on_query),
        other.declare_publisher("k") as publisher,
        other.declare_querier("q") as querier,
    ):
        until(lambda: publisher.matching_status.matching and querier.matching_status.matching)
        publisher.put("", timestamp_instrumentation=instrumentation)
        other.delete("k", timestamp_instrumentation=instrumentation)
        until(lambda: len(stacks) == 2)
        (reply,) = other.get("q", timestamp_instrumentation=instrumentation)
        here, there = str(other.zid()), str(one.zid())
        out = [("send", here), ("route", here), ("route", there), ("receive", there)]
        back = [("send", there), ("route", there), ("route", here), ("receive", here)]
        assert len(stacks) == 3
        for stack in stacks:
            assert readings(stack) == [reading for reading in out if reading[0] in points]
        assert readings(reply.ok.timestamp_stack) == [reading for reading in out + back if reading[0] in points]
        stacks.clear()
        with other.declare_subscriber("own", lambda sample: stacks.append(sample.timestamp_stack)):
            other.put("own", "", timestamp_instrumentation=instrumentation)
            until(lambda: stacks)
            own = [("send", here), ("receive", here)]
            assert readings(stacks[0]) == [reading for reading in own if reading[0] in points]
