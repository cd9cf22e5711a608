"""Interceptors of a router: the same configuration file in ours and in eclipse-zenoh's lets the same things pass.

The clients are eclipse-zenoh's, and always do the same: one of them has subscribers, queryables and tokens, the other
publishes, queries and watches. What reaches whom is written down beside each router and compared.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import zenspark
from tests.interop.reference import eventually, unused
from tests.unit.net.ends import Certificates

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

Api: TypeAlias = Any
Found: TypeAlias = Any

AREAS = ("open", "shut", "half")
KEYS = [f"{area}/{name}" for area in AREAS for name in ("a", "a/b")]
END = "end/x"
"""What no file forbids: when it has arrived, so has everything before it that ever will."""
ACTOR, HOLDER = "a1", "b2"
"""The ids of the two clients."""
MESSAGES = (
    *("put", "delete", "declare_subscriber", "query", "declare_queryable", "reply"),
    *("liveliness_token", "liveliness_query", "declare_liveliness_subscriber"),
)


# --- the parties ----------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path: Path) -> Callable[[object], Path]:
    """Writes a configuration file."""

    def written(document: object) -> Path:
        path = tmp_path / "router.json5"
        path.write_text(f"// the same file for both\n{json.dumps(document, indent=2)}")
        return path

    return written


@contextlib.contextmanager
def router(api: Api, file: Path, endpoint: str) -> Iterator[Any]:
    config = api.Config.from_file(str(file))
    config.insert_json5("mode", '"router"')
    config.insert_json5("listen/endpoints", json.dumps([endpoint]))
    config.insert_json5("scouting/multicast/enabled", "false")
    with api.open(config) as session:
        yield session


@contextlib.contextmanager
def client(zid: str, endpoint: str, **options: object) -> Iterator[Any]:
    config = zenoh.Config()
    settings = {"id": zid, "mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
    for key, value in {**settings, **options}.items():
        config.insert_json5(key.replace("__", "/"), json.dumps(value))
    with zenoh.open(config) as session:
        yield session


@contextlib.contextmanager
def beside(api: Api, file: Path, **options: object) -> Iterator[tuple[Any, Any]]:
    """Two clients of a router."""
    endpoint = unused()
    with router(api, file, endpoint), client(ACTOR, endpoint, **options) as actor, client(HOLDER, endpoint) as holder:
        yield actor, holder


def compared(file: Path, explore: Callable[[Any, Any], Found], **options: object) -> Found:
    """What is found beside our router, which is the same as beside theirs."""
    found = []
    for api in (zenoh, zenspark):
        with beside(api, file, **options) as (actor, holder):
            found.append(explore(actor, holder))
    theirs, ours = found
    assert ours == theirs
    return ours


# --- what they do ---------------------------------------------------------------------------------


class ReceivedSamples:
    """Samples, as they came, handled by the thread that receives them: else each subscriber had an order of its own."""

    def __init__(self) -> None:
        self.samples: list[tuple[str, str]] = []

    def __call__(self, sample: Any) -> None:  # noqa: ANN401 - a class of the other package
        kind = "put" if sample.kind == zenoh.SampleKind.PUT else "delete"
        self.samples.append((kind, str(sample.key_expr)))

    @property
    def handler(self) -> Any:  # noqa: ANN401 - a class of the other package
        return zenoh.handlers.Callback(self, indirect=False)

    def has(self, kind: str, key: str) -> bool:
        return (kind, key) in self.samples


def block_options(session: Any) -> dict[str, Any]:  # noqa: ANN401 - a class of one of two packages
    """How to publish so that nothing is dropped on a machine that is busy."""
    api = zenspark if isinstance(session, zenspark.Session) else zenoh
    return {"congestion_control": api.CongestionControl.BLOCK}


def declared(declare: Callable[[str, Any], Any], received: ReceivedSamples) -> list[Any]:
    """One for each area, and one for the end."""
    return [declare(f"{area}/**", received.handler) for area in (*AREAS, "end")]


def publications(actor: Any, holder: Any) -> Found:  # noqa: ANN401 - classes of the other package
    received = ReceivedSamples()
    kept = declared(holder.declare_subscriber, received)

    def settled() -> bool:
        actor.put(END, "")
        return received.has("put", END)

    assert eventually(settled), "not even what is allowed arrives"
    for key in KEYS:
        actor.put(key, key, **block_options(actor))
        actor.delete(key, **block_options(actor))
    actor.delete(END, **block_options(actor))
    assert eventually(lambda: received.has("delete", END))
    assert kept
    return [one for one in received.samples if one[1] != END]


def queries(actor: Any, holder: Any) -> Found:  # noqa: ANN401 - classes of the other package
    def on_query(query: Any) -> None:  # noqa: ANN401
        with query:
            query.reply(query.key_expr, "answer")

    kept = [holder.declare_queryable(key, on_query) for key in (*KEYS, END)]

    def get_keys(key: str) -> list[str]:
        return [str(reply.ok.key_expr) for reply in actor.get(key, timeout=10) if reply.ok]

    assert eventually(lambda: get_keys(END))
    assert kept
    return [get_keys(key) for key in KEYS]


def tokens(actor: Any, holder: Any) -> Found:  # noqa: ANN401 - classes of the other package
    """Query three times, and return a set: a loaded eclipse-zenoh hands late replies to subscribers."""
    kept = [holder.liveliness().declare_token(key) for key in (*KEYS, END)]

    def get_keys(area: str) -> set[str]:
        return {str(reply.ok.key_expr) for reply in actor.liveliness().get(f"{area}/**", timeout=10) if reply.ok}

    assert eventually(lambda: get_keys("end"))
    found = [sorted(get_keys(area) | get_keys(area) | get_keys(area)) for area in AREAS]
    received = ReceivedSamples()
    watching = declared(lambda key, call: actor.liveliness().declare_subscriber(key, call, history=True), received)
    assert eventually(lambda: received.has("put", END))
    for token in kept:
        token.undeclare()
    assert eventually(lambda: received.has("delete", END))
    assert watching
    return found, sorted(set(received.samples))


def everything(actor: Any, holder: Any) -> Found:  # noqa: ANN401 - classes of the other package
    return {each.__name__: each(actor, holder) for each in (publications, queries, tokens)}


# --- access control -------------------------------------------------------------------------------


def rule(
    name: str, permission: str, keys: list[str], messages: object = MESSAGES, **flows: object
) -> dict[str, object]:
    return {"id": name, "permission": permission, "key_exprs": keys, "messages": messages, **flows}


def acl(default: str, *parts: tuple[list[dict[str, object]], dict[str, object]], **rest: object) -> dict[str, object]:
    """Policies, each some rules for one subject."""
    return {
        "access_control": {
            "enabled": True,
            "default_permission": default,
            "rules": [each for rules, _ in parts for each in rules],
            "subjects": [{"id": f"s{number}", **subject} for number, (_, subject) in enumerate(parts)],
            "policies": [
                {"rules": [each["id"] for each in rules], "subjects": [f"s{number}"]}
                for number, (rules, _) in enumerate(parts)
            ],
        },
        **rest,
    }


ALL_OF_OPEN = [("put", "open/a"), ("delete", "open/a"), ("put", "open/a/b"), ("delete", "open/a/b")]
ALL = [(kind, key) for key in KEYS for kind in ("put", "delete")]
ALL_PASSED = {
    "publications": ALL,
    "queries": [[key] for key in KEYS],
    "tokens": ([KEYS[at : at + 2] for at in (0, 2, 4)], sorted([*ALL, ("put", END), ("delete", END)])),
}


def test_without_a_rule_everything_passes(write: Callable[[object], Path]) -> None:
    assert compared(write({}), everything) == ALL_PASSED


def test_default_deny_passes_only_allowed_keys(write: Callable[[object], Path]) -> None:
    document = acl("deny", ([rule("r", "allow", ["open/**", "end/**"])], {}))
    found = compared(write(document), everything)
    assert found["publications"] == ALL_OF_OPEN
    assert found["queries"] == [["open/a"], ["open/a/b"], [], [], [], []]
    assert found["tokens"][0] == [["open/a", "open/a/b"], [], []]


@pytest.mark.parametrize("message", MESSAGES)
def test_one_kind_of_message_is_denied(write: Callable[[object], Path], message: str) -> None:
    """What comes in on one area, what goes out on another, and on keys inside an area only."""
    rules = [
        rule("in", "deny", ["shut/**"], [message], flows=["ingress"]),
        rule("out", "deny", ["half/*/b"], [message], flows=["egress"]),
    ]
    found = compared(write(acl("allow", (rules, {}))), everything)
    assert found != ALL_PASSED
    if message == "put":
        assert ("put", "half/a") in found["publications"]
        assert ("put", "half/a/b") not in found["publications"]
        assert ("put", "shut/a") not in found["publications"]
        assert ("delete", "shut/a") in found["publications"]


@pytest.mark.parametrize(
    "subject",
    [
        *({"zids": [ACTOR]}, {"zids": [HOLDER]}, {"zids": ["c3"]}, {"interfaces": ["lo"]}, {"interfaces": ["eth7"]}),
        *({"link_protocols": ["tcp"]}, {"link_protocols": ["udp", "tls"]}),
        *({"interfaces": ["lo", "eth7"], "zids": [ACTOR, "c3"]}, {"cert_common_names": ["client.example"]}),
    ],
)
def test_rule_applies_only_to_matching_subjects(write: Callable[[object], Path], subject: dict[str, object]) -> None:
    document = acl("allow", ([rule("r", "deny", ["shut/**"], ["put", "query", "liveliness_token"])], subject))
    found = compared(write(document), everything)
    is_meant = "c3" not in subject.get("zids", []) and "cert_common_names" not in subject  # type: ignore[operator]
    if subject in ({"zids": [ACTOR]}, {"interfaces": ["lo"]}, {"link_protocols": ["tcp"]}):
        assert is_meant
        assert ("put", "shut/a") not in found["publications"]
    if not is_meant and "interfaces" not in subject:
        assert found["publications"] == ALL


def test_deny_overrides_allow_within_a_subject_but_not_across_subjects(
    write: Callable[[object], Path],
) -> None:
    """One subject has both rules for a key; of two subjects that fit, one that lets it pass is enough."""
    both = [rule("yes", "allow", ["**"]), rule("no", "deny", ["shut/**"])]
    found = compared(write(acl("deny", (both, {}))), everything)
    assert ("put", "open/a") in found["publications"]
    assert ("put", "shut/a") not in found["publications"]
    document = acl("deny", (both, {}), ([rule("also", "allow", ["shut/**"])], {"interfaces": ["lo"]}))
    assert ("put", "shut/a") in compared(write(document), everything)["publications"]


def test_without_rules_the_default_counts(write: Callable[[object], Path]) -> None:
    empty = {"enabled": True, "default_permission": "allow", "rules": [], "subjects": [], "policies": []}
    assert compared(write({"access_control": empty}), publications) == ALL


def test_wildcard_subscriber_is_not_included_in_a_narrower_rule(write: Callable[[object], Path]) -> None:
    """A subscriber of `open/**` is not included in `open/*`."""
    subscribing = rule("sub", "allow", ["open/*", "half/**", "end/**"], ["declare_subscriber"])
    others = [message for message in MESSAGES if message != "declare_subscriber"]
    found = compared(write(acl("deny", ([subscribing, rule("rest", "allow", ["**"], others)], {}))), publications)
    assert [one for one in found if one[1].startswith("open")] == []
    assert ("put", "half/a") in found


@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_access_control_applies_between_routers(write: Callable[[object], Path], flow: str) -> None:
    """Who holds something is behind a second router, which has no rules: declarations name their keys there."""
    file = write(
        acl("allow", ([rule("r", "deny", ["shut/**"], flows=[flow]), rule("s", "deny", ["half/a"], ["put"])], {}))
    )
    found = []
    for api in (zenoh, zenspark):
        here, there = unused(), unused()
        plain = {"mode": "router", "listen__endpoints": [there], "id": "d4"}
        with (
            router(api, file, here),
            client("d4", here, **plain),
            client(ACTOR, here) as actor,
            client(HOLDER, there) as holder,
        ):
            found.append(everything(actor, holder))
    theirs, ours = found
    assert ours == theirs
    assert ("put", "open/a") in ours["publications"]
    assert ("put", "shut/a") not in ours["publications"]


@pytest.mark.parametrize("message", ["put", "delete", "query", "reply", "declare_queryable"])
def test_access_control_applies_to_the_session_of_the_router(write: Callable[[object], Path], message: str) -> None:
    """Rules are about neighbours: they apply to own messages on egress, and to replies on ingress."""
    rules = [
        rule("out", "deny", ["shut/**"], [message], flows=["egress"]),
        rule("in", "deny", ["half/**"], [message], flows=["ingress"]),
    ]
    file = write(acl("allow", (rules, {})))
    found = []
    for api in (zenoh, zenspark):
        endpoint = unused()
        with router(api, file, endpoint) as own, client(HOLDER, endpoint) as holder:
            passed = publications(own, holder) if message in ("put", "delete") else queries(own, holder)
            found.append(passed)
    assert found[0] == found[1]
    assert found[1] not in (ALL_PASSED["publications"], ALL_PASSED["queries"])


def test_rule_applies_to_usernames(write: Callable[[object], Path], tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text("anna:secret\nbert:secret\n")
    login = {"transport": {"auth": {"usrpwd": {"dictionary_file": str(users)}}}}
    file = write(acl("allow", ([rule("r", "deny", ["shut/**"], ["put"])], {"usernames": ["anna"]}), **login))
    found: dict[str, list[Found]] = {"anna": [], "bert": []}
    for user, results in found.items():
        own = {"transport__auth__usrpwd__user": user, "transport__auth__usrpwd__password": "secret"}
        holders = {"transport__auth__usrpwd__user": "bert", "transport__auth__usrpwd__password": "secret"}
        for api in (zenoh, zenspark):
            endpoint = unused()
            with (
                router(api, file, endpoint),
                client(ACTOR, endpoint, **own) as actor,
                client(HOLDER, endpoint, **holders) as holder,
            ):
                results.append(publications(actor, holder))
    assert found["bert"] == [ALL, ALL]
    assert found["anna"][0] == found["anna"][1]
    assert ("put", "shut/a") not in found["anna"][0]


def test_rule_applies_to_certificate_common_names(write: Callable[[object], Path], tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    issued = Certificates(tmp_path / "tls")
    certificate, key = (str(path) for path in issued.files("localhost", "127.0.0.1"))
    shown, proof = (str(path) for path in issued.files("client.example", common_name="client.example"))
    tls = {"listen_certificate": certificate, "listen_private_key": key, "root_ca_certificate": str(issued.root)}
    link = {"transport": {"link": {"tls": {**tls, "enable_mtls": True}}}}
    own = {"root_ca_certificate": str(issued.root), "connect_certificate": shown, "connect_private_key": proof}
    found = []
    for name in ("client.example", "else.example"):
        subject: dict[str, object] = {"cert_common_names": [name]}
        file = write(acl("allow", ([rule("r", "deny", ["shut/**"], ["put"])], subject), **link))
        for api in (zenoh, zenspark):
            endpoint = unused("tls", "localhost")
            options = {"transport__link__tls": {**own, "enable_mtls": True}}
            with (
                router(api, file, endpoint),
                client(ACTOR, endpoint, **options) as actor,
                client(HOLDER, endpoint, **options) as holder,
            ):
                found.append(publications(actor, holder))
    assert found[0] == found[1]
    assert ("put", "shut/a") not in found[0]
    assert found[2:] == [ALL, ALL]


# --- downsampling ---------------------------------------------------------------------------------

LOW_FREQUENCY = 0.0001
"""So few a second that the second one never comes while a test runs."""


def sampled(*rates: tuple[str, float], messages: object = ("put",), **rest: object) -> dict[str, object]:
    return {"downsampling": [{"messages": messages, "rules": [{"key_expr": k, "freq": f} for k, f in rates], **rest}]}


@pytest.mark.parametrize(
    "document",
    [
        sampled(("open/**", LOW_FREQUENCY)),
        sampled(("open/**", 0)),
        sampled(("open/a", LOW_FREQUENCY), ("shut/**", 0), ("half/**", 1e9)),
        sampled(("open/**", LOW_FREQUENCY), messages=["put", "delete"], flows=["egress"]),
        sampled(("open/**", LOW_FREQUENCY), messages=["delete"], flows=["ingress"]),
        sampled(("open/**", 0), messages=["put", "query"], interfaces=["eth7"]),
        sampled(("open/**", 0), messages=["put", "query"], interfaces=["lo"], link_protocols=["tcp"]),
        sampled(("open/**", 0), messages=["put", "reply"], link_protocols=["udp"]),
        sampled(("open/*", LOW_FREQUENCY), ("shut/*", LOW_FREQUENCY), messages=["query"], flows=["ingress"]),
        sampled(("open/*", 0), ("shut/a", LOW_FREQUENCY), messages=["reply"]),
        {**sampled(("open/**", LOW_FREQUENCY)), **acl("allow", ([rule("r", "deny", ["open/a"], ["put"])], {}))},
    ],
)
def test_downsampling_equals_eclipse_zenoh(write: Callable[[object], Path], document: object) -> None:
    def twice(actor: Any, holder: Any) -> Found:  # noqa: ANN401 - classes of the other package
        return [publications(actor, holder), queries(actor, holder), queries(actor, holder)]

    compared(write(document), twice)


def test_downsampling_lets_the_first_pass(write: Callable[[object], Path]) -> None:
    found = compared(write(sampled(("open/**", LOW_FREQUENCY), ("shut/a", 0))), publications)
    assert [one for one in found if one[0] == "put"] == [
        *(("put", key) for key in ("open/a", "shut/a/b", "half/a", "half/a/b"))
    ]


# --- sizes and treatment --------------------------------------------------------------------------


def test_low_pass_filter_drops_large_payloads(write: Callable[[object], Path]) -> None:
    filters = [
        {"messages": ["put", "delete"], "key_exprs": ["open/**"], "size_limit": 10},
        {"messages": ["put"], "key_exprs": ["open/a/*"], "size_limit": 4, "flows": ["egress"]},
        {"messages": ["put"], "key_exprs": ["shut/**"], "size_limit": 0, "interfaces": ["eth7"]},
        {"messages": ["query"], "key_exprs": ["half/**"], "size_limit": 3},
        {"messages": ["reply"], "key_exprs": ["half/a/b"], "size_limit": 5},
    ]

    def explore(actor: Any, holder: Any) -> Found:  # noqa: ANN401 - classes of the other package
        received: list[tuple[str, int]] = []
        kept = holder.declare_subscriber("**", lambda s: received.append((str(s.key_expr), len(s.payload))))
        assert eventually(lambda: (actor.put(END, ""), received)[1])
        for key in KEYS:
            for size in (0, 4, 5, 10, 11):
                actor.put(key, b"x" * size, **block_options(actor))
            actor.put(key, b"x" * 4, attachment=b"y" * 7, **block_options(actor))
        actor.put(END, "last", **block_options(actor))
        assert eventually(lambda: (END, 4) in received)
        assert kept
        replies = queries(actor, holder)
        queried = [[bool(reply.ok) for reply in actor.get(key, payload=b"long", timeout=10)] for key in KEYS]
        return [one for one in received if one[0] != END], replies, queried

    passed, replies, queried = compared(write({"low_pass_filter": filters}), explore)
    assert [size for key, size in passed if key == "open/a"] == [0, 4, 5, 10]
    assert [size for key, size in passed if key == "open/a/b"] == [0, 4]
    assert [size for key, size in passed if key == "shut/a"] == [0, 4, 5, 10, 11, 4]
    assert replies[-1] == []
    assert queried[-2] == []


@pytest.mark.parametrize(
    "item",
    [
        {"overwrite": {"priority": "real_time", "congestion_control": "block", "express": True}},
        {"overwrite": {"priority": 1}, "flows": ["ingress"]},
        {"overwrite": {"priority": -1}, "flows": ["ingress"]},
        {"overwrite": {"priority": 7}, "flows": ["egress"]},
        {"overwrite": {"priority": "background"}, "key_exprs": ["open/*"]},
        {"overwrite": {"priority": "data_high"}, "messages": ["delete"]},
        {"overwrite": {"priority": "data_high"}, "qos": {"priority": "data", "congestion_control": "block"}},
        {"overwrite": {"priority": "data_high"}, "qos": {"congestion_control": "drop"}},
        {"overwrite": {"priority": "data_high"}, "qos": {"express": True}},
        {"overwrite": {"priority": "data_high"}, "qos": {"reliability": "best_effort"}},
        {"overwrite": {"priority": "data_high"}, "payload_size": "6..7"},
        {"overwrite": {"priority": "data_high"}, "payload_size": "7.."},
        {"overwrite": {"priority": "data_high"}, "zids": [HOLDER], "flows": ["egress"]},
        {"overwrite": {"priority": "data_high"}, "zids": [HOLDER], "flows": ["ingress"]},
        {"overwrite": {"priority": "data_high"}, "interfaces": ["eth7"]},
        {"overwrite": {"priority": "data_high"}, "link_protocols": ["udp"]},
    ],
)
def test_qos_overwrite_equals_eclipse_zenoh(write: Callable[[object], Path], item: dict[str, object]) -> None:
    def explore(actor: Any, holder: Any) -> Found:  # noqa: ANN401 - classes of the other package
        received: list[tuple[str, ...]] = []

        def on_sample(sample: Any) -> None:  # noqa: ANN401
            treatment = (str(sample.priority), str(sample.congestion_control), str(sample.express))
            received.append((str(sample.key_expr), str(sample.kind), *treatment))

        kept = holder.declare_subscriber("**", on_sample)
        assert eventually(lambda: (actor.put("x", ""), received)[1])
        for key in KEYS:
            actor.put(key, key, **block_options(actor))
            actor.put(key, key, express=True, **block_options(actor))
            actor.delete(key, **block_options(actor))
        keys = set(KEYS)
        assert eventually(lambda: len([one for one in received if one[0] in keys]) == 3 * len(KEYS))
        assert kept
        return sorted(one for one in received if one[0] in keys)

    found = compared(write({"qos": {"network": [{"messages": ["put"], **item}]}}), explore)
    if item["overwrite"] == {"priority": "background"}:
        assert {one[2] for one in found if one[0] == "open/a" and "PUT" in one[1]} == {"Priority.BACKGROUND"}
        assert {one[2] for one in found if one[0] == "open/a/b"} == {"Priority.DATA"}


# --- files that cannot be used --------------------------------------------------------------------

RULE = rule("r", "allow", ["a"])
SUBJECT: dict[str, object] = {"id": "s"}
POLICY: dict[str, object] = {"rules": ["r"], "subjects": ["s"]}


def lists(rules: object, subjects: object, policies: object) -> dict[str, object]:
    return {"access_control": {"enabled": True, "rules": rules, "subjects": subjects, "policies": policies}}


@pytest.mark.parametrize(
    ("document", "key"),
    [
        (lists([RULE], [SUBJECT], None), "access_control/policies"),
        (lists([RULE, RULE], [SUBJECT], [POLICY]), "access_control/rules/1/id"),
        (lists([RULE], [SUBJECT, SUBJECT], [POLICY]), "access_control/subjects/1/id"),
        (lists([{**RULE, "id": " "}], [SUBJECT], [POLICY]), "access_control/rules/0/id"),
        (lists([RULE], [{"id": ""}], [POLICY]), "access_control/subjects/0/id"),
        (lists([RULE], [SUBJECT], [{**POLICY, "rules": ["q"]}]), "access_control/policies/0/rules/0"),
        (lists([RULE], [SUBJECT], [{**POLICY, "subjects": ["s", "q"]}]), "access_control/policies/0/subjects/1"),
        (lists([RULE], [SUBJECT], [{**POLICY, "rules": []}]), "access_control/policies/0/rules"),
        (lists([RULE], [SUBJECT], [{**POLICY, "id": "p"}] * 2), "access_control/policies/1/id"),
        (lists([RULE], [{**SUBJECT, "usernames": [""]}], [POLICY]), "access_control/subjects/0/usernames/0"),
        (lists([RULE], [{**SUBJECT, "zids": ["0a"]}], [POLICY]), "access_control/subjects/0/zids/0"),
        (lists([RULE], [{**SUBJECT, "interfaces": []}], [POLICY]), "access_control/subjects/0/interfaces"),
        (lists([{**RULE, "messages": ["push"]}], [SUBJECT], [POLICY]), "access_control/rules/0/messages/0"),
        (lists([{**RULE, "key_exprs": ["a//b"]}], [SUBJECT], [POLICY]), "access_control/rules/0/key_exprs/0"),
        (lists([{**RULE, "foo": 1}], [SUBJECT], [POLICY]), "access_control/rules/0/foo"),
        (lists([{"id": "r"}], [SUBJECT], [POLICY]), "access_control/rules/0/key_exprs"),
        ({"downsampling": [{"id": "d", **sampled(("a", 1))["downsampling"][0]}] * 2}, "downsampling/1/id"),  # type: ignore[index]
        ({"downsampling": [{"messages": ["put"], "rules": []}]}, "downsampling/0/rules"),
        ({"low_pass_filter": [{"messages": ["put"], "key_exprs": ["a"]}]}, "low_pass_filter/0/size_limit"),
        ({"qos": {"network": [{"messages": ["reply"], "overwrite": {}}]}}, "qos/network/0/messages/0"),
        (
            {"qos": {"network": [{"messages": ["put"], "overwrite": {"priority": 8}}]}},
            "qos/network/0/overwrite/priority",
        ),
    ],
)
def test_invalid_interceptor_config_is_rejected_by_both(
    write: Callable[[object], Path], document: object, key: str
) -> None:
    file = write(document)
    with pytest.raises(zenoh.ZError), router(zenoh, file, unused()):
        pass
    with pytest.raises(zenspark.ZError, match=f"configuration key {key}: expected "), router(zenspark, file, unused()):
        pass


@pytest.mark.parametrize(
    "document",
    [
        {"access_control": {"enabled": False, "rules": [RULE], "policies": [{**POLICY, "rules": ["q"]}]}},
        lists([], [SUBJECT], [{**POLICY, "rules": ["q"]}]),
        lists([RULE], [SUBJECT], [POLICY, POLICY]),
    ],
)
def test_tolerated_access_control_config_is_accepted_by_both(write: Callable[[object], Path], document: object) -> None:
    for api in (zenoh, zenspark):
        with router(api, write(document), unused()) as session:
            assert session.info.zid()


@pytest.mark.parametrize(
    "document",
    [
        acl("deny", ([rule("r", "allow", ["a/**"], flows=["egress"])], {"zids": ["a1"], "usernames": ["anna"]})),
        sampled(("a", 1), ("b/*", 0.5), interfaces=["lo"], id="d"),
        {"low_pass_filter": [{"messages": ["put"], "key_exprs": ["a"], "size_limit": 3, "link_protocols": ["ws"]}]},
        {"qos": {"network": [{"messages": ["put"], "overwrite": {"priority": 3}, "qos": {"express": True}}]}},
    ],
)
def test_interceptor_config_is_shown_as_in_eclipse_zenoh(document: object) -> None:
    text = json.dumps(document)
    for key in ("access_control", "downsampling", "low_pass_filter", "qos"):
        ours, theirs = (api.Config.from_json5(text).get_json(key) for api in (zenspark, zenoh))
        assert json.loads(ours) == json.loads(theirs)
