"""The section `plugins/rest` of zenohd's configuration: where HTTP requests are answered, if at all."""

from __future__ import annotations

import json
from copy import copy

from zenspark.config.config import Config
from zenspark.config.schema import ConfigError, Json, refuse_name

PLUGIN = "rest"
PATH = f"plugins/{PLUGIN}"
PORT = f"{PATH}/http_port"
KEYS = ("http_port", "work_thread_num", "max_block_thread_num")
"""Those of zenohd; the numbers of threads are accepted, and here a thread serves each connection."""

EVERYWHERE = "::"
"""Where a port without an address is bound, as zenohd does it: on all addresses, of IPv4 too."""

NONE = "none"
EXPECTED = f"a port, an address and a port such as 127.0.0.1:8000, or {NONE}"

Address = tuple[str, int]


def address_of(config: Config) -> tuple[Address | None, Config]:
    """Where the configuration wants HTTP requests answered, and the configuration without that."""
    plugins: Json = json.loads(config.get_json("plugins"))
    if not isinstance(plugins, dict) or PLUGIN not in plugins:
        return None, config
    section = plugins.pop(PLUGIN)
    if not isinstance(section, dict):
        raise ConfigError(PATH, "an object", json.dumps(section))
    for name in section:
        if name not in KEYS and not name.startswith("__"):  # such as __required__, on how zenohd loads the plugin
            refuse_name(f"{PATH}/{name}", name, KEYS)
    others = copy(config)
    others.insert_json5("plugins", json.dumps(plugins))
    return parsed(section.get("http_port")), others


def parsed(given: Json) -> Address | None:
    """An address from how it is written."""
    text = "" if isinstance(given, bool | None) else str(given)
    if text.lower() == NONE:
        return None
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    is_host = bool(host) and (bracketed or ":" not in host) if colon else True
    if not is_host or not (port.isascii() and port.isdecimal()) or int(port) > 0xFFFF:
        raise ConfigError(PORT, EXPECTED, json.dumps(given))
    return (host.strip("[]") or EVERYWHERE, int(port))
