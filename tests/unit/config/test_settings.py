import pytest

from zenspark.config.schema import ConfigError, Document, resolve, validate_document
from zenspark.config.settings import EndpointGroup, Settings, StrategyByTarget


def resolve_settings(document: Document, mode: str = "peer") -> Settings:
    return resolve(Settings, validate_document(Settings, document), mode)


@pytest.mark.parametrize(
    ("mode", "timeout", "exits", "listens", "stamps", "connects"),
    [
        ("router", -1, False, ("tcp/[::]:7447",), True, ()),
        ("peer", -1, False, ("tcp/[::]:0",), False, ("router", "peer", "client")),
        ("client", 0, True, (), False, ("router", "peer", "client")),
    ],
)
def test_defaults_that_depend_on_the_mode(
    mode: str, timeout: int, exits: bool, listens: tuple[str, ...], stamps: bool, connects: tuple[str, ...]
) -> None:
    settings = resolve_settings({}, mode)
    assert (settings.connect.timeout_ms, settings.connect.exit_on_failure) == (timeout, exits)
    assert settings.listen.endpoints == listens
    assert settings.timestamping.enabled is stamps
    assert settings.scouting.multicast.autoconnect == settings.scouting.gossip.autoconnect == connects


def test_defaults_of_the_protocol() -> None:
    settings = resolve_settings({})
    assert settings.mode == "peer"
    assert settings.queries_default_timeout == 10_000
    assert (settings.scouting.timeout, settings.scouting.delay) == (3000, 500)
    assert (settings.connect.retry.period_init_ms, settings.connect.retry.period_max_ms) == (1000, 4000)
    assert settings.routing.peers == "relay"
    assert settings.routing.interests.timeout == 10_000


@pytest.mark.parametrize(
    "endpoint", ["tcp/127.0.0.1:7447", "udp/224.0.0.224:7446#iface=lo", "tcp/[::]:0", "tls/a:1?rel=1#b=c", "x/y#a#b"]
)
def test_valid_endpoints_are_accepted(endpoint: str) -> None:
    assert resolve_settings({"listen": {"endpoints": [endpoint]}}).listen.endpoints == (endpoint,)


@pytest.mark.parametrize("endpoint", ["", "tcp", "tcp/", "/x", "tcp/a?", "tcp/a#", "tcp/a#y?x", 3])
def test_invalid_endpoints_are_rejected(endpoint: object) -> None:
    with pytest.raises(ConfigError, match="connect/endpoints/0: expected an endpoint `protocol/address"):
        resolve_settings({"connect": {"endpoints": [endpoint]}})


def test_endpoint_group_with_strategy_is_parsed() -> None:
    group = {"strategy": "oneOf", "locators": ["tcp/a:1", "tcp/b:1"]}
    assert resolve_settings({"connect": {"endpoints": [group]}}).connect.endpoints == (
        EndpointGroup("oneOf", ("tcp/a:1", "tcp/b:1")),
    )
    with pytest.raises(ConfigError, match="connect/endpoints/0"):
        resolve_settings({"connect": {"endpoints": [{"strategy": "oneOf"}]}})


def test_strategies_by_target_and_mode() -> None:
    strategy = {"peer": {"to_peer": "greater-zid"}, "router": "greater-zid"}
    multicast = {"scouting": {"multicast": {"autoconnect_strategy": strategy}}}
    assert resolve_settings(multicast).scouting.multicast.autoconnect_strategy == StrategyByTarget(
        "always", "greater-zid"
    )
    assert resolve_settings(multicast, "router").scouting.multicast.autoconnect_strategy == "greater-zid"
    assert resolve_settings(multicast, "client").scouting.multicast.autoconnect_strategy == "always"


@pytest.mark.parametrize("address", ["224.0.0.224:7446", "[ff02::1%eth0]:7446"])
def test_group_addresses(address: str) -> None:
    assert resolve_settings({"scouting": {"multicast": {"address": address}}}).scouting.multicast.address == address


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"mode": "PEER"}, "mode: expected one of router, peer, client, found"),
        ({"id": "0a"}, "id: expected 1 to 32 lower-case hexadecimal digits"),
        ({"namespace": "a/*"}, "namespace: expected a key expression without wildcards"),
        ({"namespace": "a//b"}, "namespace: expected a key expression without wildcards"),
        ({"scouting": {"multicast": {"address": "foo"}}}, "scouting/multicast/address: expected an address and port"),
        ({"scouting": {"multicast": {"autoconnect": ["foo"]}}}, "autoconnect/0: expected one of router, peer, client"),
        ({"timestamping": {"drop_future_timestamp": {"router": True}}}, "expected true or false, found"),
    ],
)
def test_invalid_values_are_rejected(document: Document, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        resolve_settings(document)


def test_a_namespace_is_a_key() -> None:
    assert resolve_settings({"namespace": "a/b"}).namespace == "a/b"
    assert resolve_settings({"namespace": None}).namespace is None
