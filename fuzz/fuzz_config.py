"""Any text is a configuration or a ConfigError with expected and found; a written configuration reads the same.

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

FORMATS = ["json5", "yaml", "text", "key"]


def parse(format_: str, data: bytes) -> Config:
    """Parse a configuration in one of the formats."""
    if format_ in ("json5", "yaml"):
        return from_file(data, format_)
    text = data.decode("utf-8", "replace")
    if format_ == "text":
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
    format_ = FORMATS[data[0] % len(FORMATS) if data else 0]
    try:
        config = parse(format_, data[1:])
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
