from tests.unit.api.sessions import listening
from tests.wait import until
from zenspark.cli.sample_queue import SampleQueue


def test_samples_wait_and_further_ones_are_counted() -> None:
    samples = SampleQueue(limit=2)
    with listening("peer") as session:
        session.declare_subscriber("a", samples)
        for number in range(3):
            session.put("a", str(number))
        until(lambda: samples.received == 3)
    assert samples.skipped == 1
    for number in range(2):
        found = samples.get(0)
        assert found is not None
        assert (found[0].payload.to_string(), found[1] > 0) == (str(number), True)
    assert samples.get(0) is None
    assert samples.get(0.001) is None
