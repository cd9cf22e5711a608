from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zenspark.config.config import Config
from zenspark.config.schema import ConfigError
from zenspark.storage.settings import StorageSettings, parse_storages


def storages(manager: Any) -> list[StorageSettings]:  # noqa: ANN401 - JSON
    config = Config.from_json5(json.dumps({"plugins": {"storage_manager": manager}}))
    return parse_storages(config)[0]


def test_storage_section_of_zenohd_is_parsed() -> None:
    (found,) = storages(
        {
            "__required__": True,
            "volumes": {"zenspark": {"__path__": "/lib", "lake": "lake"}},
            "storages": {
                "fleet": {
                    "key_expr": "fleet/**",
                    "complete": "true",
                    "volume": {"id": "zenspark", "journal": "j"},
                    "garbage_collection": {"period": 30, "lifespan": 60},
                }
            },
        }
    )
    assert found == StorageSettings(
        name="fleet", key_exprs=("fleet/**",), complete=True, lake="lake", journal=Path("j"), lifespan=60
    )


def test_missing_settings_are_those_of_the_volume_or_defaults() -> None:
    volumes = {"mine": {"backend": "zenspark", "lake": "a", "journal": "aj"}}
    given = {
        "one": {"key_expr": "a/**", "volume": "mine"},
        "two": {"key_expr": "b/**", "volume": {"id": "mine", "lake": "b"}},
        "far": {"key_expr": "d/**", "volume": {"id": "mine", "lake": "s3://bucket/lake"}},
        "three": {"key_expr": "c/**", "volume": {"id": "zenspark", "journal": "cj"}, "complete": False},
    }
    found = {each.name: each for each in storages({"volumes": volumes, "storages": given})}
    assert (found["one"].lake, found["one"].journal, found["one"].record) == ("a", Path("aj"), True)
    assert (found["two"].lake, found["two"].journal) == ("b", Path("b/_journal"))
    assert (found["far"].lake, found["far"].journal) == ("s3://bucket/lake", Path("journal"))
    assert (found["three"].lake, found["three"].journal, found["three"].complete) == (None, Path("cj"), False)
    assert found["one"].lifespan == 86_400


@pytest.mark.parametrize("name", ["ingest", "landing"])
def test_ingestion_options_of_a_volume_are_kept(name: str) -> None:
    volumes = {"zenspark": {"lake": "a", name: {"trigger": "5s", "conf": {"spark.x": "y"}}}}
    (found,) = storages({"volumes": volumes, "storages": {"one": {"key_expr": "a/**", "volume": "zenspark"}}})
    assert found.ingest == {"trigger": "5s", "conf": {"spark.x": "y"}}


def test_ingestion_options_under_both_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="volumes/zenspark/landing: expected only one of `ingest` and its deprecated"):
        storages({"volumes": {"zenspark": {"lake": "a", "ingest": {}, "landing": {}}}})


def test_other_plugins_stay_in_the_configuration() -> None:
    manager = {"storages": {"a": {"key_expr": "a/**", "volume": {"id": "zenspark", "lake": "l"}}}}
    config = Config.from_json5(
        json.dumps({"mode": "router", "plugins": {"storage_manager": manager, "rest": {"port": 1}}})
    )
    _, rest = parse_storages(config)
    assert json.loads(rest.get_json("plugins")) == {"rest": {"port": 1}}
    assert rest.get_json("mode") == '"router"'
    assert "storage_manager" in config.get_json("plugins")


def test_configuration_without_storage_manager_has_no_storages() -> None:
    config = Config.from_json5("{plugins: {rest: {}}}")
    assert parse_storages(config) == ([], config)
    assert parse_storages(Config())[0] == []


VOLUME = {"id": "zenspark", "lake": "l"}


@pytest.mark.parametrize(
    ("manager", "key"),
    [
        ({"storage": {}}, "storage"),
        ({"volumes": {"rocksdb": {}}}, "volumes/rocksdb"),
        ({"volumes": {"v": {"backend": "s3"}}}, "volumes/v"),
        ({"volumes": {"v": 1}}, "volumes/v"),
        ({"volumes": {"zenspark": {"lakes": "l"}}}, "volumes/zenspark/lakes"),
        ({"storages": {"s": {"volume": VOLUME}}}, "storages/s/key_expr"),
        ({"storages": {"s": {"key_expr": "a//b", "volume": VOLUME}}}, "storages/s"),
        ({"storages": {"s": {"key_expr": "a/**", "volume": VOLUME, "replication": {}}}}, "storages/s/replication"),
        ({"storages": {"s": {"key_expr": "a/**", "volume": {"id": "memory"}}}}, "storages/s/volume"),
        ({"storages": {"s": {"key_expr": "a/**", "volume": {"lake": "l"}}}}, "storages/s/volume"),
        ({"storages": {"s": {"key_expr": "a/**"}}}, "storages/s/volume"),
        ({"storages": {"s": {"key_expr": "a/**", "volume": "zenspark"}}}, "storages/s/volume"),
        ({"storages": {"s": {"key_expr": "a/**", "volume": {**VOLUME, "dir": "x"}}}}, "storages/s/volume/dir"),
        ({"storages": {"s": {"key_expr": "a/**", "complete": "maybe", "volume": VOLUME}}}, "storages/s/complete"),
        ({"storages": {"s": {"key_expr": "a/**", "strip_prefix": "b", "volume": VOLUME}}}, "storages/s"),
        ({"storages": {"s": {"key_expr": "a/**", "strip_prefix": "a", "volume": VOLUME}}}, "storages/s/volume/record"),
    ],
)
def test_unknown_settings_raise_with_their_key(manager: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        storages(manager)
    assert caught.value.key == f"plugins/storage_manager/{key}"


def test_strip_prefix_requires_record_false() -> None:
    volume = {"id": "zenspark", "lake": "l", "record": False}
    (found,) = storages({"storages": {"s": {"key_expr": "old/**", "strip_prefix": "old", "volume": volume}}})
    assert (found.strip_prefix, found.record) == ("old", False)
