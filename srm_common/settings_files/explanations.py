"""The origin of a key's value, what it overrides and what it means; secrets are masked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from srm_common.domain.cluster import Client
from srm_common.domain.flow import FlowName
from srm_common.domain.settings.ineffective_keys import CLIENT_KEYS
from srm_common.domain.settings.key import Key
from srm_common.domain.settings.layers import Entry
from srm_common.domain.settings.table import BY_NAME, CLIENT_SETTINGS, KEYS, known_key
from srm_common.domain.transforms.chain import CHAIN_KEYS
from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import Configuration
from srm_common.settings_files.connections.client_keys import is_connection_key
from srm_common.settings_files.connections.connection_layers import (
    DATA_CLIENT,
    Candidates,
    Side,
    client_setting,
    connection_candidates,
)
from srm_common.settings_files.key_findings import nearest_key
from srm_common.settings_files.sources.providers import Providers

MASK = "***"
_SECRET = re.compile(
    r"password|passphrase|secret|jaas|token$|\.key$|\.key\.pem$|credential(?!s\.(source|client\.id)$)|webhook|user\.info$"
    r"|alarm\.notifier\..*(url|key|auth)|database\.url"
)
#: A user, or a user and a password, in an address; as far as the last @ before its path.
_LOGIN_IN_ADDRESS = re.compile(r"(?<=://)[^/\s,]*@")
_ONE_REFERENCE = re.compile(r"\$\{[^}]*\}")
_PEM = "-----BEGIN"
_SIDES: tuple[Side, ...] = ("source", "target")
# Keys that have a value in every flow.
_SHOWN = tuple(key for key in KEYS if not key.note and not key.is_family and key.default is not None)


@dataclass(frozen=True, slots=True)
class Origin:
    """One value as written: at which level, under which key, where."""

    level: str
    written: str
    place: str
    value: str

    def to_json(self) -> dict[str, str]:
        return {"level": self.level, "key": self.written, "place": self.place, "value": self.value}


@dataclass(frozen=True, slots=True)
class Explanation:
    """A key for one flow. ``origin`` is None for a default; ``value`` None where there is neither.

    ``client`` is named where a kind of client has another value than the one that carries the side's data.
    """

    name: str
    value: str | None
    origin: Origin | None
    overridden: tuple[Origin, ...]
    key: Key | None
    side: Side | None = None
    client: Client | None = None

    @property
    def place(self) -> str:
        """The side that a setting of a connection is about, and the client; empty for others."""
        return ".".join(part for part in (self.side, self.client) if part)

    def to_json(self) -> dict[str, object]:
        key = self.key
        return {
            "key": self.name,
            "side": self.side,
            "client": self.client,
            "value": self.value,
            "origin": self.origin.to_json() if self.origin else None,
            "overrides": [origin.to_json() for origin in self.overridden],
            "default": key.default if key else None,
            "type": key.kind.value if key else None,
            "unit": key.unit or None if key else None,
            "meaning": key.doc if key else None,
            "reason": key.reason or None if key else None,
            "levels": [level.value for level in key.levels] if key else [],
        }


def is_secret(key: str) -> bool:
    """Whether the value of a key must not be shown."""
    return _SECRET.search(key.lower()) is not None


def has_login(value: str) -> bool:
    """Whether a value has an address with a login in it, such as ``https://user:password@registry:8081``."""
    return _LOGIN_IN_ADDRESS.search(value) is not None


class Explainer:
    """Explains the keys of one flow of a configuration."""

    def __init__(self, configuration: Configuration, flow: FlowName) -> None:
        self.configuration = configuration
        self.flow = flow
        self._providers = Providers.of(configuration.layers.top)

    def explain(self, name: str) -> tuple[Explanation, ...]:
        """A key, or for a connection setting what it is on each side. Raises :class:`ConfigError` for unknown ones."""
        setting = client_setting(name)
        key = known_key(name) or CLIENT_SETTINGS.get(setting) or CLIENT_KEYS.get(setting)
        if is_connection_key(name) or (key is None and is_connection_key(setting)):
            one = name if is_connection_key(name) else setting
            return tuple(found for side in _SIDES for found in self._connections(side, [one]))
        if key is None:
            near = nearest_key(name)
            hint = f"; did you mean '{near}'?" if near else "; docs/configuration.md lists all keys"
            raise ConfigError(f"there is no key '{name}'{hint}")
        return (self._setting(key),)

    def everything(self) -> Iterator[Explanation]:
        """All effective values: settings of the flow, then the connection settings of its two clusters."""
        for key in _SHOWN:
            yield self._setting(key)
        yield from self._transforms()
        for side in _SIDES:
            names = {name for client in Client for name in self._candidates(side, client)}
            yield from self._connections(side, sorted(names))

    def _setting(self, key: Key) -> Explanation:
        found = self.configuration.layers.find(key, self.flow)
        if found.level is None or found.entry is None:
            return Explanation(key.name, key.default, None, (), key)
        origin, *overridden = [
            self._origin(level.value, entry) for level, entry in ((found.level, found.entry), *found.overridden)
        ]
        return Explanation(key.name, origin.value, origin, tuple(overridden), key)

    def _transforms(self) -> Iterator[Explanation]:
        """What the file has about Connect's transforms and predicates: the lists, the settings of each, and the formats
        of keys and values."""
        for name in CHAIN_KEYS:
            family = BY_NAME.get(f"{name}.*", BY_NAME["transforms.*"])
            scopes = [(level, *self.configuration.layers.scope(level, self.flow)) for level in reversed(family.levels)]
            written = sorted(
                {
                    key.removeprefix(prefix)
                    for _, scope, prefix in scopes
                    for key in scope
                    if key == prefix + name or key.startswith(f"{prefix}{name}.")
                }
            )
            for key in written:
                if key in BY_NAME and BY_NAME[key] in _SHOWN:
                    continue
                origins = [
                    self._origin(level.value, scope[prefix + key], resolve=False)
                    for level, scope, prefix in scopes
                    if prefix + key in scope
                ]
                yield Explanation(key, origins[0].value, origins[0], tuple(origins[1:]), BY_NAME.get(key, family))

    def _candidates(self, side: Side, client: Client) -> Candidates:
        alias = self.flow.source if side == "source" else self.flow.target
        try:
            connection = self.configuration.connection(alias)
        except ConfigError:
            connection = None  # the flow's fault says it
        layers = self.configuration.layers
        named = connection.entries() if connection else {}
        return connection_candidates(layers, alias, named, client, flow=layers.flows.get(self.flow, {}), side=side)

    def _connections(self, side: Side, names: Sequence[str]) -> Iterator[Explanation]:
        """The value for the client that carries a side's data, then for the other clients where it differs."""
        candidates = {client: self._candidates(side, client) for client in Client}
        for name in names:
            data = candidates[DATA_CLIENT[side]].get(name, ())
            yield self._connection(side, name, data)
            for client, found in candidates.items():
                if [entry for _, entry in found.get(name, ())[:1]] != [entry for _, entry in data[:1]]:
                    yield self._connection(side, name, found.get(name, ()), client)

    def _connection(
        self, side: Side, name: str, candidates: Sequence[tuple[str, Entry]], client: Client | None = None
    ) -> Explanation:
        origins = [self._origin(form, entry) for form, entry in candidates]
        first = origins[0] if origins else None
        return Explanation(name, first.value if first else None, first, tuple(origins[1:]), None, side, client)

    def _origin(self, level: str, entry: Entry, *, resolve: bool = True) -> Origin:
        """``resolve``: replace references. Those of a transform may lead to a secret, whatever the key is called."""
        return Origin(level, entry.written, entry.place, self._shown(entry, resolve))

    def _shown(self, entry: Entry, resolve: bool) -> str:
        text = entry.value.strip()
        if is_secret(entry.written):
            return text if _ONE_REFERENCE.fullmatch(text) else MASK
        if entry.line and resolve:
            with contextlib.suppress(ConfigError):  # 'config check' says what is wrong with the reference
                text = self._providers.resolve(entry).strip()
        return "(PEM text)" if text.startswith(_PEM) else _LOGIN_IN_ADDRESS.sub(f"{MASK}@", text)


def texts(explanation: Explanation) -> Sequence[tuple[str, str]]:
    """The explanation as rows of label and text."""
    key, origin = explanation.key, explanation.origin
    rows: list[tuple[str, str]] = []
    if key is not None and key.note:
        rows.append(("no effect", key.note))
    if origin is not None:
        rows += [("written", f"{origin.written} in {origin.place}"), ("level", origin.level)]
    else:
        rows.append(("written", "nowhere"))
    rows += [("overrides", f"{other.written} = {other.value} in {other.place}") for other in explanation.overridden]
    if key is not None and not key.note:
        unit = f", {key.unit}" if key.unit else ""
        least = "" if key.minimum is None else f", at least {key.minimum:g}"
        kind = " or ".join(key.choices) if key.choices else key.kind.value
        rows += [
            ("default", key.default if key.default is not None else "none"),
            ("type", f"{kind}{unit}{least}"),
            ("meaning", key.doc),
            ("why this default", key.reason),
            ("levels", ", ".join(level.value for level in key.levels)),
        ]
    return rows
