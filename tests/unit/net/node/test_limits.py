"""NodeLimits: the defaults."""

from zenspark.net.node.limits import NodeLimits


def test_defaults_bound_every_resource() -> None:
    limits = NodeLimits()
    assert 0 < limits.session_reassembly <= limits.total_reassembly
    assert min(limits.open_timeout, limits.accept_timeout, limits.close_timeout) > 0
    assert limits.keep_alives >= 3, "a lost datagram must not end a session"
