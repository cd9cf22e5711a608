"""A configuration file of zenohd with storages in it makes `zenspark router` reply to a client of eclipse-zenoh."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.interop.reference import eventually, reference, unused
from tests.wait import TIMEOUT_SECONDS

pytestmark = pytest.mark.interop


def test_storage_of_config_file_replies_after_restart(tmp_path: Path) -> None:
    endpoint = unused()
    storages = {
        "kept": {"key_expr": "kept/**", "complete": True, "volume": {"id": "zenspark", "journal": str(tmp_path / "j")}}
    }
    config = {
        "id": "7",
        "listen": {"endpoints": [endpoint]},
        "scouting": {"multicast": {"enabled": False}},
        "plugins": {"storage_manager": {"volumes": {"zenspark": {}}, "storages": storages}},
    }
    (tmp_path / "config.json5").write_text(json.dumps(config))
    command = [sys.executable, "-m", "zenspark", "router", "-c", str(tmp_path / "config.json5")]
    for first in (True, False):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                while "listens on" not in process.stdout.readline():
                    assert process.poll() is None
                with reference(mode="client", connect__endpoints=[endpoint]) as client:
                    if first:
                        client.execute("put kept/a hello")
                        client.execute("put other/a hello")
                    assert eventually(lambda: client.execute("get kept/**") == ["reply hello"])
                    assert client.execute("get other/**") == []
                    (status,) = client.execute("get @/7/router/status/plugins/storage_manager/storages/kept")
                    assert json.loads(status.removeprefix("reply "))["keys"] == 1
            finally:
                process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert "does not use" not in process.stderr.read()
        assert process.returncode == 0


def test_access_control_applies_to_storages(tmp_path: Path) -> None:
    """What is denied as it comes in is not stored; what is denied as it goes out is not in a reply, also by HTTP."""
    endpoint, rest = unused(), unused().removeprefix("tcp/")
    volume = {"id": "zenspark", "journal": str(tmp_path / "j")}
    rules = [
        {
            **{"id": "in", "permission": "deny", "messages": ["put"], "flows": ["ingress"]},
            "key_exprs": ["kept/shut/**"],
        },
        {
            **{"id": "out", "permission": "deny", "messages": ["reply"], "flows": ["egress"]},
            "key_exprs": ["kept/half/**"],
        },
    ]
    config = {
        "id": "7",
        "listen": {"endpoints": [endpoint]},
        "scouting": {"multicast": {"enabled": False}},
        "plugins": {
            "rest": {"http_port": rest},
            "storage_manager": {
                "volumes": {"zenspark": {}},
                "storages": {"kept": {"key_expr": "kept/**", "complete": True, "volume": volume}},
            },
        },
        "access_control": {
            **{"enabled": True, "default_permission": "allow", "rules": rules, "subjects": [{"id": "all"}]},
            "policies": [{"rules": ["in", "out"], "subjects": ["all"]}],
        },
    }
    (tmp_path / "config.json5").write_text(json.dumps(config))
    command = [sys.executable, "-m", "zenspark", "router", "-c", str(tmp_path / "config.json5")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            while "REST on" not in process.stdout.readline():
                assert process.poll() is None
            with reference(mode="client", connect__endpoints=[endpoint]) as client:
                for key in ("half/a", "shut/a", "a"):
                    client.execute(f"put kept/{key} {key}")
                assert eventually(lambda: client.execute("get kept/**") == ["reply a"])
                (status,) = client.execute("get @/7/router/status/plugins/storage_manager/storages/kept")
                assert json.loads(status.removeprefix("reply "))["keys"] == 2
            with urllib.request.urlopen(f"http://{rest}/kept/**", timeout=TIMEOUT_SECONDS) as response:
                assert [document["key"] for document in json.load(response)] == ["kept/a"]
            request = urllib.request.Request(f"http://{rest}/kept/shut/b", b"b", method="PUT")
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
        finally:
            process.send_signal(signal.SIGINT)
