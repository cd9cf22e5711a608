import copy
import json
import logging
import pickle
from pathlib import Path

import pytest

from zenspark.config.config import Config
from zenspark.config.schema import ConfigError

TEXT = """
// a client
{ mode: "client", connect: { endpoints: ["tcp/127.0.0.1:7447",], }, }
"""
YAML = 'mode: client\nconnect:\n  endpoints: ["tcp/127.0.0.1:7447"]\n'


@pytest.mark.parametrize(("name", "text"), [("a.json5", TEXT), ("a.json", TEXT), ("a.yaml", YAML), ("a.yml", YAML)])
def test_files_are_read_by_their_ending(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert Config.from_file(file) == Config.from_file(str(file)) == Config.from_json5(TEXT)


def test_unreadable_configuration_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a file .json5, .json, .yaml or .yml, found .*a.conf"):
        Config.from_file(tmp_path / "a.conf")
    with pytest.raises(ConfigError, match="expected a file that can be read"):
        Config.from_file(tmp_path / "missing.json5")
    (tmp_path / "wrong.json5").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="expected a file that can be read"):
        Config.from_file(tmp_path / "wrong.json5")
    (tmp_path / "wrong.yaml").write_text("a: [")
    with pytest.raises(ConfigError, match=r"expected YAML, found line \d, column \d: "):
        Config.from_file(tmp_path / "wrong.yaml")
    (tmp_path / "large.json5").write_text(" " * 5_000_000)
    with pytest.raises(ConfigError, match="more than the 4194304 allowed"):
        Config.from_file(tmp_path / "large.json5")


def test_key_with_more_than_64_names_is_rejected() -> None:
    with pytest.raises(ConfigError, match="expected a key of at most 64 names, found one of 100001"):
        Config().insert_json5("plugins" + "/a" * 100_000, "1")


def test_the_environment_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(Config.DEFAULT_CONFIG_PATH_ENV, raising=False)
    with pytest.raises(ConfigError, match="expected a file named by ZENOH_CONFIG"):
        Config.from_env()
    (tmp_path / "a.json5").write_text(TEXT)
    monkeypatch.setenv(Config.DEFAULT_CONFIG_PATH_ENV, str(tmp_path / "a.json5"))
    assert Config.from_env() == Config.from_json5(TEXT)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "line 1, column 1: expected a value, found the end"),
        ("{", "line 1, column 2: expected a name, found the end"),
        ("{mode: 'peer', mode: 'peer'}", "line 1, column 16: the name 'mode' a second time"),
        ("client", "line 1, column 1: expected a value, found 'c'"),
        ("[" * 100_000, "line 1, column 65: more than 64 objects and lists inside each other"),
        (" " * 4_194_305, "4194305 characters are more than the 4194304 allowed"),
    ],
)
def test_invalid_json5_is_rejected(text: str, found: str) -> None:
    with pytest.raises(ConfigError, match="expected JSON5") as caught:
        Config.from_json5(text)
    assert found in caught.value.found


def test_keys_are_inserted_by_path() -> None:
    config = Config()
    before = copy.copy(config)
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("/scouting//multicast/ttl/", "3")
    config.insert_json5("plugins/rest/http_port", "8000")
    config.insert_json5("plugins/rest/host", "'::'")
    assert config.get_json("scouting/multicast/enabled") == "false"
    assert config.get_json("scouting/multicast/ttl") == "3"
    assert config.get_json("plugins") == '{"rest":{"http_port":8000,"host":"::"}}'
    assert before == Config()


def test_inserting_replaces_all_that_is_below() -> None:
    config = Config.from_json5("{connect: {timeout_ms: 5, endpoints: ['tcp/a:1']}}")
    config.insert_json5("connect", "{endpoints: ['tcp/b:1']}")
    assert config.get_json("connect") == (
        '{"timeout_ms":null,"endpoints":["tcp/b:1"],"exit_on_failure":null,"retry":null}'
    )
    config.insert_json5("connect/timeout_ms", "{peer: 3}")
    config.insert_json5("connect/timeout_ms/client", "4")
    assert config.get_json("connect/timeout_ms") == '{"peer":3,"client":4}'


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("", "1", "expected a key such as connect/endpoints"),
        ("foo", "1", "configuration key foo: expected one of"),
        ("scouting/multicats", "{}", "configuration key scouting/multicats: expected a key such as multicast"),
        ("mode", "client", "configuration key mode: expected JSON5"),
        ("scouting/multicast/enabled", "0", "scouting/multicast/enabled: expected true or false, found 0"),
        ("mode/x", "1", "configuration key mode: expected one of router, peer, client"),
    ],
)
def test_invalid_insertion_is_rejected_and_changes_nothing(key: str, value: str, problem: str) -> None:
    config = Config()
    with pytest.raises(ConfigError, match=problem):
        config.insert_json5(key, value)
    assert config == Config()


@pytest.mark.parametrize("key", ["foo", "connect/foo", "mode/x", "plugins/rest"])
def test_get_json_of_a_missing_key_raises(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        Config().get_json(key)


def test_keys_and_values_are_text() -> None:
    for call in (
        lambda: Config().get_json(3),  # type: ignore[arg-type]  # that is the point
        lambda: Config().insert_json5("mode", ["client"]),  # type: ignore[arg-type]  # that is the point
    ):
        with pytest.raises(TypeError, match="expected a str"):
            call()


def test_config_text_is_complete_and_can_be_parsed_again() -> None:
    config = Config.from_json5(TEXT)
    shown = json.loads(str(config))
    assert (shown["mode"], shown["connect"]["endpoints"]) == ("client", ["tcp/127.0.0.1:7447"])
    assert shown["transport"]["link"]["tx"]["lease"] == 10000
    assert str(Config.from_json5(str(config))) == str(config)
    assert list(shown) == sorted(shown)
    assert repr(config) == '<Config {"mode":"client","connect":{"endpoints":["tcp/127.0.0.1:7447"]}}>'


def test_secrets_are_not_shown() -> None:
    config = Config.from_json5("{transport: {link: {tls: {listen_private_key_base64: 'c2VjcmV0'}}}}")
    assert "c2VjcmV0" not in str(config) + config.get_json("transport")
    assert config.settings().transport.link.tls.listen_private_key_base64 == "c2VjcmV0"


def test_configs_are_compared_and_pickled() -> None:
    config = Config.from_json5(TEXT)
    assert pickle.loads(pickle.dumps(config)) == config != Config()
    assert config != TEXT
    found = {config: 1, Config.from_json5(TEXT): 2}  # by identity, as in eclipse-zenoh: it can be changed
    config.insert_json5("mode", '"client"')
    assert found[config] == 1


def test_settings_are_resolved_for_the_mode() -> None:
    settings = Config.from_json5("{mode: 'router', timestamping: {enabled: {peer: true}}}").settings()
    assert (settings.mode, settings.timestamping.enabled) == ("router", True)
    assert Config().settings().mode == "peer"
    assert Config.from_json5("{mode: null}").settings().mode == "peer"


def test_one_warning_names_all_keys_that_are_not_used(caplog: pytest.LogCaptureFixture) -> None:
    config = Config.from_json5(
        "{plugins: {rest: {}}, region_name: 'x', transport: {link: {tx: {threads: 4, lease: 5}}, "
        "shared_memory: {enabled: false, mode: 'lazy'}}}"
    )
    with caplog.at_level(logging.WARNING, "zenspark"):
        config.settings()
    assert [record.getMessage() for record in caplog.records] == [
        "configuration keys that zenspark does not use: plugins, region_name, transport/link/tx/threads"
    ]


def test_no_warning_if_all_keys_are_used(caplog: pytest.LogCaptureFixture) -> None:
    Config.from_json5(str(Config.from_json5("{transport: {shared_memory: {enabled: false}}}"))).settings()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("transport/auth/pubkey/public_key_pem", "x"),
        ("transport/auth/pubkey/private_key_file", "x"),
        ("transport/auth/pubkey/known_keys_file", "x"),
        ("transport/auth/pubkey/key_size", 2048),
        ("transport/link/unixpipe/file_access_mask", 0o600),
    ],
)
def test_unimplemented_security_settings_are_rejected(
    key: str, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config()
    config.insert_json5(key, json.dumps(value))
    with pytest.raises(ConfigError, match=f"configuration key {key}: expected null: .* not implemented") as caught:
        config.settings()
    assert json.dumps(value) not in str(caught.value)
    config.insert_json5(key, "null")
    config.settings()
    assert caplog.records == []


@pytest.mark.parametrize(("given", "missing"), [("user", "password"), ("password", "user")])
def test_a_user_needs_a_password(given: str, missing: str) -> None:
    config = Config()
    config.insert_json5(f"transport/auth/usrpwd/{given}", "'x'")
    with pytest.raises(ConfigError, match=f"transport/auth/usrpwd/{missing}: expected a text"):
        config.settings()
