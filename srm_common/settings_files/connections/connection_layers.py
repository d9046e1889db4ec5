"""Which of several values of a connection setting applies to a client of a cluster, or of one side of a flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from srm_common.domain.cluster import Client
from srm_common.domain.settings.key import Level
from srm_common.domain.settings.layers import Entry, Layers, Scope
from srm_common.settings_files.connections.client_keys import is_connection_key

Side = Literal["source", "target"]
#: Prefix of the form a connection setting has at a level -> entry; strongest first.
Candidates = Mapping[str, tuple[tuple[str, Entry], ...]]

ADDRESS = "bootstrap.servers"
#: The client that carries the data of a side.
DATA_CLIENT: Mapping[Side, Client] = {"source": Client.CONSUMER, "target": Client.PRODUCER}
#: Prefixes of the settings of Connect's own clients, then of MirrorMaker 2's.
CLIENT_PREFIXES: Mapping[Client, tuple[str, ...]] = {client: (f"{client}.override.", f"{client}.") for client in Client}
_SIDES = ("source.cluster.", "target.cluster.", "source.", "target.")
EVERY_CLIENT = tuple(prefix for prefixes in CLIENT_PREFIXES.values() for prefix in prefixes)


def flow_prefixes(side: Side, client: Client) -> Iterator[tuple[str, bool]]:
    """Prefixes of a flow's connection settings after ``a->b.``, strongest first, and whether an address may have each:
    one for both sides would make the flow a loop."""
    yield f"{side}.{client}.", True
    yield f"{side}.cluster.{client}.", True
    for prefix in CLIENT_PREFIXES[client]:
        yield prefix, DATA_CLIENT[side] is client
    yield f"{side}.cluster.", True
    yield "", False


def connection_candidates(
    layers: Layers, alias: str, named: Scope, client: Client, *, flow: Scope | None = None, side: Side = "source"
) -> Candidates:
    """Every value that a connection setting of ``alias`` has for a client, by key, strongest first.

    ``named`` are the settings of the Airflow connection that the alias names; ``flow`` are the entries of the
    flow whose ``side`` the cluster is.
    """
    found: dict[str, list[tuple[str, Entry]]] = {}

    def add(key: str, form: str, entry: Entry, address: bool) -> None:
        if address or key != ADDRESS:
            found.setdefault(key, []).append((form, entry))

    def gather(scope: Scope, prefix: str, form: str, *, address: bool = True) -> None:
        for written, entry in scope.items():
            if written.startswith(prefix) and is_connection_key(written[len(prefix) :]):
                add(written[len(prefix) :], form, entry, address)

    def gather_shared(level: Level, prefix: str, form: str) -> None:
        for key, entry in layers.shared(level, prefix, is_connection_key):
            add(key, form, entry, address=False)

    if flow is not None:
        for prefix, address in flow_prefixes(side, client):
            gather(flow, prefix, f"<source>-><target>.{prefix}key", address=address)
    for prefix in (*CLIENT_PREFIXES[client], ""):
        gather(layers.clusters[alias], prefix, f"<alias>.{prefix}key")
    gather(named, "", "Airflow connection")
    for prefix in (*CLIENT_PREFIXES[client], ""):
        gather_shared(Level.CONNECTORS, prefix, f"connectors.{prefix}key")
        gather_shared(Level.TOP, prefix, f"{prefix}key")
    return {key: tuple(values) for key, values in found.items()}


def strongest(candidates: Candidates) -> Scope:
    """The entry that counts, by key."""
    return {key: values[0][1] for key, values in candidates.items()}


def client_setting(name: str) -> str:
    """``source.consumer.fetch.max.bytes`` -> ``fetch.max.bytes``."""
    rest = name
    for side in _SIDES:
        if rest.startswith(side):
            rest = rest[len(side) :]
            break
    return next((rest[len(client) :] for client in EVERY_CLIENT if rest.startswith(client)), name)
