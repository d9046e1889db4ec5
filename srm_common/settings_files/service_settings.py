"""Settings of this installation's web app: the keys ``metrics.prometheus.*`` and ``service.*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from srm_common.domain.patterns.name_filter import PatternList
from srm_common.domain.settings.key import BadValue
from srm_common.domain.settings.table import BY_NAME
from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import Configuration
from srm_common.settings_files.findings import at_entry
from srm_common.settings_files.sources.providers import Providers

# Keys that describe no flow but the installation: they are written without a prefix.


class TopKeys:
    """What a configuration says at its top level, typed, references to secrets replaced."""

    def __init__(self, configuration: Configuration) -> None:
        self.entries = configuration.layers.top
        self.providers = Providers.of(self.entries)

    def value(self, name: str) -> Any:
        """Typed; the default where the file has none. Without a default, None for a key that is absent or empty.

        Raises:
            ConfigError: the value cannot be used.
        """
        key, entry = BY_NAME[name], self.entries.get(name)
        text = key.default if entry is None else self.providers.resolve(entry).strip()
        if text is None or (text == "" and key.default is None):
            return None
        try:
            return key.parse(text)
        except BadValue as error:
            raise self.fault(name, str(error)) from None

    def fault(self, name: str, reason: str) -> ConfigError:
        """A message about the key ``name``, with file and line if it is in the file."""
        return at_entry(self.entries.get(name), reason)


_PEER = "service.peer."
_URL = "service.advertised.url"
_LOGIN_KEYS = ("user", "password", "token")


@dataclass(frozen=True)
class Login:
    """The credentials of a gateway at another service: ``user`` with ``password``, or a bearer ``token``."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ServiceSettings:
    """All of it, typed; docs/configuration.md explains each key. ``logins`` are by host, in lower case.

    ``advertised_url`` has no slash at its end.
    """

    metrics_open: bool = False
    metrics_token: str | None = field(default=None, repr=False)
    name: str | None = None
    advertised_url: str | None = None
    advertise_interval_seconds: float = 30.0
    gateway: bool = False
    peers_timeout_seconds: float = 3.0
    peers_hosts: tuple[str, ...] = (".*",)
    peers_ca_location: str | None = None
    logins: Mapping[str, Login] = field(default_factory=dict)

    def may_ask(self, host: str) -> bool:
        """Whether ``service.peers.hosts`` allows a gateway to query ``host``."""
        return PatternList(self.peers_hosts).matching(host) is not None


def service_settings(configuration: Configuration) -> ServiceSettings:
    """Raises :class:`ConfigError` for a value that cannot be used."""
    read = _Reader(configuration)
    url = read.value(_URL)
    if url is not None:
        if not _is_address(url):
            raise read.fault(_URL, "must be an address such as https://west.example:6670/srm, without a login")
        url = url.rstrip("/")
    return ServiceSettings(
        metrics_open=read.value("metrics.prometheus.open"),
        metrics_token=read.value("metrics.prometheus.token"),
        name=read.value("service.name") or (urlsplit(url).hostname if url else None),
        advertised_url=url,
        advertise_interval_seconds=read.value("service.advertise.interval.seconds"),
        gateway=read.value("service.gateway.enabled"),
        peers_timeout_seconds=read.value("service.peers.timeout.seconds"),
        peers_hosts=read.value("service.peers.hosts"),
        peers_ca_location=read.value("service.peers.ca.location"),
        logins=read.logins(),
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port raises ValueError if it is none.
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return known and "@" not in parts.netloc and not parts.query and not parts.fragment


class _Reader(TopKeys):
    def logins(self) -> dict[str, Login]:
        found: dict[str, dict[str, str]] = {}
        for written, entry in self.entries.items():
            if not written.startswith(_PEER):
                continue
            host, _, what = written[len(_PEER) :].rpartition(".")
            if not host or what not in _LOGIN_KEYS:
                raise self.fault(written, f"is not {_PEER}<host>.user, .password or .token")
            found.setdefault(host.lower(), {})[what] = self.providers.resolve(entry)
        for host, one in found.items():
            if ("user" in one) != ("password" in one) or ("token" in one) == ("user" in one):
                raise ConfigError(
                    f"the login for {host} needs {_PEER}{host}.user and {_PEER}{host}.password, or "
                    f"{_PEER}{host}.token alone"
                )
        return {host: Login(**one) for host, one in found.items()}
