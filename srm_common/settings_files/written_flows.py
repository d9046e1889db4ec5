"""Flows as the files write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, TypeVar

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow, OnDataLoss
from srm_common.domain.flow.settings import NOTIFIER_KEYS, AlarmNotifier, FilterClass, alarm_notifiers
from srm_common.domain.patterns.name_filter import split_list
from srm_common.domain.policy import DefaultReplicationPolicy, ReplicationPolicy
from srm_common.domain.settings.key import ALL_LEVELS, BadValue, Key, Level
from srm_common.domain.settings.layers import Layers
from srm_common.domain.settings.table import BY_NAME, FLOW_KEYS
from srm_common.domain.transforms.chain import CHAIN_KEYS, parse_chain, schema_formats
from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.statements import KEY as SQL
from srm_common.domain.transforms.statements import parse_statements
from srm_common.errors import ConfigError
from srm_common.settings_files.clusters import WrittenClusters
from srm_common.settings_files.findings import (
    at_entry,
    dag_id_faults,
    one_fault,
    pair_faults,
    registry_faults,
    stranger_faults,
)
from srm_common.settings_files.sources.providers import Providers
from srm_common.settings_files.user_classes import filter_class, policy_of

T = TypeVar("T")

TARGETS = "streams.replication.manager.driver.target.cluster"
_NOTIFIERS = "alarm.notifiers"
_FILTERS = ("topic.filter.class", "group.filter.class", "config.property.filter.class")
_DEFAULTS: dict[str, Any] = {key.name: key.parse(key.default) for key in BY_NAME.values() if key.default is not None}


class WrittenFlows:
    """What the files say of each flow. Nothing is built before it is asked for: a file may have hundreds of flows, and
    most who read it want one.

    ``names`` are the flows of this installation, ``elsewhere`` those that it leaves to others. ``strangers`` are those
    of ``names`` with an unknown cluster, ``taken`` those whose DAG id belongs to another flow, each with its fault.

    Raises:
        ConfigError: the clusters of this installation are none.
    """

    def __init__(self, layers: Layers, providers: Providers, clusters: WrittenClusters) -> None:
        self._layers = layers
        self._providers = providers
        self._clusters = clusters
        served = self._served_targets()
        self.elsewhere = tuple(name for name in layers.flows if served and name.target not in served)
        self.strangers = stranger_faults(layers)
        apart = set(self.elsewhere)
        self.names = tuple(name for name in dict.fromkeys((*layers.flows, *self.strangers)) if name not in apart)
        self.taken = dag_id_faults(layers, self.names)

    def settings(self, name: FlowName) -> FlowSettings:
        """Of one of ``names``. Raises :class:`ConfigError` with all that is wrong with it."""
        taken = self.taken.get(name)
        try:
            if name in self.strangers:
                raise self.strangers[name]
            built = self._built(name)
        except ConfigError as own:
            raise own if taken is None else one_fault([*(own.parts or (own,)), taken]) from None
        if taken is not None:
            raise taken
        return built

    @cached_property
    def refused(self) -> frozenset[FlowName]:
        """Those that no key of their own can mend."""
        return frozenset((*self.strangers, *self.taken))

    def may_run(self, name: FlowName) -> bool:
        """Whether the file enables a flow, as far as that can be told without its other keys."""
        try:
            return bool(self._value(BY_NAME["enabled"], name))
        except ConfigError:
            return True  # the flow's fault says it

    @cached_property
    def graph(self) -> tuple[GraphFlow, ...]:
        """Every enabled flow, those of other installations too, in the order of ``clusters``. What is wrong with one of
        them is reported where it runs; how to reach its clusters is found out by who asks."""
        place = {alias: number for number, alias in enumerate(self._layers.aliases)}
        flows = sorted(self._graph_flows(), key=lambda one: (place[one.name.source], place[one.name.target]))
        return tuple(flows)

    def _graph_flows(self) -> Iterator[GraphFlow]:
        for name in self._layers.flows:
            if name.source == name.target or name in self.taken:
                continue
            with suppress(ConfigError):
                if self._value(BY_NAME["enabled"], name):
                    context = self._value(BY_NAME["schemas.context"], name)
                    yield GraphFlow(
                        name,
                        self._policy(name),
                        partial(self._clusters.settings, name.source, name, "source"),
                        partial(self._clusters.settings, name.target, name, "target"),
                        context,
                    )

    def _served_targets(self) -> tuple[str, ...]:
        entry = self._layers.top.get(TARGETS)
        targets = tuple(target for target in split_list(self._providers.resolve(entry)) if target) if entry else ()
        for target in targets:
            if target not in self._layers.clusters:
                known = ", ".join(self._layers.aliases)
                raise at_entry(entry, f"names '{target}', which is not one of the clusters ({known})")
        return targets

    def _built(self, name: FlowName) -> FlowSettings:
        if name.source == name.target:
            first = next(iter(self._layers.flows[name].values()))
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
        source = attempt(lambda: self._clusters.settings(name.source, name, "source"), unknown)
        target = attempt(lambda: self._clusters.settings(name.target, name, "target"), unknown)
        notifiers: tuple[AlarmNotifier, ...] = attempt(lambda: self.notifiers(name), ())
        transforms: dict[str, Any] = attempt(lambda: self._transforms(name), {})
        default: ReplicationPolicy = DefaultReplicationPolicy()
        policy = attempt(lambda: self._policy(name), default)
        faults += pair_faults(self._layers, name, source, target, policy)
        faults += registry_faults(self._layers, name, source, target, values, transforms)
        if faults:
            raise one_fault(faults)
        fields = {key.field: values[key.name] for key in FLOW_KEYS if key.field is not None}
        fields["disabled"] = not fields["enabled"] and self._layers.find(BY_NAME["enabled"], name).entry is not None
        fields |= {**filter_classes, "alarm_notifiers": notifiers, **transforms}
        fields["exactly_once"] = fields["exactly_once"] == "enabled"
        fields["read_committed"] = fields["exactly_once"] or fields["read_committed"] == "read_committed"
        fields |= {loss: OnDataLoss(fields[loss]) for loss in ("on_data_loss", "on_target_loss")}
        fields |= {"aliases": self._layers.aliases, "graph": self.graph}
        return FlowSettings(name=name, source=source, target=target, policy=policy, **fields)

    def _value(self, key: Key, name: FlowName) -> Any:
        entry = self._layers.find(key, name).entry
        if entry is None:
            return _DEFAULTS[key.name]
        try:
            return key.parse(self._providers.resolve(entry))
        except BadValue as error:
            raise at_entry(entry, str(error)) from None

    def _policy(self, name: FlowName) -> ReplicationPolicy:
        separator = self._value(BY_NAME["replication.policy.separator"], name)
        if not separator:
            entry = self._layers.find(BY_NAME["replication.policy.separator"], name).entry
            assert entry is not None
            raise at_entry(entry, "must not be empty")
        internal = self._value(BY_NAME["replication.policy.internal.topic.separator.enabled"], name)
        written = self._value(BY_NAME["replication.policy.class"], name).strip()
        try:
            return policy_of(written, separator, internal, name, self._below("replication.policy.", name))
        except ConfigError as error:
            entry = self._layers.find(BY_NAME["replication.policy.class"], name).entry
            assert entry is not None
            raise at_entry(entry, f"= {error.reason}") from error

    def _below(self, beginning: str, name: FlowName, levels: Iterable[Level] = ALL_LEVELS) -> dict[str, str]:
        """Every key with this prefix, as the flow sees it, for a class with its own settings."""
        found: dict[str, str] = {}
        for level in levels:
            for key, entry in self._layers.beginning(level, name, beginning):
                found[beginning + key] = self._providers.resolve(entry)
        return found

    def notifiers(self, name: FlowName) -> tuple[AlarmNotifier, ...]:
        """Of a flow's alarms. Raises :class:`ConfigError`."""
        entry = self._layers.find(BY_NAME[_NOTIFIERS], name).entry
        if entry is None:
            return ()
        names, settings = self._value(BY_NAME[_NOTIFIERS], name), self._below(NOTIFIER_KEYS, name)
        try:
            return alarm_notifiers(names, settings)
        except ConfigError as error:
            raise at_entry(entry, error.reason) from error

    def _transforms(self, name: FlowName) -> dict[str, Any]:
        key = BY_NAME["transforms"]
        entry = self._layers.find(key, name).entry
        starts = CHAIN_KEYS if entry else (SQL,)
        values = {k: v for start in starts for k, v in self._below(start, name, key.levels).items()}
        try:
            chain = parse_chain(values) if entry else ()
            return {"transforms": chain, "statements": parse_statements(values, schema_formats(chain))}
        except TransformFault as fault:
            if (written := self._layers.strongest(fault.key, name, key.levels)) is not None:
                raise at_entry(written, str(fault)) from None
            assert entry is not None
            raise at_entry(entry, f"asks for {fault.key}, which {fault}") from None

    def _filter_class(self, key_name: str, name: FlowName) -> FilterClass | None:
        key = BY_NAME[key_name]
        entry = self._layers.find(key, name).entry
        if entry is None:
            return None
        assert key.default is not None
        try:
            return filter_class(self._providers.resolve(entry).strip(), key.default)
        except ConfigError as error:
            raise at_entry(entry, error.reason) from error
