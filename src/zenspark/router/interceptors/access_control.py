"""Access control: who may say what about which keys.

A subject of the configuration is a set of combinations, of which each names one interface, one user and so on, or
leaves that open. Rules belong to combinations. A neighbour may fit several: it may do what one of them lets it do.
In one combination a denial counts more than a permission, and what neither names follows the default.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple, TypeAlias

from zenspark.key.tree import KeyTree
from zenspark.router.interceptors.rules import (
    AccessPolicy,
    AccessRule,
    AccessSubject,
    Action,
    Flow,
    PeerAttributes,
    Permission,
)

FLOWS: tuple[Flow, ...] = ("ingress", "egress")

GrantedKeys: TypeAlias = dict[tuple[Flow, Action, Permission], KeyTree[None]]
"""The keys that are allowed or denied to one combination."""


class SubjectMatcher(NamedTuple):
    """Somebody, known by what is not None."""

    interface: str | None
    common_name: str | None
    username: str | None
    protocol: str | None
    zid: str | None

    def matches(self, party: PeerAttributes) -> bool:
        """Whether a neighbour is meant."""
        return (
            (self.interface is None or self.interface in party.interfaces)
            and self.common_name in (None, party.common_name)
            and self.username in (None, party.username)
            and self.protocol in (None, party.protocol)
            and self.zid in (None, str(party.zid))
        )


def _subject_matchers(subject: AccessSubject) -> Iterable[SubjectMatcher]:
    lists = (
        subject.interfaces,
        subject.cert_common_names,
        subject.usernames,
        subject.link_protocols,
        subject.zids,
    )
    return (SubjectMatcher(*chosen) for chosen in product(*((None,) if found is None else found for found in lists)))


class AccessRules:
    """All rules, and for whom they are. The ids that policies name must be those of rules and subjects."""

    def __init__(
        self,
        default: Permission,
        rules: Iterable[AccessRule] = (),
        subjects: Iterable[AccessSubject] = (),
        policies: Iterable[AccessPolicy] = (),
    ) -> None:
        self._default = default
        self._granted: dict[SubjectMatcher, GrantedKeys] = {}
        self._flows: set[Flow] = set(FLOWS) if default == "deny" else set()
        known = {rule.id: rule for rule in rules}
        meant = {subject.id: tuple(_subject_matchers(subject)) for subject in subjects}
        for combination in (each for found in meant.values() for each in found):
            self._granted.setdefault(combination, {})
        for policy in policies:
            for rule, subject in product(policy.rules, policy.subjects):
                for combination in meant[subject]:
                    self._grant(self._granted[combination], known[rule])

    def _grant(self, granted: GrantedKeys, rule: AccessRule) -> None:
        for flow, action, key in product(rule.flows or FLOWS, rule.messages, rule.key_exprs):
            self._flows.add(flow)
            granted.setdefault((flow, action, rule.permission), KeyTree()).insert(key, None)

    def permissions_for(self, party: PeerAttributes, flow: Flow) -> FacePermissions | None:
        """What a neighbour may do; None if it may do anything."""
        if flow not in self._flows:
            return None
        return FacePermissions(
            self._default, flow, [found for one, found in self._granted.items() if one.matches(party)]
        )


class FacePermissions:
    """What one neighbour may do, one way."""

    def __init__(self, default: Permission, flow: Flow, granted: list[GrantedKeys]) -> None:
        self._default = default
        self._flow = flow
        self._granted = granted

    def allows(self, action: Action, key: str | None) -> bool:
        """Whether it may do that to a key; None is something that is no key."""
        if key is None:
            return False
        if not self._granted:
            return self._default == "allow"
        return any(self._is_allowed(granted, action, key) for granted in self._granted)

    def _is_allowed(self, granted: GrantedKeys, action: Action, key: str) -> bool:
        if self._names(granted, action, "deny", key):
            return False
        return self._default == "allow" or self._names(granted, action, "allow", key)

    def _names(self, granted: GrantedKeys, action: Action, permission: Permission, key: str) -> bool:
        tree = granted.get((self._flow, action, permission))
        return tree is not None and bool(tree.including(key))
