from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.optional import some
from zenspark.cli import ingest_flags, main, up, up_settings
from zenspark.cli.up_settings import SETTINGS, apply_file, format_config, read_file
from zenspark.config.config import Config
from zenspark.config.schema import ConfigError
from zenspark.errors import UsageError

EXAMPLE = """\
lake = "tables"
keys = ["fleet/**"]
connect = ["tcp/127.0.0.1:7447"]
master = "local[2]"

[spark]
conf = { "spark.driver.memory" = "2g" }
max_batch_rows = 1000

[retention]
age = "90d"
rules = { "fleet/*/camera" = "7d", "**" = "forever" }

[compaction]
interval = "5m"

[journal_policy]
segment_bytes = "1MiB"
retain_read_age = "forever"

[http]
address = "127.0.0.1:8001"
write = true
token = "secret"

[zenoh]
mode = "peer"
"""


def write(directory: Path, text: str, name: str = "zenspark.toml") -> Path:
    file = directory / name
    file.write_text(text)
    return file


def test_the_file_sets_what_flags_do_not(tmp_path: Path) -> None:
    file = read_file(str(write(tmp_path, EXAMPLE)))
    flags = up.parser().parse_args(["--lake", "other", "--conf", "a=b", "--lake-retain", "fleet/*/camera=1d"])
    given, effective = apply_file(flags, file)
    assert (given.lake, given.key, given.master) == ("other", ["fleet/**"], "local[2]")
    assert effective["lake"] == ("other", "flag")
    assert effective["keys"] == (["fleet/**"], some(file).name)
    assert effective["journal"].source == "default"
    settings = ingest_flags.parse_ingest_settings(given)
    assert settings.conf == {"spark.driver.memory": "2g", "a": "b"}
    assert settings.max_batch_rows == 1000
    assert settings.maintenance.retain_age == 90 * 86_400
    assert settings.maintenance.retain == {"fleet/*/camera": 86_400.0, "**": None}
    assert settings.maintenance.compact_interval == 300.0
    policy = ingest_flags.parse_journal_policy(given)
    assert (policy.segment_bytes, policy.retain_read_age) == (1 << 20, None)
    assert (given.http, given.http_write, given.http_token) == ("127.0.0.1:8001", True, "secret")
    assert json.loads(some(some(file).node).get_json("mode")) == "peer"


def test_every_setting_is_a_flag_and_every_policy_a_setting() -> None:
    flags = vars(up.parser().parse_args([]))
    assert {setting.dest for setting in SETTINGS.values()} <= set(flags)
    policies = {"lake_retain", "lake_retain_age", "lake_retain_bytes", "lake_history", "compact_interval"}
    assert policies | set(ingest_flags.FILE_KEYS.values()) <= {setting.dest for setting in SETTINGS.values()}


def test_the_file_of_the_current_directory_is_found(tmp_path: Path) -> None:
    assert read_file(None, tmp_path) is None
    write(tmp_path, 'lake = "here"')
    assert some(read_file(None, tmp_path)).values == {"lake": "here"}


def test_zenohds_file_has_the_same_section(tmp_path: Path) -> None:
    text = '{mode: "router", plugins: {zenspark: {lake: "x", retention: {age: "1d"}}, rest: {http_port: 8000}}}'
    file = some(read_file(str(write(tmp_path, text, "zenohd.json5"))))
    assert file.values == {"lake": "x", "retention/age": "1d"}
    assert json.loads(some(file.node).get_json("plugins")) == {"rest": {"http_port": 8000}}
    without = some(read_file(str(write(tmp_path, '{mode: "peer"}', "zenohd.json5"))))
    assert without.values == {}
    with pytest.raises(ConfigError, match="plugins/zenspark: expected an object"):
        up_settings.read_section("x", Config.from_json5("{plugins: {zenspark: 3}}"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lak = 1", "zenspark.toml/lak: expected a key such as lake"),
        ("[retention]\nages = 1", "retention/ages: expected a key such as age"),
        ("[retention]\nage = true", "retention/age: expected a text or a number, found true"),
        ('[retention]\nage = "soon"', "retention/age: expected a duration"),
        ('[retention.rules]\na = "soon"', "retention/rules/a: expected a duration"),
        ("complete = 3", "complete: expected true or false, found 3"),
        ('keys = "a"', "keys: expected a list of texts"),
        ('keys = ["a//b"]', "a//b"),
        ('connect = ["127.0.0.1:7447"]', "did you mean tcp/127.0.0.1:7447"),
        ('[journal_policy]\nsegment_bytes = "0"', "segment_bytes: expected more than 0"),
        ("spark = 3", "spark: expected a table"),
        ("lake = ", "expected TOML"),
        ("[zenoh]\nmod = 3", "expected a key such as mode"),
    ],
)
def test_a_mistake_is_rejected_before_anything_is_made(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=problem.replace("[", r"\[")):
        read_file(str(write(tmp_path, text)))


def test_the_effective_configuration_is_toml_that_means_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, EXAMPLE)
    lake = tmp_path / "lake"
    assert main(["up", "-c", str(file), "--lake", str(lake), "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert "secret" not in printed
    assert f'lake = "{lake}"' in printed
    assert 'age = "90d"' in printed
    assert not lake.exists()
    again = write(tmp_path, printed.replace('"(hidden)"', '"secret"'), "again.toml")
    first, second = (some(read_file(str(each))) for each in (file, again))
    assert {**second.values, "lake": "tables"} | first.values == {**second.values, "lake": "tables"}


def test_printed_configuration_names_the_source_of_each_setting() -> None:
    given, effective = apply_file(up.parser().parse_args(["--master", "local[1]"]), None)
    lines = [" ".join(line.split()) for line in format_config(effective, Config())]
    assert 'master = "local[1]" # flag' in lines
    assert 'keys = ["**"] # default' in lines
    assert "# journal is not set" in lines
    assert given.master == "local[1]"
