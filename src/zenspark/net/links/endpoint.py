"""Endpoints: addresses to listen on or connect to, with options: `<protocol>/<address>[?<metadata>][#<config>]`.

The part before `#` is the locator, which is sent to other nodes. The part behind it is private to this node and may
have keys in it, so no error and no log line shows it. Metadata and config are `key=value` pairs separated by `;`. What
is accepted and how it is formatted (pairs sorted by key, empty ones left out) follows zenohd 1.10.2.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

import msgspec

from zenspark.errors import UsageError
from zenspark.wire.values import Locator, Priority

Pairs = tuple[tuple[str, str], ...]
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

TLS_CREDENTIALS = (
    "root_ca_certificate",
    "listen_certificate",
    "listen_private_key",
    "connect_certificate",
    "connect_private_key",
)
TLS_OPTIONS = frozenset(f"{name}{form}" for name in TLS_CREDENTIALS for form in ("", "_file", "_raw", "_base64")) | {
    "enable_mtls",
    "verify_name_on_connect",
    "close_link_on_expiration",
}
"""The options of TLS links."""

ENDPOINT_FORMAT = "<protocol>/<address>[?<metadata>][#<config>]"


class Endpoint(msgspec.Struct, frozen=True):
    """An address to listen on or connect to, with options. Of two options with the same name the first counts."""

    protocol: str
    address: str
    metadata: Pairs = ()
    config: Pairs = ()

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Parse an endpoint such as `tls/[::]:7447?rel=1#enable_mtls=true`; raises UsageError."""
        head, hash_, config = text.partition("#")
        place, question, metadata = head.partition("?")
        protocol, _, address = place.partition("/")
        if not protocol or not address:
            raise _usage_error(text, f"is not of the form {ENDPOINT_FORMAT}")
        if "?" in config and not question:
            raise _usage_error(text, "has its metadata (?) behind its config (#)")
        return cls(
            protocol,
            address,
            _parse_pairs(text, "metadata", metadata) if question else (),
            _parse_pairs(text, "config", config) if hash_ else (),
        )

    @property
    def locator(self) -> Locator:
        """The endpoint without its private config."""
        return self.locator_at(self.address)

    def locator_at(self, address: str) -> Locator:
        """Return the locator of another address with the same protocol and metadata."""
        metadata = f"?{_join_pairs(self.metadata)}" if self.metadata else ""
        return Locator(f"{self.protocol}/{address}{metadata}")

    def at(self, address: str) -> Endpoint:
        """Return this endpoint with another address."""
        return msgspec.structs.replace(self, address=address)

    def with_defaults(self, options: Mapping[str, str]) -> Endpoint:
        """Return this endpoint with default values for options it does not have."""
        present = {name for name, _ in self.config}
        added = [(name, value) for name, value in options.items() if name not in present]
        return msgspec.structs.replace(self, config=_sort_pairs([*self.config, *added]))

    def error(self, problem: str) -> UsageError:
        """Make a UsageError that names this endpoint without its config."""
        return UsageError(f"endpoint {self.locator.text!r} {problem}")

    # -- the address -----------------------------------------------------------------------------------------

    @property
    def host_port(self) -> tuple[str, int]:
        """Host and port, the host without brackets."""
        return self._host_port(self.address)

    def _host_port(self, address: str) -> tuple[str, int]:
        host, colon, port = address.rpartition(":")
        if not colon or host.endswith(":") or (host.startswith("[") and not host.endswith("]")):
            raise self.error(f"has no port in {address!r}")
        if host.startswith("["):
            host = host[1:-1]
        elif ":" in host:
            raise self.error("has an IPv6 address without brackets")
        if not host:
            raise self.error("has no host")
        if not (port.isascii() and port.isdigit() and int(port) <= 0xFFFF):
            raise self.error(f"has the port {port!r}, which is not a number up to 65535")
        return host, int(port)

    @property
    def ip(self) -> IPAddress | None:
        """The IP address, None if the host is a name."""
        try:
            return ipaddress.ip_address(self.host_port[0])
        except ValueError:
            return None

    @property
    def is_group(self) -> bool:
        """Whether the address is a multicast group."""
        return self.protocol == "udp" and self.ip is not None and self.ip.is_multicast

    # -- the options -----------------------------------------------------------------------------------------

    def option(self, name: str) -> str | None:
        """Return an option of the config, None if it is absent."""
        return next((value for key, value in self.config if key == name), None)

    def number(self, name: str) -> int | None:
        """Return an integer option, decimal or prefixed with 0x or 0o; None if it is absent."""
        text = self.option(name)
        if text is None:
            return None
        try:
            return int(text, 0)
        except ValueError:
            raise self.error(f"has {name}={text}, which is not a number") from None

    def flag(self, name: str) -> bool | None:
        """Return an option that is true or false; None if it is absent."""
        text = self.option(name)
        if text not in (None, "true", "false"):
            raise self.error(f"has {name}={text}, which is neither true nor false")
        return None if text is None else text == "true"

    @property
    def bind(self) -> tuple[str, int] | None:
        """The local address to connect from (`bind`), None if it is absent."""
        text = self.option("bind")
        if text is not None and self.option("iface") is not None:
            raise self.error("has both bind and iface; give one of them")
        return None if text is None else self._host_port(text)

    @property
    def priorities(self) -> tuple[Priority, Priority] | None:
        """The first and last priority of the link (metadata `prio=1-5`), None if it is absent."""
        text = self._metadata_value("prio")
        if text is None:
            return None
        first, _, last = text.partition("-")
        try:
            priorities = Priority(int(first)), Priority(int(last or first))
        except ValueError:
            raise self.error(f"has prio={text}, which is not a range such as 1-5") from None
        if priorities[0] > priorities[1]:
            raise self.error(f"has prio={text}, which is a range from its end to its beginning")
        return priorities

    @property
    def reliable(self) -> bool | None:
        """The reliability of the link (metadata `rel=0` or `rel=1`), None if it is absent."""
        text = self._metadata_value("rel")
        if text not in (None, "0", "1"):
            raise self.error(f"has rel={text}, which is neither 0 nor 1")
        return None if text is None else text == "1"

    def _metadata_value(self, name: str) -> str | None:
        return next((value for key, value in self.metadata if key == name), None)

    def __str__(self) -> str:
        return self.locator.text + (f"#{_join_pairs(self.config)}" if self.config else "")

    def __repr__(self) -> str:
        names = ";".join(name for name, _ in self.config)
        return f"Endpoint({self.locator.text}{'#' + names if names else ''})"


def _usage_error(text: str, problem: str) -> UsageError:
    return UsageError(f"endpoint {text.partition('#')[0]!r} {problem}")


def _parse_pairs(text: str, part: str, pairs: str) -> Pairs:
    partitions = [pair.partition("=") for pair in pairs.split(";") if pair]
    if not partitions:
        raise _usage_error(text, f"has no key=value in its {part}")
    if not all(key for key, _, _ in partitions):
        raise _usage_error(text, f"has a value without a key in its {part}")
    return _sort_pairs([(key, value) for key, _, value in partitions])


def _sort_pairs(pairs: list[tuple[str, str]]) -> Pairs:
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def _join_pairs(pairs: Pairs) -> str:
    return ";".join(f"{key}={value}" if value else key for key, value in pairs)
