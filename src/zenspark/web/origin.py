"""Host and Origin of requests: pages of other sites must neither read from this server nor write to it.

A page of another site can send requests to any server the browser reaches. Its origin is in the header `Origin`; the
name it used for this server is in `Host`, which reveals DNS rebinding: a foreign name that resolves to an address of
this server.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from zenspark.web.settings import HttpSettings

SAME_SITE = frozenset({"same-origin", "none", ""})
"""Values of `Sec-Fetch-Site` for requests of the page, of the address bar, and of clients that are no browsers."""


class OriginPolicy:
    """Decides by the headers of a request whether it comes from the page or a client that is no browser."""

    def __init__(self, settings: HttpSettings) -> None:
        self._hosts = {name.lower().rstrip(".") for name in (*settings.allowed_hosts, *machine_names(settings))}
        self._origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}
        self._scheme = "http" if settings.certificate is None else "https"

    def is_own_host(self, host_header: str) -> bool:
        """Return whether a Host header names this server: an IP address, or one of its names."""
        host = _host_name(host_header)
        if host is None:
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return host == "localhost" or host.endswith(".localhost") or host in self._hosts
        return True  # only names can be rebound

    def is_allowed_origin(self, origin: str) -> bool:
        """Return whether an origin is configured as allowed."""
        return origin.lower().rstrip("/") in self._origins

    def is_foreign(self, headers: Mapping[str, str]) -> bool:
        """Return whether a page of another origin sent the request."""
        origin = headers.get("origin")
        if origin is not None:
            return not self.is_allowed_origin(origin) and origin.lower() != self._own_origin(headers)
        return headers.get("sec-fetch-site", "").lower() not in SAME_SITE

    def _own_origin(self, headers: Mapping[str, str]) -> str:
        return f"{self._scheme}://{headers.get('host', '').lower()}"


def machine_names(settings: HttpSettings) -> list[str]:
    """Return the names under which this machine is reached, and the configured name of the server."""
    return [socket.gethostname(), settings.address[0]]


def _host_name(host_header: str) -> str | None:
    try:
        name = urlsplit(f"//{host_header}").hostname
    except ValueError:
        return None
    return None if not name else name.rstrip(".")
