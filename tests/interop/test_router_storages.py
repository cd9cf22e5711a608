"""A configuration file of zenohd with storages in it makes `zenspark router` answer a client of eclipse-zenoh."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.reference import eventually, reference, unused

pytestmark = pytest.mark.interop


def test_a_storage_from_a_file(tmp_path: Path) -> None:
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
                        client.tell("put kept/a hello")
                        client.tell("put other/a hello")
                    assert eventually(lambda: client.tell("get kept/**") == ["reply hello"])
                    assert client.tell("get other/**") == []
                    (told,) = client.tell("get @/7/router/status/plugins/storage_manager/storages/kept")
                    assert json.loads(told.removeprefix("reply "))["keys"] == 1
            finally:
                process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert "does not use" not in process.stderr.read()
        assert process.returncode == 0
