"""Makes the interceptors of a node from its configuration, validated as a whole.

Ids that are referenced must exist, and be unique. Configurations that the rules could not protect are rejected:
multicast groups, to whose members rules do not apply, and user names without authentication.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Protocol

from zenspark.config.schema import ConfigError
from zenspark.config.settings import AccessControlSettings, Settings
from zenspark.net.links.endpoint import Endpoint
from zenspark.router.interceptors.access_control import AccessRules
from zenspark.router.interceptors.chain import InterceptorConfig
from zenspark.router.interceptors.rules import AccessSubject

logger = logging.getLogger("zenspark.api")

HTTP = "http"
"""Link protocol of the clients of the HTTP server."""


def make_interceptor_config(settings: Settings) -> InterceptorConfig | None:
    """Make the interceptors of a node; None if there are none."""
    _check_ids("downsampling", settings.downsampling)
    _check_ids("low_pass_filter", settings.low_pass_filter)
    _check_ids("qos/network", settings.qos.network)
    access = _make_access(settings.access_control)
    _check_groups(settings)
    if settings.access_control.enabled:
        _check_users(settings)
    if not (access or settings.downsampling or settings.low_pass_filter or settings.qos.network):
        return None
    return InterceptorConfig(settings.downsampling, access, settings.qos.network, settings.low_pass_filter)


def _check_groups(settings: Settings) -> None:
    """Reject multicast groups together with rules that limit neighbours: they do not apply to members of a group."""
    limits = {
        "access_control": settings.access_control.enabled,
        "downsampling": bool(settings.downsampling),
        "low_pass_filter": bool(settings.low_pass_filter),
    }
    groups = [endpoint for endpoint in map(Endpoint.parse, settings.listen.endpoints) if endpoint.is_group]
    for name in (name for name, is_set in limits.items() if is_set and groups):
        expected = f"no multicast group while {name} is set, which does not apply to the members of a group"
        raise ConfigError("listen/endpoints", expected, groups[0].locator.text)


def _check_users(settings: Settings) -> None:
    """Reject subjects with user names without authentication: a rule for them would never apply.

    The user of the HTTP server, whose subject names the link protocol `http`, has a login of its own.
    """
    if settings.transport.auth.usrpwd.dictionary_file is not None:
        return
    for number, subject in enumerate(settings.access_control.subjects or ()):
        if subject.usernames is not None and HTTP not in (subject.link_protocols or ()):
            expected = "no user names without transport/auth/usrpwd/dictionary_file: no neighbour can log in here"
            names = ", ".join(subject.usernames)
            raise ConfigError(f"access_control/subjects/{number}/usernames", expected, names)


def _make_access(control: AccessControlSettings) -> AccessRules | None:
    if not control.enabled:
        return None
    lists = {"rules": control.rules, "subjects": control.subjects, "policies": control.policies}
    for name, items in lists.items():
        if items is None:
            raise ConfigError(f"access_control/{name}", "a list, as access control is enabled", "null")
    empty = [name for name, items in lists.items() if not items]
    if empty:
        default = control.default_permission
        logger.warning(
            "access_control has no %s: default_permission %s applies to everything", " and no ".join(empty), default
        )
        return AccessRules(default)
    return _validate_access_control(control)


def _validate_access_control(control: AccessControlSettings) -> AccessRules:
    rules, subjects, policies = control.rules or (), control.subjects or (), control.policies or ()
    _check_ids("access_control/rules", rules, is_required=True)
    _check_ids("access_control/subjects", subjects, is_required=True)
    _check_ids("access_control/policies", policies)
    for number, subject in enumerate(subjects):
        _check_subject(f"access_control/subjects/{number}", subject)
    for number, policy in enumerate(policies):
        place = f"access_control/policies/{number}"
        _check_names(f"{place}/rules", policy.rules, [rule.id for rule in rules])
        _check_names(f"{place}/subjects", policy.subjects, [subject.id for subject in subjects])
    return AccessRules(control.default_permission, rules, subjects, policies)


class _HasId(Protocol):
    """An item of the configuration that may have an id."""

    @property
    def id(self) -> str | None: ...


def _check_ids(place: str, items: Sequence[_HasId], is_required: bool = False) -> None:
    """Reject duplicate ids, and empty ones where an id is required."""
    known: set[str] = set()
    for number, item in enumerate(items):
        if item.id is None:
            continue
        if is_required and not item.id.strip():
            raise ConfigError(f"{place}/{number}/id", "an id that is not empty", json.dumps(item.id))
        if item.id in known:
            raise ConfigError(f"{place}/{number}/id", "an id that no other has", json.dumps(item.id))
        known.add(item.id)


def _check_subject(place: str, subject: AccessSubject) -> None:
    for name in ("interfaces", "cert_common_names", "usernames"):
        for number, text in enumerate(getattr(subject, name) or ()):
            if not text.strip():
                raise ConfigError(f"{place}/{name}/{number}", "a text that is not empty", json.dumps(text))


def _check_names(place: str, names: Sequence[str], known: Sequence[str]) -> None:
    if not names:
        raise ConfigError(place, "a list that is not empty", "[]")
    for number, name in enumerate(names):
        if name not in known:
            raise ConfigError(f"{place}/{number}", f"one of {', '.join(known)}", json.dumps(name))
