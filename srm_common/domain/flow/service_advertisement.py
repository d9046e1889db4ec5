"""The advertisement of a service in the Kafka clusters of its targets, by which others find it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from srm_common.errors import CorruptRecord

#: A service is forgotten after so many renewals that did not come.
_MISSED = 10
#: But never sooner, as its clock may differ from the reader's by minutes.
_PATIENCE_MS = 300_000
#: And within a day, whatever it says of itself.
_LONGEST_MS = 86_400_000
_PORTS = {"http": 80, "https": 443}
_LONGEST = 1000
#: Behind these a URL goes on with something else than its host, or its path: it would lead elsewhere than it says.
_ENDS_HOST, _ENDS_PATH = frozenset("/?#@\\"), frozenset("?#\\")


@dataclass(frozen=True, slots=True)
class Advertisement:
    """One service: ``protocol`` http or https, ``root_path`` in front of its paths ("" or "/srm").

    ``targets`` are the aliases of the clusters it writes to, as its own file calls them; ``every_ms`` how often it
    renews this; ``seen_ms`` when it did last (epoch milliseconds, by its own clock).
    """

    name: str
    protocol: str
    host: str
    port: int
    root_path: str
    targets: tuple[str, ...]
    every_ms: int
    seen_ms: int = 0

    @classmethod
    def of(cls, name: str, url: str, targets: Iterable[str], every_ms: int) -> Advertisement:
        """``url`` is an address with protocol and host (:mod:`srm_common.settings_files.service_settings`)."""
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
        return cls(name, parts.scheme, parts.hostname or "", port, parts.path, tuple(sorted(targets)), every_ms)

    @property
    def url(self) -> str:
        """The service's address, without a trailing slash; it identifies the service."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS.get(self.protocol) else f":{self.port}"
        return f"{self.protocol}://{host}{port}{self.root_path}"

    def stale(self, now_ms: int) -> bool:
        """Whether it has not been renewed for so long that the service counts as gone."""
        return now_ms - self.seen_ms > min(_LONGEST_MS, max(_PATIENCE_MS, _MISSED * self.every_ms))

    def to_json(self) -> dict[str, Any]:
        about = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "seen_ms"}
        return {**about, "targets": list(self.targets)}

    @classmethod
    def from_json(cls, document: Any, seen_ms: int) -> Advertisement:
        """What :meth:`to_json` made, also by a newer minor version.

        Raises:
            CorruptRecord: it is not that.
        """
        if not isinstance(document, Mapping):
            raise CorruptRecord("it is not an advertisement of a service")
        targets = document.get("targets")
        found = (document.get("name"), document.get("protocol"), document.get("host"), document.get("root_path"))
        name, protocol, host, root_path = (
            one if isinstance(one, str) and len(one) <= _LONGEST else None for one in found
        )
        port, every_ms = document.get("port"), document.get("every_ms")
        if (
            name is None
            or protocol not in _PORTS
            or not host
            or root_path is None
            or (root_path and not root_path.startswith("/"))
            or type(port) is not int
            or not 0 < port < 65_536
            or type(every_ms) is not int
            or not isinstance(targets, list)
            or not all(isinstance(target, str) for target in targets)
        ):
            raise CorruptRecord("the advertisement of a service lacks a field, or has an invalid one")
        unfit = any(character.isspace() or not character.isprintable() for character in host + root_path)
        if unfit or not _ENDS_HOST.isdisjoint(host) or not _ENDS_PATH.isdisjoint(root_path):
            raise CorruptRecord("the address of a service has characters that no address has")
        return cls(name, protocol, host, port, root_path.rstrip("/"), tuple(targets), every_ms, seen_ms)
