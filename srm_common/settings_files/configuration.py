"""The configuration file as a whole: clusters, flows, and what is wrong with which flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters import split_list
from srm_common.domain.flow import ARROW, FlowName, FlowSettings, OnDataLoss
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from srm_common.domain.settings import BadValue, Key
from srm_common.domain.settings_layers import Entry, Found, Layers, Scope
from srm_common.domain.settings_table import BY_NAME, FLOW_KEYS
from srm_common.errors import ConfigError, UnknownFlow
from srm_common.settings_files.client_keys import cluster_settings, is_connection_key
from srm_common.settings_files.properties import Property, read_properties
from srm_common.settings_files.providers import Providers

_CLIENT_ROLES = ("", "admin.", "consumer.", "producer.")
_FILTERS = ("topic.filter.class", "group.filter.class", "config.property.filter.class")
_DEFAULTS: dict[str, Any] = {key.name: key.parse(key.default) for key in BY_NAME.values() if key.default is not None}


@dataclass(frozen=True)
class Configuration:
    """A loaded file. A flow with bad keys is in ``faults`` and not in ``flows``; the others are not affected.

    ``flows`` holds every pair the file speaks of, enabled or not. ``cluster_faults`` are aliases that cannot be
    reached as written; each flow that uses one is in ``faults``.
    """

    path: Path
    clusters: Mapping[str, ClusterSettings]
    flows: Mapping[FlowName, FlowSettings]
    faults: Mapping[FlowName, ConfigError]
    cluster_faults: Mapping[str, ConfigError] = field(default_factory=dict)
    layers: Layers = field(repr=False, default_factory=lambda: Layers.of((), ()))

    def flow(self, name: str | FlowName) -> FlowSettings:
        """The settings of one flow. Raises :class:`UnknownFlow`, or the flow's own :class:`ConfigError`."""
        wanted = FlowName.parse(name)
        if wanted in self.faults:
            raise self.faults[wanted]
        found = self.flows.get(wanted)
        if found is not None:
            return found
        for alias in (wanted.source, wanted.target):
            if alias not in self.layers.aliases:
                known = ", ".join(self.layers.aliases)
                raise UnknownFlow(f"'{alias}' is not one of the clusters ({known})", file=str(self.path))
        raise UnknownFlow(f"flow {wanted} is not configured; add '{wanted}.enabled = true'", file=str(self.path))

    @property
    def enabled_flows(self) -> tuple[FlowSettings, ...]:
        return tuple(flow for flow in self.flows.values() if flow.enabled)

    def find(self, name: str | FlowName, key: str) -> Found:
        """Where the value of ``key`` comes from for a flow, and what it overrides. Raises :class:`ConfigError`."""
        known = BY_NAME.get(key)
        if known is None:
            raise ConfigError(f"there is no key '{key}'", file=str(self.path))
        return self.layers.find(known, FlowName.parse(name))


def load_configuration(path: Path) -> Configuration:
    """Read a configuration file.

    Raises:
        ConfigError: the file as a whole cannot be used; file, line and reason are in the message.
    """
    file = str(path)
    properties = read_properties(path)
    listed = _last(properties, "clusters")
    if listed is None or not listed.value.strip():
        raise ConfigError(
            "the file names no clusters; begin with 'clusters = a, b'",
            file=file,
            line=listed.line if listed else None,
        )
    aliases = split_list(listed.value)
    for alias in aliases:
        if not alias or ARROW in alias:
            raise ConfigError(f"'{alias}' is not a cluster alias", file=file, line=listed.line)
        if aliases.count(alias) > 1:
            raise ConfigError(f"cluster alias '{alias}' is listed twice", file=file, line=listed.line)
    layers = Layers.of((_entry(found, file, aliases) for found in properties), aliases)
    return _Loader(path, layers, Providers.of(layers.top)).configuration()


def _last(properties: list[Property], key: str) -> Property | None:
    return next((found for found in reversed(properties) if found.key == key), None)


def _entry(found: Property, file: str, aliases: tuple[str, ...]) -> Entry:
    # 'A -> B.enabled = true': a properties key ends at the first blank, so the arrow has landed in the value.
    if found.key in aliases and found.value.startswith(ARROW):
        right = found.value[len(ARROW) :].lstrip()
        for alias in sorted(aliases, key=len, reverse=True):
            if right.startswith(alias + "."):
                rest = right[len(alias) + 1 :]
                ends = [at for at in (rest.find(mark) for mark in "=:") if at >= 0]
                if ends:
                    at = min(ends)
                    written = f"{found.key}{ARROW}{alias}.{rest[:at].strip()}"
                    return Entry(written, rest[at + 1 :].strip(), file, found.line)
    return Entry(found.key, found.value, file, found.line)


class _Loader:
    """One load: what was read, and what is built from it."""

    def __init__(self, path: Path, layers: Layers, providers: Providers) -> None:
        self.path = path
        self.layers = layers
        self.providers = providers
        self.clusters: dict[str, ClusterSettings] = {}
        self.cluster_faults: dict[str, ConfigError] = {}

    def configuration(self) -> Configuration:
        shared = {key: entry for key, entry in self.layers.top.items() if is_connection_key(key)}
        for alias in self.layers.aliases:
            try:
                self.clusters[alias] = self._cluster(alias, self._connection(alias, shared))
            except ConfigError as error:
                self.cluster_faults[alias] = error
        flows: dict[FlowName, FlowSettings] = {}
        faults: dict[FlowName, ConfigError] = {}
        for name, scope in self.layers.strangers.items():
            entry = scope.get("enabled")
            if entry is not None and entry.value.strip().lower() == "true":
                alias = name.source if name.source not in self.layers.clusters else name.target
                known = ", ".join(self.layers.aliases)
                faults[name] = _at(entry, f"'{alias}' is not one of the clusters ({known})")
        for name, scope in self.layers.flows.items():
            try:
                flows[name] = self._flow(name, scope, shared)
            except ConfigError as error:
                faults[name] = error
        return Configuration(self.path, self.clusters, flows, faults, self.cluster_faults, self.layers)

    def _connection(self, alias: str, shared: Scope) -> Scope:
        """Connection settings of an alias: its own, those it gives one client only, those of all clusters."""
        found: Scope = {key: entry for key, entry in shared.items() if key != "bootstrap.servers"}
        own = self.layers.clusters[alias]
        for role in reversed(_CLIENT_ROLES):
            for key, entry in own.items():
                if key.startswith(role) and is_connection_key(key[len(role) :]):
                    found[key[len(role) :]] = entry
        return found

    def _cluster(self, alias: str, connection: Scope) -> ClusterSettings:
        try:
            return cluster_settings(alias, connection, self.providers.resolve)
        except ConfigError as error:
            if error.file is None:
                raise ConfigError(error.reason, file=str(self.path)) from None
            raise

    def _flow_cluster(self, alias: str, side: str, scope: Scope, shared: Scope) -> ClusterSettings:
        """The cluster of one side, with what the flow overrides by ``source.cluster.`` or ``target.cluster.``."""
        prefix = f"{side}.cluster."
        own = {key: entry for key, entry in scope.items() if is_connection_key(key)}
        own |= {
            key[len(prefix) :]: entry
            for key, entry in scope.items()
            if key.startswith(prefix) and is_connection_key(key[len(prefix) :])
        }
        if own:
            return self._cluster(alias, {**self._connection(alias, shared), **own})
        if alias in self.cluster_faults:
            raise self.cluster_faults[alias]
        return self.clusters[alias]

    def _flow(self, name: FlowName, scope: Scope, shared: Scope) -> FlowSettings:
        if name.source == name.target:
            raise _at(next(iter(scope.values())), f"flow {name} leads from a cluster to itself")
        faults: list[ConfigError] = []
        values: dict[str, Any] = {}
        for key in FLOW_KEYS:
            try:
                values[key.name] = self._value(key, name)
            except ConfigError as error:
                faults.append(error)
        for filter_class in _FILTERS:
            try:
                self._refuse_other_class(filter_class, name)
            except ConfigError as error:
                faults.append(error)
        source = target = ClusterSettings("", "", {}, {})
        try:
            source = self._flow_cluster(name.source, "source", scope, shared)
        except ConfigError as error:
            faults.append(error)
        try:
            target = self._flow_cluster(name.target, "target", scope, shared)
        except ConfigError as error:
            faults.append(error)
        policy: ReplicationPolicy = DefaultReplicationPolicy()
        try:
            policy = self._policy(name)
        except ConfigError as error:
            faults.append(error)
        if faults:
            raise _together(faults)
        fields = {key.field: values[key.name] for key in FLOW_KEYS if key.field is not None}
        fields["exactly_once"] = fields["exactly_once"] == "enabled"
        fields["read_committed"] = fields["exactly_once"] or fields["read_committed"] == "read_committed"
        fields["on_data_loss"] = OnDataLoss(fields["on_data_loss"])
        return FlowSettings(name=name, source=source, target=target, policy=policy, **fields)

    def _value(self, key: Key, name: FlowName) -> Any:
        entry = self.layers.find(key, name).entry
        if entry is None:
            return _DEFAULTS[key.name]
        try:
            return key.parse(self.providers.resolve(entry))
        except BadValue as error:
            raise _at(entry, str(error)) from None

    def _policy(self, name: FlowName) -> ReplicationPolicy:
        separator = self._value(BY_NAME["replication.policy.separator"], name)
        if not separator:
            entry = self.layers.find(BY_NAME["replication.policy.separator"], name).entry
            assert entry is not None
            raise _at(entry, "must not be empty")
        internal = self._value(BY_NAME["replication.policy.internal.topic.separator.enabled"], name)
        written = self._value(BY_NAME["replication.policy.class"], name)
        kind = written.rpartition(".")[2]
        if kind == "DefaultReplicationPolicy":
            return DefaultReplicationPolicy(separator, internal)
        if kind == "IdentityReplicationPolicy":
            return IdentityReplicationPolicy(separator, internal, name.source)
        entry = self.layers.find(BY_NAME["replication.policy.class"], name).entry
        assert entry is not None
        raise _at(
            entry,
            f"'{written}' is not available; use DefaultReplicationPolicy or IdentityReplicationPolicy",
        )

    def _refuse_other_class(self, key_name: str, name: FlowName) -> None:
        key = BY_NAME[key_name]
        entry = self.layers.find(key, name).entry
        if entry is not None and entry.value.strip().rpartition(".")[2] != key.default:
            raise _at(
                entry,
                f"'{entry.value.strip()}' is not available; Java classes are not loaded, use {key.default}",
            )


def _at(entry: Entry, reason: str) -> ConfigError:
    return ConfigError(f"{entry.written} {reason}", file=entry.file, line=entry.line)


def _together(faults: list[ConfigError]) -> ConfigError:
    first = faults[0]
    others = [
        f"line {fault.line}: {fault.reason}" if fault.line else fault.reason
        for fault in faults[1:]
        if str(fault) != str(first)
    ]
    reason = first.reason + (f" (and {'; '.join(others)})" if others else "")
    return ConfigError(reason, file=first.file, line=first.line)
