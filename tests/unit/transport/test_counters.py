from zenspark.transport.counters import LossReason, ReceiveCounters


def test_losses_are_counted_by_reason() -> None:
    arrivals = ReceiveCounters()
    arrivals.count_lost(LossReason.INTERRUPTED)
    arrivals.count_lost(LossReason.SEQUENCE_GAP, 3)
    arrivals.count_lost(LossReason.INTERRUPTED)
    assert arrivals.lost == {LossReason.INTERRUPTED: 2, LossReason.SEQUENCE_GAP: 3}


def test_counters_of_several_links_add_up() -> None:
    total, other = ReceiveCounters(), ReceiveCounters()
    total.received, other.received = 5, 2
    total.count_lost(LossReason.TOO_LARGE)
    other.count_lost(LossReason.TOO_LARGE)
    other.count_lost(LossReason.SHARED_MEMORY)
    total.add(other)
    assert (total.received, other.received) == (7, 2)
    assert total.lost == {LossReason.TOO_LARGE: 2, LossReason.SHARED_MEMORY: 1}
