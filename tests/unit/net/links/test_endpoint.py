import pytest

from zenspark.errors import UsageError
from zenspark.net.links.endpoint import Endpoint
from zenspark.wire.values import Priority


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("tcp/127.0.0.1:7447", None),
        ("tcp/[::]:7447", None),
        ("tcp/host.example:0", None),
        ("unixsock-stream//run/zenoh.sock", None),
        ("udp/224.0.0.224:7447#iface=lo", None),
        ("tcp/[fe80::1%eth0]:1", None),
        ("tcp/x:1?rel=1;prio=1-5", "tcp/x:1?prio=1-5;rel=1"),
        ("tcp/x:1?z=1;a=2#z=1;a=2", "tcp/x:1?a=2;z=1#a=2;z=1"),
        ("tcp/x:1?;;a=1;", "tcp/x:1?a=1"),
        ("tcp/x:1?a", None),
        ("tcp/x:1?a=", "tcp/x:1?a"),
        ("tcp/x:1?a=b=c", None),
        ("tcp/x:1?a=1;a=2", None),
        ("tcp/x:1#a=1#b=2", None),
        ("tcp/x:1?m=1#a=1?b=2", None),
        ("tcp/x:1# a = 1 ; b", None),
    ],
)
def test_endpoints_are_formatted_as_zenohd_formats_them(text: str, canonical: str | None) -> None:
    endpoint = Endpoint.parse(text)
    assert str(endpoint) == (canonical or text)
    assert Endpoint.parse(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tcp", "<protocol>/<address>"),
        ("tcp/", "<protocol>/<address>"),
        ("/a", "<protocol>/<address>"),
        ("", "<protocol>/<address>"),
        ("a?b/c", "<protocol>/<address>"),
        ("a#b/c", "<protocol>/<address>"),
        ("tcp/x:1?", "metadata"),
        ("tcp/x:1#", "config"),
        ("tcp/x:1?;", "metadata"),
        ("tcp/x:1?=c", "without a key"),
        ("tcp/x:1#=1;b=2", "without a key"),
        ("tcp/x:1#a=1?b=2", "behind its config"),
        ("tcp/x:1?#a=1", "metadata"),
    ],
)
def test_texts_zenohd_refuses_are_refused_with_a_reason(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        Endpoint.parse(text)
    assert problem in str(refused.value)
    assert repr(text.partition("#")[0]) in str(refused.value)


def test_locator_has_no_config() -> None:
    endpoint = Endpoint.parse("tls/host:1?rel=1#enable_mtls=true")
    assert endpoint.locator.text == "tls/host:1?rel=1"
    assert endpoint.locator_at("other:2").text == "tls/other:2?rel=1"
    assert str(endpoint.at("other:2")) == "tls/other:2?rel=1#enable_mtls=true"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:7447", ("127.0.0.1", 7447)),
        ("[::1]:0", ("::1", 0)),
        ("[fe80::1%eth0]:65535", ("fe80::1%eth0", 65535)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_host_port_is_parsed_from_the_address(address: str, expected: tuple[str, int]) -> None:
    assert Endpoint.parse(f"tcp/{address}").host_port == expected


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("127.0.0.1", "no port"),
        ("[::1]", "no port"),
        ("::1:7447", "brackets"),
        ("::", "no port"),
        (":0", "no host"),
        ("[]:1", "no host"),
        ("a:99999", "'99999'"),
        ("a:-1", "'-1'"),
        ("a:http", "'http'"),
        ("a:", "''"),
        ("a:²", "'²'"),
    ],
)
def test_bad_addresses_are_named(address: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        _ = Endpoint.parse(f"tcp/{address}").host_port
    assert problem in str(refused.value)
    assert address in str(refused.value)


def test_multicast_addresses_are_groups() -> None:
    assert Endpoint.parse("udp/224.0.0.224:7446").is_group
    assert Endpoint.parse("udp/[ff02::224]:7446").is_group
    assert not Endpoint.parse("udp/127.0.0.1:7446").is_group
    assert not Endpoint.parse("udp/host:7446").is_group
    assert not Endpoint.parse("unixsock-stream/a").is_group


def test_options_are_parsed_as_number_or_flag() -> None:
    endpoint = Endpoint.parse("tcp/a:1#so_sndbuf=65000;dscp=0x08;enable_mtls=true;x=no;first=1;first=2")
    assert endpoint.number("so_sndbuf") == 65000
    assert endpoint.number("dscp") == 8
    assert endpoint.number("missing") is None
    assert endpoint.flag("enable_mtls") is True
    assert endpoint.flag("missing") is None
    assert endpoint.option("first") == "1"
    with pytest.raises(UsageError, match="x=no, which is not a number"):
        endpoint.number("x")
    with pytest.raises(UsageError, match="x=no, which is neither true nor false"):
        endpoint.flag("x")


def test_bind_option_is_parsed_as_the_local_address() -> None:
    assert Endpoint.parse("tcp/a:1#bind=[::1]:0").bind == ("::1", 0)
    assert Endpoint.parse("tcp/a:1").bind is None
    with pytest.raises(UsageError, match="both bind and iface"):
        _ = Endpoint.parse("tcp/a:1#bind=b:0;iface=lo").bind
    with pytest.raises(UsageError, match="no port in 'b'"):
        _ = Endpoint.parse("tcp/a:1#bind=b").bind


def test_priorities_and_reliability_are_parsed_from_the_metadata() -> None:
    plain = Endpoint.parse("tcp/a:1")
    assert (plain.priorities, plain.reliable) == (None, None)
    assert Endpoint.parse("tcp/a:1?prio=1-5;rel=0").priorities == (Priority.REAL_TIME, Priority.DATA)
    assert Endpoint.parse("tcp/a:1?prio=3").priorities == (Priority.INTERACTIVE_LOW, Priority.INTERACTIVE_LOW)
    assert Endpoint.parse("tcp/a:1?rel=0").reliable is False
    assert Endpoint.parse("tcp/a:1?rel=1").reliable is True


@pytest.mark.parametrize("metadata", ["prio=5-1", "prio=9", "prio=a-b", "rel=2", "rel=yes"])
def test_bad_metadata_is_named(metadata: str) -> None:
    endpoint = Endpoint.parse(f"tcp/a:1?{metadata}")
    with pytest.raises(UsageError, match=metadata):
        _ = endpoint.priorities, endpoint.reliable


def test_configured_options_are_defaults() -> None:
    endpoint = Endpoint.parse("tls/a:1#enable_mtls=false").with_defaults({"enable_mtls": "true", "a": "b"})
    assert endpoint.flag("enable_mtls") is False
    assert endpoint.option("a") == "b"
    assert str(endpoint) == "tls/a:1#a=b;enable_mtls=false"


def test_private_keys_are_not_in_errors_or_repr() -> None:
    endpoint = Endpoint.parse("tls/a#listen_private_key_raw=SECRET")
    with pytest.raises(UsageError) as refused:
        _ = endpoint.host_port
    assert "SECRET" not in str(refused.value)
    assert repr(endpoint) == "Endpoint(tls/a#listen_private_key_raw)"
    with pytest.raises(UsageError) as refused:
        Endpoint.parse("tls#listen_private_key_raw=SECRET")
    assert "SECRET" not in str(refused.value)
