"""Groups of many members in a network that loses, repeats and reorders."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.group_nodes import Datagram, Node, deliver_datagrams
from zenspark.transport.multicast import GroupSettings
from zenspark.wire.messages import Declare, DeclareFinal, NetworkMessage, Push, Put
from zenspark.wire.values import Priority, WireExpr

RULES = [
    GroupSettings(),
    GroupSettings(qos=True),
    GroupSettings(batch_size=256),
    GroupSettings(compression=True, qos=True),
    GroupSettings(resolution=0x08),
]
SECONDS = 60


class UnreliableNetwork:
    """What becomes of datagrams on their way to one node."""

    def __init__(self, dice: random.Random, loss: float, trouble: float) -> None:
        self._dice = dice
        self._loss = loss
        self._trouble = trouble

    def transmit(self, sent: list[Datagram]) -> list[Datagram]:
        arrived = [each for each in sent if self._dice.random() >= self._loss]
        arrived += [each for each in arrived if self._dice.random() < self._trouble]
        for index in range(len(arrived) - 1):
            if self._dice.random() < self._trouble:
                other = self._dice.randrange(index, len(arrived))
                arrived[index], arrived[other] = arrived[other], arrived[index]
        return arrived


def message(sender: int, number: int, size: int) -> NetworkMessage:
    """A message that names its sender and number, with a payload that follows from them."""
    body = f"{sender}:{number}:".encode()
    return Push(wire_expr=WireExpr(0, "test"), body=Put(payload=body + bytes(range(256)) * size))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(2, 7),
    rules=st.sampled_from(RULES),
    loss=st.sampled_from([0.0, 0.1, 0.4]),
    trouble=st.sampled_from([0.0, 0.3]),
)
def test_no_duplicate_or_changed_message_in_any_network(
    seed: int, count: int, rules: GroupSettings, loss: float, trouble: float
) -> None:
    dice = random.Random(seed)
    network = UnreliableNetwork(dice, loss, trouble)
    nodes = [Node(number, rules, first_sn=dice.getrandbits(32)) for number in range(1, count + 1)]
    sent: dict[int, list[NetworkMessage]] = {node.number: [] for node in nodes}
    for step in range(40):
        now = step / 4
        node = dice.choice(nodes)
        node.tick(now)
        sent_message = message(node.number, len(sent[node.number]), dice.choice([0, 0, 0, 5]))
        node.send_message(sent_message, now, dice.random() < 0.8, dice.choice(list(Priority)))
        sent[node.number].append(sent_message)
        deliver_datagrams(nodes, now, network.transmit)
    for node in nodes:
        for other in nodes:
            received = [sent_message for sender, sent_message in node.messages if sender == other.number]
            positions = [sent[other.number].index(each) for each in received]  # fails for a message that was not sent
            assert len(set(positions)) == len(positions)
            assert not positions or other is not node


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32), count=st.integers(2, 8), rules=st.sampled_from(RULES))
def test_all_members_receive_everything_in_order_without_loss(seed: int, count: int, rules: GroupSettings) -> None:
    dice = random.Random(seed)
    nodes = [Node(number, rules, first_sn=dice.getrandbits(32)) for number in range(1, count + 1)]
    dice.shuffle(nodes)
    present: list[Node] = []
    expected: dict[int, list[tuple[int, NetworkMessage]]] = {node.number: [] for node in nodes}
    for step in range(count + 20):
        now = float(step)
        if len(present) < count and dice.random() < 0.5:
            newcomer = nodes[len(present)]
            newcomer.tick(now)
            present.append(newcomer)
            deliver_datagrams(present, now)
            for node in present:
                node.tick(now + 0.5)
            deliver_datagrams(present, now + 0.5)
        if present:
            sender = dice.choice(present)
            sent_message = dice.choice([message(sender.number, step, 5), Declare(body=DeclareFinal())])
            sender.send_message(sent_message, now + 0.5)
            for node in present:
                if node is not sender:
                    expected[node.number].append((sender.number, sent_message))
            deliver_datagrams(present, now + 0.5)
        for node in present:
            node.tick(now + 0.5)
        deliver_datagrams(present, now + 0.5)
    for node in present:
        assert node.messages == expected[node.number]


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32), count=st.integers(2, 6), gone=st.sets(st.integers(1, 6)))
def test_membership_converges(seed: int, count: int, gone: set[int]) -> None:
    dice = random.Random(seed)
    network = UnreliableNetwork(dice, 0.2, 0.2)
    nodes = [Node(number, GroupSettings(lease_ms=8000)) for number in range(1, count + 1)]
    for step in range(10):
        for node in nodes:
            node.tick(float(step))
        deliver_datagrams(nodes, float(step), network.transmit)
    staying = [node for node in nodes if node.number not in gone]
    for step in range(10, SECONDS):
        for node in staying:
            node.tick(float(step))
        deliver_datagrams(staying, float(step), network.transmit if step < SECONDS - 10 else lambda sent: sent)
    for node in staying:
        assert node.others == [other.number for other in staying if other is not node]


@settings(max_examples=100)
@given(datagrams=st.lists(st.tuples(st.integers(1, 3), st.binary(max_size=80)), max_size=10), compression=st.booleans())
def test_arbitrary_bytes_do_not_affect_other_members(datagrams: list[tuple[int, bytes]], compression: bool) -> None:
    node, good = Node(1, GroupSettings(compression=compression)), Node(9, GroupSettings(compression=compression))
    good.tick(0.0)
    node.tick(0.0)
    deliver_datagrams([node, good], 0.0)
    for number, raw in datagrams:
        node.receive(f"udp/10.0.9.{number}:1", raw, 0.0)
    assert 9 in node.others
    good.send_message(message(9, 0, 3), 0.0)
    deliver_datagrams([node, good], 0.0)
    assert node.messages[-1] == (9, message(9, 0, 3))
