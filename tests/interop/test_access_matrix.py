"""Access control drawn from seeds: the same file in a router of eclipse-zenoh and in ours lets the same things pass.

Each router runs in a process of its own. Two neighbours, sessions of eclipse-zenoh in any role, do the same beside
both: publish, query, declare, watch. Drawn are the roles, who they are (user, certificate, zid, link), the default, and
rules of any messages, flows and keys for subjects named in any way. `ZENSPARK_ACCESS_SEEDS=100` tries more of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.reference import unused
from tests.interop.test_interceptors import ACTOR, HOLDER, MESSAGES, acl, client, everything, rule
from tests.unit.net.ends import Certificates

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

SEEDS = int(os.environ.get("ZENSPARK_ACCESS_SEEDS", "4"))

ROLES = [(one, other) for one in ("client", "peer", "router") for other in ("client", "peer", "router")]
ROLES.remove(("peer", "peer"))  # a router of eclipse-zenoh passes nothing on between peers
KEYS = ("open/**", "shut/**", "half/**", "open/a", "shut/*", "half/*/b", "*/a/b", "open/a$*")
SUBJECTS = {
    "zids": ([ACTOR], [HOLDER], ["c3"], [ACTOR, HOLDER]),
    "usernames": (["ann"], ["bob"], ["zoe"], ["ann", "zoe"]),
    "cert_common_names": (["ann.example"], ["bob.example"], ["zoe.example"]),
    "interfaces": (["lo"], ["eth7"], ["lo", "eth7"]),
    "link_protocols": (["tcp"], ["tls"], ["udp", "ws"]),
}

ECLIPSE = """
import json, sys, zenoh
config = zenoh.Config.from_file(sys.argv[1])
config.insert_json5("mode", '"router"')
config.insert_json5("listen/endpoints", json.dumps(sys.argv[2:]))
config.insert_json5("scouting/multicast/enabled", "false")
with zenoh.open(config):
    print("ready", flush=True)
    sys.stdin.read()
"""


def eclipse(file: Path, endpoints: list[str]) -> list[str]:
    return [sys.executable, "-c", ECLIPSE, str(file), *endpoints]


def zenspark(file: Path, endpoints: list[str]) -> list[str]:
    listening = [word for endpoint in endpoints for word in ("-l", endpoint)]
    return [sys.executable, "-m", "zenspark", "router", "-c", str(file), *listening, "--no-multicast-scouting"]


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[None]:
    """A router in a process of its own, which has printed that it is ready."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        while (line := process.stdout.readline()) and not line.startswith((b"ready", b"  listens on")):
            pass
        assert line, "the router ended"
        yield
    finally:
        process.kill()
        process.communicate()


class Identities:
    """Who neighbours can be: users, and owners of certificates."""

    def __init__(self, directory: Path) -> None:
        self._issued = Certificates(directory)
        self._users = directory / "users"
        self._users.write_text("ann:secret\nbob:secret\n")
        certificate, key = self._issued.files("localhost", "127.0.0.1")
        self._listening = {"listen_certificate": str(certificate), "listen_private_key": str(key)}
        self._shown = {name: self._issued.files(name, common_name=name) for name in ("ann.example", "bob.example")}

    @property
    def router(self) -> dict[str, Any]:
        """The configuration of the router for them."""
        tls = {**self._listening, "root_ca_certificate": str(self._issued.root), "enable_mtls": True}
        return {"transport": {"auth": {"usrpwd": {"dictionary_file": str(self._users)}}, "link": {"tls": tls}}}

    def neighbour(self, user: str) -> dict[str, Any]:
        """The configuration of a neighbour that authenticates as this user."""
        certificate, key = self._shown[f"{user}.example"]
        tls = {"connect_certificate": str(certificate), "connect_private_key": str(key), "enable_mtls": True}
        return {
            "transport__auth__usrpwd__user": user,
            "transport__auth__usrpwd__password": "secret",
            "transport__link__tls": {**tls, "root_ca_certificate": str(self._issued.root)},
        }


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("identities"))


class Drawn:
    """One situation, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.roles = self._random.choice(ROLES)
        self.users = self._random.choices(("ann", "bob"), k=2)
        self.links = self._random.choices(("tcp", "tls"), k=2)
        parts = [(self._rules(number), self._subject()) for number in range(self._random.randint(1, 3))]
        ending = rule("end", "allow", ["end/**"])
        self.rules = acl(self._random.choice(("allow", "deny")), ([ending], {}), *parts)

    def _some(self, pool: tuple[str, ...]) -> list[str]:
        return self._random.sample(pool, self._random.randint(1, len(pool)))

    def _rules(self, number: int) -> list[dict[str, object]]:
        return [
            rule(
                f"r{number}{which}",
                self._random.choice(("allow", "deny")),
                self._random.sample(KEYS, self._random.randint(1, 3)),
                self._some(MESSAGES),
                **({"flows": self._some(("ingress", "egress"))} if self._random.random() < 0.7 else {}),
            )
            for which in "ab"[: self._random.randint(1, 2)]
        ]

    def _subject(self) -> dict[str, object]:
        names = self._random.sample(sorted(SUBJECTS), self._random.choice((0, 1, 1, 2)))
        return {name: self._random.choice(SUBJECTS[name]) for name in names}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_access_control_rules_pass_the_same_as_in_eclipse_zenoh(
    seed: int, identities: Identities, tmp_path: Path
) -> None:
    drawn = Drawn(seed)
    file = tmp_path / "router.json5"
    file.write_text(json.dumps({**drawn.rules, **identities.router}))
    found = []
    for command in (eclipse, zenspark):
        endpoints = {protocol: unused(protocol, "localhost") for protocol in ("tcp", "tls")}
        with contextlib.ExitStack() as parties:
            parties.enter_context(running(command(file, list(endpoints.values()))))
            actor, holder = (
                parties.enter_context(
                    client(zid, endpoints[link], mode=role, listen__endpoints=[], **identities.neighbour(user))
                )
                for zid, role, user, link in zip((ACTOR, HOLDER), drawn.roles, drawn.users, drawn.links, strict=True)
            )
            found.append(everything(actor, holder))
    theirs, ours = found
    assert ours == theirs, (drawn.roles, drawn.users, drawn.links, drawn.rules)


def test_every_kind_of_subject_message_and_role_is_drawn() -> None:
    drawn = [Drawn(seed) for seed in range(100)]
    controls = [each.rules["access_control"] for each in drawn]
    rules: list[dict[str, Any]] = [rule for control in controls for rule in control["rules"]]  # type: ignore[index]
    subjects: list[dict[str, Any]] = [subject for control in controls for subject in control["subjects"]]  # type: ignore[index]
    assert {each.roles for each in drawn} == set(ROLES)
    assert {name for subject in subjects for name in subject} == {"id", *SUBJECTS}
    assert {(one["permission"], message) for one in rules for message in one["messages"]} == {
        (permission, message) for permission in ("allow", "deny") for message in MESSAGES
    }
    assert {flow for one in rules for flow in one.get("flows", ["both"])} == {"ingress", "egress", "both"}
