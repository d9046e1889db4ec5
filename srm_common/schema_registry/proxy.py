"""The proxy on the way to a registry, as the environment names it."""

from __future__ import annotations

import base64
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Self

from srm_common.errors import ConfigError


@dataclass(frozen=True)
class Proxy:
    """A proxy that opens tunnels (CONNECT). ``headers`` may have a password."""

    host: str
    port: int
    headers: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, url: str) -> Self | None:
        """That of an address with HTTPS: ``HTTPS_PROXY``, unless ``NO_PROXY`` names the host. None for HTTP, which
        registries in the same network have.

        Raises:
            ConfigError: what the environment names is no address of a proxy; it is not shown, since it may have a
                password.
        """
        parts = urllib.parse.urlsplit(url)
        written = urllib.request.getproxies().get("https")
        if parts.scheme != "https" or not written or urllib.request.proxy_bypass(parts.netloc):
            return None
        try:
            proxy = urllib.parse.urlsplit(written if "://" in written else f"http://{written}")
            host, port = proxy.hostname, proxy.port or 80
        except ValueError:
            host = None
        if not host or proxy.scheme != "http":
            raise ConfigError(
                f"HTTPS_PROXY, by way of which {parts.hostname} is to be reached, must be an address such as "
                f"http://proxy:3128; correct it, or name the host in NO_PROXY"
            )
        if proxy.username is None:
            return cls(host, port, {})
        login = f"{urllib.parse.unquote(proxy.username)}:{urllib.parse.unquote(proxy.password or '')}".encode()
        return cls(host, port, {"Proxy-Authorization": f"Basic {base64.b64encode(login).decode()}"})

    def __str__(self) -> str:
        return f"the proxy {self.host}:{self.port}"
