from zenspark.transport.counters import KINDS, LossReason, MessageKind, ReceiveCounters
from zenspark.wire.messages import Declare, NetworkMessage, Push, Request


def test_losses_are_counted_by_reason() -> None:
    counters = ReceiveCounters()
    counters.count_lost(LossReason.INTERRUPTED)
    counters.count_lost(LossReason.SEQUENCE_GAP, 3)
    counters.count_lost(LossReason.INTERRUPTED)
    assert counters.lost == {LossReason.INTERRUPTED: 2, LossReason.SEQUENCE_GAP: 3}


def test_counters_of_several_links_add_up() -> None:
    total, other = ReceiveCounters(), ReceiveCounters()
    total.received, other.received = 5, 2
    total.count_lost(LossReason.TOO_LARGE)
    other.count_lost(LossReason.TOO_LARGE)
    other.count_lost(LossReason.SHARED_MEMORY)
    total.add(other)
    assert (total.received, other.received) == (7, 2)
    assert total.lost == {LossReason.TOO_LARGE: 2, LossReason.SHARED_MEMORY: 1}


def test_every_network_message_has_a_kind() -> None:
    assert set(KINDS) == set(NetworkMessage.__subclasses__())
    assert set(KINDS.values()) == set(MessageKind)


def test_messages_that_were_not_decoded_to_objects_are_publications() -> None:
    total, other = ReceiveCounters(), ReceiveCounters()
    assert total.received_by_kind == {}
    other.received = 10
    other.decoded.update({Push: 1, Declare: 2, Request: 3})
    total.add(other)
    total.add(other)
    assert total.received_by_kind == {MessageKind.PUSH: 10, MessageKind.DECLARE: 4, MessageKind.REQUEST: 6}
