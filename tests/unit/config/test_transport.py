import pytest

from zenspark.config.schema import ConfigError, Document, resolve, validate_document
from zenspark.config.transport import TransportSettings


def resolve_settings(document: Document) -> TransportSettings:
    return resolve(TransportSettings, validate_document(TransportSettings, document), "peer")


def test_defaults_of_the_protocol() -> None:
    transport = resolve_settings({})
    assert transport == TransportSettings()
    assert (transport.link.tx.lease, transport.link.tx.keep_alive, transport.link.tx.batch_size) == (10_000, 4, 65535)
    assert transport.link.rx.max_message_size == 1 << 30
    assert (transport.unicast.qos.enabled, transport.multicast.qos.enabled) == (True, False)
    assert transport.link.tx.queue.congestion_control.block.wait_before_close == 5_000_000
    assert transport.link.tls.verify_name_on_connect


def test_set_values_replace_the_defaults() -> None:
    transport = resolve_settings(
        {
            "unicast": {"open_timeout": 1e3, "compression": {"enabled": True}},
            "link": {"protocols": ["tcp"], "tls": {"root_ca_certificate": "ca.pem"}, "tcp": {"so_sndbuf": 4096}},
            "auth": {"usrpwd": {"user": "u", "password": "p"}},
        }
    )
    assert (transport.unicast.open_timeout, transport.unicast.compression.enabled) == (1000, True)
    assert (transport.link.protocols, transport.link.tls.root_ca_certificate) == (("tcp",), "ca.pem")
    assert (transport.link.tcp.so_sndbuf, transport.auth.usrpwd.user) == (4096, "u")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"link": {"tx": {"batch_size": 65536}}}, "link/tx/batch_size: expected an integer from 0 to 65535"),
        ({"link": {"tx": {"sequence_number_resolution": "64bit"}}}, "expected one of 8bit, 16bit, 32bit"),
        (
            {"link": {"tx": {"queue": {"size": {"data": 17}}}}},
            "link/tx/queue/size/data: expected an integer from 1 to 16",
        ),
        ({"link": {"tls": {"enable_mtls": 1}}}, "link/tls/enable_mtls: expected true or false, found 1"),
        ({"multicast": {"join_interval": 0}}, "multicast/join_interval: expected a number of milliseconds, at least 1"),
        ({"multicast": {"qos": {"enabled": "yes"}}}, "multicast/qos/enabled: expected true or false"),
        ({"multicast": {"max_sessions": -1}}, "multicast/max_sessions: expected an integer from 0"),
        ({"unicast": {"max_links": None}}, "unicast/max_links: expected an integer from 0, found null"),
    ],
)
def test_invalid_values_are_rejected(document: Document, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        resolve_settings(document)
