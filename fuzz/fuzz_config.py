"""Any text is a configuration or a ConfigError that says where; a configuration reads the same after it was written.

The first byte chooses how the text is given: a JSON5 or YAML file, JSON5 text, or one key and its value on two lines.
How to run: see harness.py.
"""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path

from fuzz.harness import run
from zenspark.config.config import Config
from zenspark.config.schema import ConfigError

WAYS = ["json5", "yaml", "text", "key"]


def parsed(way: str, data: bytes) -> Config:
    """The configuration that is given one way or another."""
    if way in ("json5", "yaml"):
        return from_file(data, way)
    text = data.decode("utf-8", "replace")
    if way == "text":
        return Config.from_json5(text)
    key, _, value = text.partition("\n")
    config = Config()
    config.insert_json5(key, value)
    assert json.loads(config.get_json(key)) is not Ellipsis
    return config


def from_file(data: bytes, suffix: str) -> Config:
    with tempfile.NamedTemporaryFile(suffix=f".{suffix}") as file:
        file.write(data)
        file.flush()
        return Config.from_file(Path(file.name))


def check_refusal(error: ConfigError) -> None:
    assert error.expected in str(error)
    assert error.found in str(error)


def check(data: bytes) -> None:
    logging.getLogger("zenspark").setLevel(logging.ERROR)  # keys that are not used are named in a warning
    way = WAYS[data[0] % len(WAYS) if data else 0]
    try:
        config = parsed(way, data[1:])
        config.settings()
    except ConfigError as error:
        check_refusal(error)
        return
    document = json.loads(str(config))
    assert isinstance(document, dict)
    assert json.loads(str(Config.from_json5(str(config)))) == document


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
