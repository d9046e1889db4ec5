"""The configuration as a whole: clusters, flows, and the faults of each flow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow, OnDataLoss
from srm_common.domain.flow.settings import NOTIFIER_KEYS, AlarmNotifier, FilterClass, alarm_notifiers
from srm_common.domain.patterns.name_filter import split_list
from srm_common.domain.policy import DefaultReplicationPolicy, ReplicationPolicy
from srm_common.domain.settings.key import ALL_LEVELS, BadValue, Key, Level
from srm_common.domain.settings.layers import Entry, Found, Layers, Scope
from srm_common.domain.settings.table import BY_NAME, FLOW_KEYS
from srm_common.domain.transforms.chain import CHAIN_KEYS, parse_chain, schema_formats
from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.statements import KEY as SQL
from srm_common.domain.transforms.statements import parse_statements
from srm_common.errors import ConfigError, UnknownFlow
from srm_common.settings_files.clusters import WrittenClusters
from srm_common.settings_files.connections.airflow_connections import AirflowConnection, Lookup, from_airflow
from srm_common.settings_files.findings import (
    at_entry,
    dag_id_faults,
    one_fault,
    pair_faults,
    registry_faults,
    stranger_faults,
)
from srm_common.settings_files.sources.configuration_files import configuration_files, listed_aliases, read_entries
from srm_common.settings_files.sources.providers import Providers
from srm_common.settings_files.sources.secret_variables import refer, referred
from srm_common.settings_files.user_classes import filter_class, policy_of

T = TypeVar("T")

TARGETS = "streams.replication.manager.driver.target.cluster"
_NOTIFIERS = "alarm.notifiers"
_FILTERS = ("topic.filter.class", "group.filter.class", "config.property.filter.class")
_DEFAULTS: dict[str, Any] = {key.name: key.parse(key.default) for key in BY_NAME.values() if key.default is not None}


@dataclass(frozen=True)
class Configuration:
    """A loaded file. A flow with bad keys is in ``faults`` and not in ``flows``; the others are not affected.

    ``flows`` has every flow that the file mentions, enabled or not. ``cluster_faults`` are aliases that cannot be
    reached as written; each flow that uses one is in ``faults``. ``entries`` is all that the files say, in order;
    ``connections`` the Airflow connections in use, by alias; ``elsewhere`` the flows left to other installations;
    ``without_dag`` those of ``faults`` whose DAG id belongs to another flow.
    """

    path: Path
    clusters: Mapping[str, ClusterSettings]
    flows: Mapping[FlowName, FlowSettings]
    faults: Mapping[FlowName, ConfigError]
    cluster_faults: Mapping[str, ConfigError] = field(default_factory=dict)
    layers: Layers = field(repr=False, default_factory=lambda: Layers.of((), ()))
    entries: tuple[Entry, ...] = field(repr=False, default=())
    connections: Mapping[str, AirflowConnection] = field(repr=False, default_factory=dict)
    elsewhere: tuple[FlowName, ...] = ()
    without_dag: frozenset[FlowName] = frozenset()
    fault_notifiers: Mapping[FlowName, tuple[AlarmNotifier, ...]] = field(repr=False, default_factory=dict)
    #: Settings of connections that no client uses, each with the reason.
    unused: Mapping[Entry, str] = field(repr=False, default_factory=dict)

    def flow(self, name: str | FlowName) -> FlowSettings:
        """The settings of one flow. Raises :class:`UnknownFlow`, or the flow's own :class:`ConfigError`."""
        wanted = FlowName.parse(name)
        if wanted in self.faults:
            raise self.faults[wanted]
        settings = self.flows.get(wanted)
        if settings is not None:
            return settings
        if wanted in self.elsewhere:
            raise UnknownFlow(f"flow {wanted} is left to another installation by {self.layers.top[TARGETS].place}")
        for alias in (wanted.source, wanted.target):
            if alias not in self.layers.aliases:
                known = ", ".join(self.layers.aliases)
                raise UnknownFlow(f"'{alias}' is not one of the clusters ({known})", file=str(self.path))
        raise UnknownFlow(f"flow {wanted} is not configured; add '{wanted}.enabled = true'", file=str(self.path))

    def notifiers(self, name: FlowName) -> tuple[AlarmNotifier, ...]:
        """The notifiers of a flow's alarms, also of one in ``faults`` unless these keys are the fault."""
        settings = self.flows.get(name)
        return self.fault_notifiers.get(name, ()) if settings is None else settings.alarm_notifiers

    def says_enabled(self, name: FlowName) -> bool | None:
        """What the file says of a flow, also of one in ``faults``; None: nothing, or nothing that can be told."""
        settings = self.flows.get(name)
        if settings is not None:
            return settings.enabled if settings.enabled or settings.disabled else None
        entry = (self.layers.flows.get(name) or self.layers.strangers.get(name) or {}).get("enabled")
        return None if entry is None else {"true": True, "false": False}.get(entry.value.strip().lower())

    @property
    def enabled_flows(self) -> tuple[FlowSettings, ...]:
        return tuple(flow for flow in self.flows.values() if flow.enabled)

    def secret_variables(self, name: FlowName) -> dict[str, str]:
        """The environment variables that another process needs: the flow's Airflow connections, and those that the
        files refer to. For :func:`~srm_common.settings_files.sources.secret_variables.hand_over`. Raises
        :class:`ConfigError`."""
        found = (self.connections.get(alias) for alias in (name.source, name.target))
        connections = {connection.variable: connection.to_json() for connection in found if connection is not None}
        return {**referred(), **connections}

    def find(self, name: str | FlowName, key: str) -> Found:
        """Where the value of ``key`` comes from for a flow, and what it overrides. Raises :class:`ConfigError`."""
        known = BY_NAME.get(key)
        if known is None:
            raise ConfigError(f"there is no key '{key}'", file=str(self.path))
        return self.layers.find(known, FlowName.parse(name))


def load_configuration(
    path: Path, connections: Lookup | None = from_airflow, *, more: tuple[Entry, ...] = ()
) -> Configuration:
    """Read a configuration: a file, a folder of ``*.properties``, or several of both separated as in PATH.

    ``connections`` finds the Airflow connections that clusters name. With None they are not looked up, and such a
    cluster is known by its connection's name only: enough to make DAGs. ``more`` takes precedence over the files.

    Raises:
        ConfigError: the configuration as a whole cannot be used; file, line and reason are in the message.
    """
    entries = (*read_entries(configuration_files(path)), *more)
    layers = Layers.of(entries, listed_aliases(entries))
    providers = Providers.of(layers.top)
    refer(name for entry in entries for name in providers.variables(entry.value))
    return _Loader(path, entries, layers, providers, connections).configuration()


class _Loader:
    """One load: what was read, and what is built from it."""

    def __init__(
        self,
        path: Path,
        entries: tuple[Entry, ...],
        layers: Layers,
        providers: Providers,
        connections: Lookup | None,
    ) -> None:
        self.path = path
        self.entries = entries
        self.layers = layers
        self.providers = providers
        self.clusters = WrittenClusters(layers, providers, connections, file=entries[0].file if entries else None)

    def configuration(self) -> Configuration:
        served = self._served_targets()
        clusters: dict[str, ClusterSettings] = {}
        cluster_faults: dict[str, ConfigError] = {}
        for alias in self.layers.aliases:
            try:
                clusters[alias] = self.clusters.settings(alias)
            except ConfigError as error:
                cluster_faults[alias] = error
        flows: dict[FlowName, FlowSettings] = {}
        faults = stranger_faults(self.layers)
        elsewhere: list[FlowName] = []
        for name, scope in self.layers.flows.items():
            if served and name.target not in served:
                elsewhere.append(name)
                continue
            try:
                flows[name] = self._flow(name, scope)
            except ConfigError as error:
                faults[name] = error
        apart = set(elsewhere)
        here = [name for name in dict.fromkeys((*self.layers.flows, *faults)) if name not in apart]
        taken = dag_id_faults(self.layers, here)
        for name, fault in taken.items():
            flows.pop(name, None)
            own = faults.get(name)
            faults[name] = fault if own is None else one_fault([*(own.parts or (own,)), fault])
        told: dict[FlowName, tuple[AlarmNotifier, ...]] = {}
        for name in faults:
            with suppress(ConfigError):
                told[name] = self._notifiers(name)
        graph = self._graph(flows, elsewhere)
        return Configuration(
            self.path,
            clusters,
            {name: replace(flow, aliases=self.layers.aliases, graph=graph) for name, flow in flows.items()},
            faults,
            cluster_faults,
            self.layers,
            self.entries,
            self.clusters.connections,
            tuple(elsewhere),
            frozenset(taken),
            told,
            self.clusters.unused,
        )

    def _graph(self, flows: Mapping[FlowName, FlowSettings], elsewhere: Iterable[FlowName]) -> tuple[GraphFlow, ...]:
        """Every enabled flow, those of other installations too, in the order of ``clusters``."""
        settings = dict(flows)
        for name in elsewhere:
            # Faults of a flow are reported where it runs.
            with suppress(ConfigError):
                settings[name] = self._flow(name, self.layers.flows[name])
        place = {alias: number for number, alias in enumerate(self.layers.aliases)}
        return tuple(
            GraphFlow(flow.name, flow.policy, flow.source, flow.target, flow.schemas_context)
            for flow in sorted(settings.values(), key=lambda one: (place[one.name.source], place[one.name.target]))
            if flow.enabled
        )

    def _served_targets(self) -> tuple[str, ...]:
        entry = self.layers.top.get(TARGETS)
        targets = tuple(target for target in split_list(self.providers.resolve(entry)) if target) if entry else ()
        for target in targets:
            if target not in self.layers.clusters:
                known = ", ".join(self.layers.aliases)
                raise at_entry(entry, f"names '{target}', which is not one of the clusters ({known})")
        return targets

    def _flow(self, name: FlowName, scope: Scope) -> FlowSettings:
        if name.source == name.target:
            first = next(iter(scope.values()))
            raise ConfigError(f"flow {name} leads from a cluster to itself", file=first.file, line=first.line)
        faults: list[ConfigError] = []

        def attempt(build: Callable[[], T], instead: T) -> T:
            try:
                return build()
            except ConfigError as error:
                faults.append(error)
                return instead

        values = {key.name: attempt(partial(self._value, key, name), None) for key in FLOW_KEYS}
        filter_classes: dict[str, FilterClass | None] = {
            key_name.replace(".", "_"): attempt(partial(self._filter_class, key_name, name), None)
            for key_name in _FILTERS
        }
        unknown = ClusterSettings("", "", {}, {})
        source = attempt(lambda: self.clusters.settings(name.source, name, "source"), unknown)
        target = attempt(lambda: self.clusters.settings(name.target, name, "target"), unknown)
        notifiers: tuple[AlarmNotifier, ...] = attempt(lambda: self._notifiers(name), ())
        transforms: dict[str, Any] = attempt(lambda: self._transforms(name), {})
        default: ReplicationPolicy = DefaultReplicationPolicy()
        policy = attempt(lambda: self._policy(name), default)
        faults += pair_faults(self.layers, name, source, target, policy)
        faults += registry_faults(self.layers, name, source, target, values, transforms)
        if faults:
            raise one_fault(faults)
        fields = {key.field: values[key.name] for key in FLOW_KEYS if key.field is not None}
        fields["disabled"] = not fields["enabled"] and self.layers.find(BY_NAME["enabled"], name).entry is not None
        fields |= {**filter_classes, "alarm_notifiers": notifiers, **transforms}
        fields["exactly_once"] = fields["exactly_once"] == "enabled"
        fields["read_committed"] = fields["exactly_once"] or fields["read_committed"] == "read_committed"
        fields |= {loss: OnDataLoss(fields[loss]) for loss in ("on_data_loss", "on_target_loss")}
        return FlowSettings(name=name, source=source, target=target, policy=policy, **fields)

    def _value(self, key: Key, name: FlowName) -> Any:
        entry = self.layers.find(key, name).entry
        if entry is None:
            return _DEFAULTS[key.name]
        try:
            return key.parse(self.providers.resolve(entry))
        except BadValue as error:
            raise at_entry(entry, str(error)) from None

    def _policy(self, name: FlowName) -> ReplicationPolicy:
        separator = self._value(BY_NAME["replication.policy.separator"], name)
        if not separator:
            entry = self.layers.find(BY_NAME["replication.policy.separator"], name).entry
            assert entry is not None
            raise at_entry(entry, "must not be empty")
        internal = self._value(BY_NAME["replication.policy.internal.topic.separator.enabled"], name)
        written = self._value(BY_NAME["replication.policy.class"], name).strip()
        try:
            return policy_of(written, separator, internal, name, self._below("replication.policy.", name))
        except ConfigError as error:
            entry = self.layers.find(BY_NAME["replication.policy.class"], name).entry
            assert entry is not None
            raise at_entry(entry, f"= {error.reason}") from error

    def _below(self, beginning: str, name: FlowName, levels: Iterable[Level] = ALL_LEVELS) -> dict[str, str]:
        """Every key with this prefix, as the flow sees it, for a class with its own settings."""
        found: dict[str, str] = {}
        for level in levels:
            for key, entry in self.layers.beginning(level, name, beginning):
                found[beginning + key] = self.providers.resolve(entry)
        return found

    def _notifiers(self, name: FlowName) -> tuple[AlarmNotifier, ...]:
        entry = self.layers.find(BY_NAME[_NOTIFIERS], name).entry
        if entry is None:
            return ()
        names, settings = self._value(BY_NAME[_NOTIFIERS], name), self._below(NOTIFIER_KEYS, name)
        try:
            return alarm_notifiers(names, settings)
        except ConfigError as error:
            raise at_entry(entry, error.reason) from error

    def _transforms(self, name: FlowName) -> dict[str, Any]:
        key = BY_NAME["transforms"]
        entry = self.layers.find(key, name).entry
        starts = CHAIN_KEYS if entry else (SQL,)
        values = {k: v for start in starts for k, v in self._below(start, name, key.levels).items()}
        try:
            chain = parse_chain(values) if entry else ()
            return {"transforms": chain, "statements": parse_statements(values, schema_formats(chain))}
        except TransformFault as fault:
            if (written := self.layers.strongest(fault.key, name, key.levels)) is not None:
                raise at_entry(written, str(fault)) from None
            assert entry is not None
            raise at_entry(entry, f"asks for {fault.key}, which {fault}") from None

    def _filter_class(self, key_name: str, name: FlowName) -> FilterClass | None:
        key = BY_NAME[key_name]
        entry = self.layers.find(key, name).entry
        if entry is None:
            return None
        assert key.default is not None
        try:
            return filter_class(self.providers.resolve(entry).strip(), key.default)
        except ConfigError as error:
            raise at_entry(entry, error.reason) from error
