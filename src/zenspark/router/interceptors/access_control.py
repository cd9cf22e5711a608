"""Access control: rules that allow or deny neighbours to send or receive messages on keys.

A subject of the configuration expands to matchers, each of which names one interface, one user and so on, or leaves
that open. Rules belong to matchers. A neighbour may match several: an action is allowed if one of them allows it.
Within one matcher deny takes precedence over allow, and what neither names follows the default.
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
    Flow,
    InterceptedAction,
    NeighbourAttributes,
    Permission,
)

FLOWS: tuple[Flow, ...] = ("ingress", "egress")

GrantedKeys: TypeAlias = dict[tuple[Flow, InterceptedAction, Permission], KeyTree[None]]
"""Keys that are allowed or denied to one matcher."""


class SubjectMatcher(NamedTuple):
    """Matches a neighbour by every attribute that is set."""

    interface: str | None
    common_name: str | None
    username: str | None
    protocol: str | None
    zid: str | None

    def matches(self, neighbour: NeighbourAttributes) -> bool:
        """Whether a neighbour matches."""
        return (
            (self.interface is None or self.interface in neighbour.interfaces)
            and self.common_name in (None, neighbour.common_name)
            and self.username in (None, neighbour.username)
            and self.protocol in (None, neighbour.protocol)
            and self.zid in (None, str(neighbour.zid))
        )


def _subject_matchers(subject: AccessSubject) -> Iterable[SubjectMatcher]:
    lists = (
        subject.interfaces,
        subject.cert_common_names,
        subject.usernames,
        subject.link_protocols,
        subject.zids,
    )
    return (SubjectMatcher(*chosen) for chosen in product(*((None,) if values is None else values for values in lists)))


class AccessRules:
    """All rules, by subject. The ids that policies name must be those of rules and subjects."""

    def __init__(
        self,
        default: Permission,
        rules: Iterable[AccessRule] = (),
        subjects: Iterable[AccessSubject] = (),
        policies: Iterable[AccessPolicy] = (),
    ) -> None:
        self._default = default
        self._keys_by_matcher: dict[SubjectMatcher, GrantedKeys] = {}
        self._flows: set[Flow] = set(FLOWS) if default == "deny" else set()
        rules_by_id = {rule.id: rule for rule in rules}
        matchers_by_subject = {subject.id: tuple(_subject_matchers(subject)) for subject in subjects}
        for matcher in (matcher for matchers in matchers_by_subject.values() for matcher in matchers):
            self._keys_by_matcher.setdefault(matcher, {})
        for policy in policies:
            for rule, subject in product(policy.rules, policy.subjects):
                for matcher in matchers_by_subject[subject]:
                    self._grant(self._keys_by_matcher[matcher], rules_by_id[rule])

    def _grant(self, keys: GrantedKeys, rule: AccessRule) -> None:
        for flow, action, key in product(rule.flows or FLOWS, rule.messages, rule.key_exprs):
            self._flows.add(flow)
            keys.setdefault((flow, action, rule.permission), KeyTree()).insert(key, None)

    def permissions_for(self, neighbour: NeighbourAttributes, flow: Flow) -> FacePermissions | None:
        """Permissions of a neighbour in one direction; None if it may do anything."""
        if flow not in self._flows:
            return None
        return FacePermissions(
            self._default, flow, [keys for matcher, keys in self._keys_by_matcher.items() if matcher.matches(neighbour)]
        )


class FacePermissions:
    """Permissions of one neighbour in one direction."""

    def __init__(self, default: Permission, flow: Flow, keys: list[GrantedKeys]) -> None:
        self._default = default
        self._flow = flow
        self._keys_by_matcher = keys

    def allows(self, action: InterceptedAction, key: str | None) -> bool:
        """Whether an action on a key is allowed; None stands for an invalid key."""
        if key is None:
            return False
        if not self._keys_by_matcher:
            return self._default == "allow"
        return any(self._is_allowed(keys, action, key) for keys in self._keys_by_matcher)

    def _is_allowed(self, keys: GrantedKeys, action: InterceptedAction, key: str) -> bool:
        if self._includes(keys, action, "deny", key):
            return False
        return self._default == "allow" or self._includes(keys, action, "allow", key)

    def _includes(self, keys: GrantedKeys, action: InterceptedAction, permission: Permission, key: str) -> bool:
        tree = keys.get((self._flow, action, permission))
        return tree is not None and bool(tree.including(key))
