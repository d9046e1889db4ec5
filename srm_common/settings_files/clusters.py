"""Clusters as the files and Airflow's connections write them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow import FlowName
from srm_common.domain.settings.layers import Entry, Layers, Scope
from srm_common.errors import ConfigError
from srm_common.settings_files.connections.airflow_connections import (
    AirflowConnection,
    KeptConnection,
    Lookup,
    variable_name,
)
from srm_common.settings_files.connections.client_keys import cluster_settings
from srm_common.settings_files.connections.connection_layers import DATA_CLIENT, Side, connection_candidates, strongest
from srm_common.settings_files.connections.written_login import WrittenLogin
from srm_common.settings_files.findings import at_entry
from srm_common.settings_files.sources.providers import Providers

CONNECTION = "connection"


class WrittenClusters:
    """How to reach each cluster, for a flow or without one.

    ``file`` is named by faults for which no line is to blame. Any thread may ask: one at a time is served.
    """

    def __init__(self, layers: Layers, providers: Providers, lookup: Lookup | None, *, file: str | None) -> None:
        self._connections: dict[str, AirflowConnection | ConfigError] = {}
        self._lock = threading.RLock()
        self._layers = layers
        self._providers = providers
        self._lookup = lookup
        self._file = file
        #: Settings that some client uses; and for those that a client does not use, the reasons.
        self._counting: set[Entry] = set()
        self._unused: dict[Entry, list[str]] = {}

    @property
    def unused(self) -> Mapping[Entry, str]:
        """Settings that no client uses, of the clusters asked for so far, each with the reason."""
        with self._lock:
            return {
                entry: next(reason for reason in reasons if reason)
                for entry, reasons in self._unused.items()
                if entry not in self._counting and entry.line and any(reasons)
            }

    def settings(self, alias: str, name: FlowName | None = None, side: Side = "source") -> ClusterSettings:
        """With a flow's overrides for that side. The settings are those of the client that carries the data, or without
        a flow those of the admin client; the others are kept where they differ.

        Raises:
            ConfigError: the cluster cannot be reached as written.
        """
        with self._lock:
            return self._settings(alias, name, side)

    def _settings(self, alias: str, name: FlowName | None, side: Side) -> ClusterSettings:
        named = self._layers.clusters[alias].get(CONNECTION)
        if named is not None and self._lookup is None:
            return ClusterSettings(alias, f"Airflow connection {named.value.strip()}", {}, {})
        connection = self.connection(alias)
        from_connection = {} if connection is None else connection.entries()
        kept = None if connection is None or self._lookup is None else KeptConnection.of(connection, self._lookup)
        first = Client.ADMIN if name is None else DATA_CLIENT[side]
        found: dict[Client, ClusterSettings] = {}
        for client in Client:
            written = strongest(
                connection_candidates(
                    self._layers,
                    alias,
                    from_connection,
                    client,
                    flow=self._layers.flows.get(name, {}) if name else None,
                    side=side,
                )
            )

            def unused(entries: Mapping[Entry, str], written: Scope = written) -> None:
                self._counting |= set(written.values()) - entries.keys()
                for entry, reason in entries.items():
                    self._unused.setdefault(entry, []).append(reason)

            try:
                settings = cluster_settings(
                    alias,
                    written,
                    self._resolved,
                    owner=name.dag_id if name else "srm",
                    reads_data=name is not None and side == "source" and client is Client.CONSUMER,
                    unused=unused,
                )
                source = WrittenLogin.of(settings, written, self._providers, kept)
                found[client] = replace(settings, login_source=source)
            except ConfigError as error:
                if error.file is None:
                    raise ConfigError(error.reason, file=self._file) from None
                raise
        others = {client: settings for client, settings in found.items() if settings != found[first]}
        return replace(found[first], clients=others)

    def _resolved(self, entry: Entry) -> str:
        # Values from Airflow contain no references: a '${' in one is part of a password.
        return self._providers.resolve(entry) if entry.line else entry.value

    def connection(self, alias: str) -> AirflowConnection | None:
        """The Airflow connection that an alias names; each is looked up once, also in vain. None: it names none, or
        they are not looked up.

        Raises:
            ConfigError: it is not found, or cannot be read.
        """
        named = self._layers.clusters.get(alias, {}).get(CONNECTION)
        if named is None or self._lookup is None:
            return None
        with self._lock:
            if alias not in self._connections:
                try:
                    self._connections[alias] = self._looked_up(named, self._lookup)
                except ConfigError as error:
                    self._connections[alias] = error
            found = self._connections[alias]
        if isinstance(found, ConfigError):
            raise found
        return found

    def _looked_up(self, named: Entry, lookup: Lookup) -> AirflowConnection:
        conn_id = self._providers.resolve(named).strip()
        connection = lookup(conn_id)
        if connection is None:
            raise at_entry(
                named,
                f"names the Airflow connection '{conn_id}', which this process does not find, or which Airflow's "
                f"secrets backend did not return; create it, or set the environment variable {variable_name(conn_id)}",
            )
        return connection
