"""Access control: subjects, rules, and which of several counts."""

from __future__ import annotations

import pytest

from tests.unit.router.interceptors.sample_messages import PEER_ATTRIBUTES, UNKNOWN_PEER
from zenspark.key import KeyExpr
from zenspark.router.interceptors.access_control import AccessRules, FacePermissions
from zenspark.router.interceptors.rules import (
    AccessPolicy,
    AccessRule,
    AccessSubject,
    Flow,
    InterceptedAction,
    NeighbourAttributes,
    Permission,
)

ANY_SUBJECT = AccessSubject(id="s")


def rule(permission: Permission, *keys: str, name: str = "r", flows: tuple[Flow, ...] | None = None) -> AccessRule:
    messages: tuple[InterceptedAction, ...] = ("put", "query")
    return AccessRule(
        id=name, permission=permission, key_exprs=tuple(map(KeyExpr, keys)), messages=messages, flows=flows
    )


def access(default: Permission, rules: list[AccessRule], subject: AccessSubject = ANY_SUBJECT) -> AccessRules:
    return AccessRules(
        default, rules, [subject], [AccessPolicy(rules=tuple(each.id for each in rules), subjects=("s",))]
    )


def permissions_for(
    found: AccessRules, party: NeighbourAttributes = PEER_ATTRIBUTES, flow: Flow = "ingress"
) -> FacePermissions:
    made = found.permissions_for(party, flow)
    assert made is not None
    return made


def test_unlisted_action_follows_the_default() -> None:
    careful = permissions_for(access("deny", [rule("allow", "a/**")]))
    assert careful.allows("put", "a/b")
    assert not careful.allows("put", "b")
    assert not careful.allows("delete", "a/b")
    generous = permissions_for(access("allow", [rule("deny", "a/**")]))
    assert not generous.allows("put", "a/b")
    assert generous.allows("put", "b")
    assert generous.allows("delete", "a/b")


def test_deny_takes_precedence_over_allow() -> None:
    found = permissions_for(access("deny", [rule("allow", "**", name="r"), rule("deny", "a/*", name="q")]))
    assert not found.allows("put", "a/b")
    assert found.allows("put", "a/b/c")


def test_rule_applies_to_keys_that_its_key_expression_includes() -> None:
    found = permissions_for(access("deny", [rule("allow", "a/*")]))
    assert found.allows("put", "a/*")
    assert not found.allows("put", "a/**")
    assert not found.allows("put", "a/@b")


def test_invalid_key_is_denied() -> None:
    assert not permissions_for(access("allow", [rule("deny", "a")])).allows("put", None)


@pytest.mark.parametrize(
    ("subject", "is_meant"),
    [
        (AccessSubject(id="s"), True),
        (AccessSubject(id="s", interfaces=("eth0", "lo")), True),
        (AccessSubject(id="s", interfaces=("eth0",)), False),
        (AccessSubject(id="s", usernames=("anna",)), True),
        (AccessSubject(id="s", usernames=("bert",)), False),
        (AccessSubject(id="s", cert_common_names=("anna.example",)), True),
        (AccessSubject(id="s", cert_common_names=("bert.example",)), False),
        (AccessSubject(id="s", link_protocols=("tcp",)), True),
        (AccessSubject(id="s", link_protocols=("ws",)), False),
        (AccessSubject(id="s", zids=("c3", "a1")), True),
        (AccessSubject(id="s", zids=("c3",)), False),
        (AccessSubject(id="s", zids=("a1",), usernames=("bert",)), False),
    ],
)
def test_subject_matcher_matches_peer(subject: AccessSubject, is_meant: bool) -> None:
    found = access("deny", [rule("allow", "a")], subject)
    assert permissions_for(found).allows("put", "a") is is_meant
    assert permissions_for(found, UNKNOWN_PEER).allows("put", "a") is (subject == ANY_SUBJECT)


def test_peer_is_allowed_if_one_of_its_subjects_allows() -> None:
    subjects = [ANY_SUBJECT, AccessSubject(id="t", interfaces=("lo",))]
    deny = AccessPolicy(rules=("r",), subjects=("s",))
    found = AccessRules("allow", [rule("deny", "a")], subjects, [deny])
    assert permissions_for(found).allows("put", "a")  # as no rule denies the other subject
    assert not permissions_for(found, UNKNOWN_PEER).allows("put", "a")
    both = AccessRules("allow", [rule("deny", "a")], subjects, [deny, AccessPolicy(rules=("r",), subjects=("t",))])
    assert not permissions_for(both).allows("put", "a")


def test_policies_of_equal_subjects_are_merged() -> None:
    rules = [rule("allow", "a", name="r"), rule("deny", "a", name="q")]
    subjects = [ANY_SUBJECT, AccessSubject(id="t")]
    policies = [AccessPolicy(rules=("r",), subjects=("s",)), AccessPolicy(rules=("q",), subjects=("t",))]
    assert not permissions_for(AccessRules("deny", rules, subjects, policies)).allows("put", "a")


def test_peer_without_subject_gets_the_default() -> None:
    nobody = AccessSubject(id="s", zids=("c3",))
    assert permissions_for(access("allow", [rule("deny", "a")], nobody)).allows("put", "a")
    assert not permissions_for(access("deny", [rule("allow", "a")], nobody)).allows("put", "a")


def test_flows_without_a_rule_are_free_if_the_default_allows() -> None:
    assert access("allow", [rule("deny", "a", flows=("egress",))]).permissions_for(PEER_ATTRIBUTES, "ingress") is None
    assert (
        access("allow", [rule("deny", "a", flows=("egress",))]).permissions_for(PEER_ATTRIBUTES, "egress") is not None
    )
    one_way = access("deny", [rule("allow", "a", flows=("egress",))])
    assert permissions_for(one_way, flow="egress").allows("put", "a")
    assert not permissions_for(one_way, flow="ingress").allows("put", "a")


def test_without_rules_the_default_is_all_there_is() -> None:
    assert AccessRules("allow").permissions_for(PEER_ATTRIBUTES, "ingress") is None
    assert not permissions_for(AccessRules("deny")).allows("put", "a")
