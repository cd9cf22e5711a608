"""The admin space between sessions: who may read it and who may not, and that it cannot be written."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from tests.unit.api.sessions import connected, listening
from tests.wait import until
from zenspark.api.session import Session
from zenspark.types.ids import EntityGlobalId, SourceInfo


@pytest.fixture
def documented() -> Iterator[Session]:
    with listening("router", adminspace__enabled=True, metadata={"name": "admin"}) as session:
        yield session


def keys(session: Session, selector: str) -> set[str]:
    replies = [reply.ok for reply in session.get(selector, timeout=5)]
    return {str(sample.key_expr) for sample in replies if sample is not None}


def test_admin_space_replies_to_neighbours_and_the_own_session(documented: Session) -> None:
    with connected("client", documented) as client:
        root = f"@/{documented.zid()}/router"
        for session in (client, documented):
            (reply,) = session.get(root, timeout=5)
            assert reply.ok is not None
            assert json.loads(reply.ok.payload.to_bytes())["metadata"] == {"name": "admin"}
        assert {root, f"{root}/metrics"} <= keys(client, "@/*/router/**")
        assert keys(client, f"{root}/config/**") == set()
        assert keys(client, "**") == set()


def test_admin_space_is_disabled_by_default(router: Session, client: Session) -> None:
    assert keys(client, "@/*/router/**") == set()


def test_admin_space_without_read_permission_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    permissions = {"read": False, "write": False}
    with listening("router", adminspace={"enabled": True, "permissions": permissions}) as router:
        assert keys(router, f"@/{router.zid()}/**") == set()
    assert "adminspace/permissions/read is false" in caplog.text


@pytest.mark.parametrize(
    ("write", "why"), [(False, "adminspace/permissions/write is false"), (True, "a running node keeps")]
)
def test_admin_space_write_is_refused_and_logged(write: bool, why: str, caplog: pytest.LogCaptureFixture) -> None:
    permissions = {"read": True, "write": write}
    with (
        caplog.at_level(logging.WARNING, "zenspark"),
        listening("router", adminspace={"enabled": True, "permissions": permissions}) as router,
        connected("client", router) as client,
    ):
        source = SourceInfo(EntityGlobalId(client.zid(), 1), 0)
        client.put(f"@/{router.zid()}/router/config/metadata", "1", source_info=source)
        client.delete(f"@/{router.zid()}/router/config/metadata")
        until(lambda: caplog.text.count(why) == 2)
    key = f"@/{router.zid()}/router/config/metadata"
    assert f"refused put on admin space key {key} from {client.zid()}: {why}" in caplog.text
    assert f"refused delete on admin space key {key} from an unnamed sender: {why}" in caplog.text


def test_refusals_of_one_kind_are_logged_once_per_interval(caplog: pytest.LogCaptureFixture) -> None:
    with listening("router", adminspace={"enabled": True}) as router, connected("client", router) as client:
        key = f"@/{router.zid()}/router/config/mode"
        client.put(key, "1")
        client.put(key, "2")
        client.delete(key)
        until(lambda: "refused delete" in caplog.text)
        assert caplog.text.count("refused put") == 1


def test_admin_space_is_outside_of_the_namespace() -> None:
    with (
        listening("router", adminspace__enabled=True, namespace="inside") as router,
        connected("client", router) as client,
    ):
        assert keys(client, f"@/{router.zid()}/router") == {f"@/{router.zid()}/router"}
