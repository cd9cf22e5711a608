"""docs/configuration.md describes keys as they are declared, and no key of eclipse-zenoh is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tools import generate_configuration
from tools.generate_configuration import BEGIN, END, REFUSED, TARGET, USED, WARNED, main
from zenspark.config.config import Config
from zenspark.config.schema import MODES, ConfigError, leaf_keys
from zenspark.config.settings import Settings

KEYS = TARGET.read_text().partition(BEGIN)[2].partition(END)[0]
ROWS = dict(re.findall(r"^\| `([\w/]+)` \| .* \| ([^|]+) \|$", KEYS, re.MULTILINE))


def test_the_table_is_fresh(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["--check"]) == 0
    monkeypatch.setattr(generate_configuration, "table", lambda: "another\n")
    assert main(["--check"]) == 1
    assert "make configuration" in capsys.readouterr().err


def paths(document: object, path: str = "") -> Iterator[str]:
    if not isinstance(document, dict) or not document or (set(document) <= set(MODES)):
        yield path
        return
    for name, value in document.items():
        yield from paths(value, f"{path}/{name}" if path else name)


def test_every_key_of_eclipse_zenoh_is_there() -> None:
    zenoh = pytest.importorskip("zenoh")
    for path in paths(json.loads(str(zenoh.Config()))):
        assert path in ROWS or any(row.startswith(f"{path}/") for row in ROWS), path


def test_every_key_has_one_of_three_effects() -> None:
    assert set(ROWS.values()) == {USED, WARNED, REFUSED}
    assert list(ROWS) == [path for path, _, _ in leaf_keys(Settings)]


PROTECTION = re.compile("auth|tls|access_control|low_pass|downsampling|permissions|mask|max_sessions|timeout|pending")


def test_no_key_of_a_protection_is_only_warned_of() -> None:
    assert [path for path, effect in ROWS.items() if effect == WARNED and PROTECTION.search(path)] == []


@pytest.mark.parametrize("path", [path for path, effect in ROWS.items() if effect == REFUSED])
def test_key_documented_as_refused_is_rejected(path: str) -> None:
    config = Config()
    for value in ('"x"', "3"):
        try:
            config.insert_json5(path, value)
            break
        except ConfigError:
            continue
    with pytest.raises(ConfigError, match=f"configuration key {path}: expected null"):
        config.settings()
