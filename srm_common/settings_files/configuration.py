"""The configuration as a whole: clusters, flows, and the faults of each flow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Self, TypeVar

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.settings import AlarmNotifier
from srm_common.domain.settings.layers import Entry, Found, Layers
from srm_common.domain.settings.table import BY_NAME
from srm_common.errors import ConfigError, UnknownFlow
from srm_common.settings_files.clusters import WrittenClusters
from srm_common.settings_files.connections.airflow_connections import AirflowConnection, Lookup, from_airflow
from srm_common.settings_files.sources.configuration_files import configuration_files, listed_aliases, read_entries
from srm_common.settings_files.sources.providers import Providers
from srm_common.settings_files.sources.secret_variables import refer, referred
from srm_common.settings_files.written_flows import TARGETS, WrittenFlows

K = TypeVar("K")
V = TypeVar("V")


class _Attempts(Generic[K, V]):
    """What comes of each name, a value or a fault: found out when it is asked for, and once."""

    def __init__(self, build: Callable[[K], V]) -> None:
        self._build = build
        self._found: dict[K, V | ConfigError] = {}

    def of(self, name: K) -> V | ConfigError:
        if name not in self._found:
            try:
                found: V | ConfigError = self._build(name)
            except ConfigError as error:
                found = error
            # Of two threads that ask at once, the later one takes what the other has found.
            self._found.setdefault(name, found)
        return self._found[name]


class _Values(Mapping[K, V]):
    """Those without a fault."""

    def __init__(self, names: Iterable[K], attempts: _Attempts[K, V]) -> None:
        self._names = dict.fromkeys(names)
        self._attempts = attempts

    def __getitem__(self, name: K) -> V:
        found = self._attempts.of(name) if name in self._names else None
        if found is None or isinstance(found, ConfigError):
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[K]:
        return (name for name in self._names if not isinstance(self._attempts.of(name), ConfigError))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Faults(Mapping[K, ConfigError], Generic[K, V]):
    """The others."""

    def __init__(self, names: Iterable[K], attempts: _Attempts[K, V]) -> None:
        self._names = dict.fromkeys(names)
        self._attempts = attempts

    def __getitem__(self, name: K) -> ConfigError:
        found = self._attempts.of(name) if name in self._names else None
        if not isinstance(found, ConfigError):
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[K]:
        return (name for name in self._names if isinstance(self._attempts.of(name), ConfigError))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Configuration:
    """A loaded file. A flow with bad keys is in ``faults`` and not in ``flows``; the others are not affected.

    The files are read at once. A flow or a cluster is put together, and Airflow asked for its connection, when it is
    asked for: a task pays for its own flow, however many the file has, and for no secret of others. To go through
    ``flows``, ``faults``, ``clusters`` or ``cluster_faults`` is to ask for all.

    ``flows`` has every flow that the file mentions, enabled or not. ``cluster_faults`` are aliases that cannot be
    reached as written; each flow that uses one is in ``faults``. ``names`` are those of ``flows`` and ``faults``.
    ``entries`` is all that the files say, in order; ``elsewhere`` the flows left to other installations;
    ``without_dag`` those of ``faults`` whose DAG id belongs to another flow.
    """

    path: Path
    layers: Layers = field(repr=False)
    entries: tuple[Entry, ...] = field(repr=False)
    flows: Mapping[FlowName, FlowSettings] = field(repr=False)
    faults: Mapping[FlowName, ConfigError] = field(repr=False)
    clusters: Mapping[str, ClusterSettings] = field(repr=False)
    cluster_faults: Mapping[str, ConfigError] = field(repr=False)
    names: tuple[FlowName, ...]
    elsewhere: tuple[FlowName, ...]
    without_dag: frozenset[FlowName]
    _clusters: WrittenClusters = field(repr=False)
    _flows: WrittenFlows = field(repr=False)

    @classmethod
    def of(
        cls,
        path: Path,
        entries: tuple[Entry, ...],
        layers: Layers,
        providers: Providers,
        connections: Lookup | None,
    ) -> Self:
        """Raises :class:`ConfigError`: the configuration as a whole cannot be used."""
        clusters = WrittenClusters(layers, providers, connections, file=entries[0].file if entries else None)
        flows = WrittenFlows(layers, providers, clusters)
        built, reached = _Attempts(flows.settings), _Attempts(clusters.settings)
        return cls(
            path,
            layers,
            entries,
            _Values(flows.names, built),
            _Faults((*flows.strangers, *flows.names), built),
            _Values(layers.aliases, reached),
            _Faults(layers.aliases, reached),
            flows.names,
            flows.elsewhere,
            frozenset(flows.taken),
            clusters,
            flows,
        )

    def complete(self) -> Self:
        """Puts all of it together now, so that nobody waits for Airflow's connections later."""
        for whole in (self.flows, self.clusters):
            len(whole)
        return self

    def flow(self, name: str | FlowName) -> FlowSettings:
        """The settings of one flow. Raises :class:`UnknownFlow`, or the flow's own :class:`ConfigError`."""
        wanted = FlowName.parse(name)
        if (settings := self.flows.get(wanted)) is not None:
            return settings
        if (fault := self.faults.get(wanted)) is not None:
            raise fault
        if wanted in self.elsewhere:
            raise UnknownFlow(f"flow {wanted} is left to another installation by {self.layers.top[TARGETS].place}")
        for alias in (wanted.source, wanted.target):
            if alias not in self.layers.aliases:
                known = ", ".join(self.layers.aliases)
                raise UnknownFlow(f"'{alias}' is not one of the clusters ({known})", file=str(self.path))
        raise UnknownFlow(f"flow {wanted} is not configured; add '{wanted}.enabled = true'", file=str(self.path))

    def notifiers(self, name: FlowName) -> tuple[AlarmNotifier, ...]:
        """The notifiers of a flow's alarms, also of one in ``faults`` unless these keys are the fault."""
        try:
            return self._flows.notifiers(name)
        except ConfigError:
            return ()

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

    @property
    def kept(self) -> tuple[FlowName, ...]:
        """The flows whose history is kept, however long they have not run: all but those that the file does not
        enable."""
        return tuple(name for name in self.names if name in self._flows.refused or self._flows.may_run(name))

    @property
    def unused(self) -> Mapping[Entry, str]:
        """Settings of connections that no client uses, each with the reason."""
        self.complete()
        return self._clusters.unused

    def unused_of(self, name: FlowName) -> Mapping[Entry, str]:
        """The same, as far as a flow's own clients do not use them."""
        self.flows.get(name)
        # What they all use, somebody uses.
        return self.unused if self._clusters.unused else {}

    def connection(self, alias: str) -> AirflowConnection | None:
        """The Airflow connection that a cluster names; None: it names none, or they are not looked up. Raises
        :class:`ConfigError`: it is not found."""
        return self._clusters.connection(alias)

    def secret_variables(self, name: FlowName) -> dict[str, str]:
        """The environment variables that another process needs: the flow's Airflow connections, and those that the
        files refer to. For :func:`~srm_common.settings_files.sources.secret_variables.hand_over`. Raises
        :class:`ConfigError`."""
        found = [self.connection(alias) for alias in (name.source, name.target)]
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
    return Configuration.of(path, entries, layers, providers, connections)
