"""The section `plugins/rest` of zenohd's configuration: the address of the REST API, if any."""

from __future__ import annotations

import json
from copy import copy

from zenspark.config.config import Config
from zenspark.config.schema import ConfigError, Json, raise_unknown_key

PLUGIN = "rest"
PATH = f"plugins/{PLUGIN}"
PORT = f"{PATH}/http_port"
KEYS = ("http_port", "work_thread_num", "max_block_thread_num")
"""Keys of zenohd; the numbers of threads are accepted and ignored, since each connection has a thread."""

ANY_ADDRESS = "::"
"""Address for a port without an address, as in zenohd: all IPv6 and IPv4 addresses."""

NONE = "none"
EXPECTED = f"a port, an address and a port such as 127.0.0.1:8000, or {NONE}"

Address = tuple[str, int]


def rest_address(config: Config) -> tuple[Address | None, Config]:
    """Return the configured REST address, and the configuration without the section."""
    plugins: Json = json.loads(config.get_json("plugins"))
    if not isinstance(plugins, dict) or PLUGIN not in plugins:
        return None, config
    section = plugins.pop(PLUGIN)
    if not isinstance(section, dict):
        raise ConfigError(PATH, "an object", json.dumps(section))
    for name in section:
        if name not in KEYS and not name.startswith("__"):  # such as __required__, on how zenohd loads the plugin
            raise_unknown_key(f"{PATH}/{name}", name, KEYS)
    others = copy(config)
    others.insert_json5("plugins", json.dumps(plugins))
    return parse_address(section.get("http_port")), others


def parse_address(given: Json) -> Address | None:
    """Parse `port`, `address:port` or `none`."""
    text = "" if isinstance(given, bool | None) else str(given)
    if text.lower() == NONE:
        return None
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    is_host = bool(host) and (bracketed or ":" not in host) if colon else True
    if not is_host or not (port.isascii() and port.isdecimal()) or int(port) > 0xFFFF:
        raise ConfigError(PORT, EXPECTED, json.dumps(given))
    return (host.strip("[]") or ANY_ADDRESS, int(port))
