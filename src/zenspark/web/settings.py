"""Settings of the HTTP server: its address, its content and the permissions of clients.

`HttpSettings` has the settings of a server; `rest_address` reads the section `plugins/rest` of zenohd's configuration.
"""

from __future__ import annotations

import ipaddress
import json
from copy import copy
from pathlib import Path

import msgspec

from zenspark.config.config import Config
from zenspark.config.schema import ConfigError, Json, raise_unknown_key
from zenspark.errors import UsageError

REST_PLUGIN = "rest"
PATH = f"plugins/{REST_PLUGIN}"
PORT = f"{PATH}/http_port"
PLUGIN_KEYS = ("http_port", "work_thread_num", "max_block_thread_num")
"""Keys of zenohd; the numbers of threads are accepted and ignored, since one thread serves all connections."""

ANY_ADDRESS = "::"
"""Address for a port without an address, as in zenohd: all IPv6 and IPv4 addresses."""
LOOPBACK = "127.0.0.1"
DEFAULT_HTTP_PORT = 8000

PRIVATE_KEY = b"PRIVATE KEY-----"
"""End of the first line of a private key in PEM."""
NONE = "none"
EXPECTED = f"a port, an address and a port such as 127.0.0.1:8000, or {NONE}"

Address = tuple[str, int]


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an HTTP server. Without any, the page and REST on a loopback address, read-only.

    Args:
        address: Host and port; with port 0 the system chooses one.
        write: Whether clients may put and delete.
        token: Secret of clients that send `Authorization: Bearer`; None without this login.
        user: Name of clients that send `Authorization: Basic`; access control rules may name it; None without it.
        password: Password of `user`; the two are given together.
        certificate: PEM file with the certificate chain: with it the server serves HTTPS only.
        key: PEM file with the private key; by default it is in the file of the certificate.
        allowed_hosts: Host names of this server, besides `localhost`, the name of the machine and all IP addresses.
        allowed_origins: Origins of other pages that may use the server, such as `https://dashboard.example`.
        serve_page: Whether `/`, `/_app`, `/_api`, `/metrics`, `/health` and `/ready` are served; else all paths are
            keys.
        rest: Whether keys are served at `/<key>`.
        insecure: Whether it may listen on other addresses than loopback without a login or without TLS.
        as_zenohd: Whether it keeps zenohd's rules: clients may write, and pages of all origins may read.

    Example:
        >>> settings = HttpSettings(address=("127.0.0.1", 0), token="secret")
        >>> settings.is_loopback, settings.has_login, settings.write
        (True, True, False)
    """

    address: Address = (LOOPBACK, DEFAULT_HTTP_PORT)
    write: bool = False
    token: str | None = None
    user: str | None = None
    password: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    serve_page: bool = True
    rest: bool = True
    insecure: bool = False
    as_zenohd: bool = False

    @classmethod
    def zenohd_rest(cls, address: Address) -> HttpSettings:
        """Make the settings of zenohd's REST plugin: only keys, no login, clients may write.

        Args:
            address: Host and port; with port 0 the system chooses one.

        Returns:
            The settings.

        Example:
            >>> HttpSettings.zenohd_rest(("127.0.0.1", 8000)).write
            True
        """
        return cls(address=address, write=True, serve_page=False, insecure=True, as_zenohd=True)

    @property
    def has_login(self) -> bool:
        """Whether clients must authenticate."""
        return self.token is not None or self.user is not None

    @property
    def is_loopback(self) -> bool:
        """Whether only clients of this machine can connect."""
        return is_loopback_host(self.address[0])

    def check(self) -> None:
        """Check that the settings do not contradict each other, nor expose the node without protection.

        Raises:
            UsageError: They do.

        Example:
            >>> HttpSettings(address=("0.0.0.0", 8000), insecure=True).check()
        """
        if (self.user is None) is not (self.password is None):
            raise UsageError("expected user and password of the HTTP server together, found only one of them")
        if self.token == "" or self.user == "" or self.password == "":
            raise UsageError("expected a token, user and password of the HTTP server that are not empty")
        if self.user is not None and ":" in self.user:
            raise UsageError("expected a user name of the HTTP server without a colon")
        if self.key is not None and self.certificate is None:
            raise UsageError("expected a certificate with the private key of the HTTP server")
        if self.is_loopback or self.insecure:
            return
        where = f"{self.address[0]} can be reached from other machines"
        if not self.has_login:
            raise UsageError(f"{where}: expected a token, or user and password, for HTTP there; 127.0.0.1 needs none")
        if self.certificate is None:
            raise UsageError(f"{where}: expected a TLS certificate, so that the login is not sent in clear text")


def has_private_key(file: Path) -> bool:
    """Return whether a PEM file has a private key."""
    return PRIVATE_KEY in file.read_bytes()


def is_loopback_host(host: str) -> bool:
    """Return whether a host name or address is the loopback interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def parse_http_address(text: str) -> Address:
    """Parse the address of the page: `port` (on loopback), `address:port` or `address`."""
    address = parse_host_port(text)
    if address is None and text and not text.rpartition(":")[2].isdecimal():
        address = parse_host_port(f"{text}:{DEFAULT_HTTP_PORT}")
    if address is None:
        raise UsageError(f"expected a port or an address and a port such as 127.0.0.1:8000, found {text!r}")
    host, port = address
    return host or LOOPBACK, port


def rest_address(config: Config) -> tuple[Address | None, Config]:
    """Return the configured REST address, and the configuration without the section."""
    plugins: Json = json.loads(config.get_json("plugins"))
    if not isinstance(plugins, dict) or REST_PLUGIN not in plugins:
        return None, config
    section = plugins.pop(REST_PLUGIN)
    if not isinstance(section, dict):
        raise ConfigError(PATH, "an object", json.dumps(section))
    for name in section:
        if name not in PLUGIN_KEYS and not name.startswith("__"):  # such as __required__, for loading the plugin
            raise_unknown_key(f"{PATH}/{name}", name, PLUGIN_KEYS)
    others = copy(config)
    others.insert_json5("plugins", json.dumps(plugins))
    return parse_address(section.get("http_port")), others


def parse_address(value: Json) -> Address | None:
    """Parse `port`, `address:port` or `none`, as in zenohd."""
    text = "" if isinstance(value, bool | None) else str(value)
    if text.lower() == NONE:
        return None
    address = parse_host_port(text)
    if address is None:
        raise ConfigError(PORT, EXPECTED, json.dumps(value))
    return address[0] or ANY_ADDRESS, address[1]


def parse_host_port(text: str) -> Address | None:
    """Parse `port` or `host:port`; the host is empty if there is none. Returns None if it is neither."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    is_host = bool(host) and (bracketed or ":" not in host) if colon else True
    if not is_host or not (port.isascii() and port.isdecimal()) or int(port) > 0xFFFF:
        return None
    return host.strip("[]"), int(port)
