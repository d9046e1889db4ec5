"""Which of several values of a connection setting counts for a cluster, or for one side of a flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from srm_common.domain.settings.layers import Entry, Layers, Scope
from srm_common.settings_files.client_keys import is_connection_key

Side = Literal["source", "target"]
#: Prefix of the form a connection setting has at a level -> entry; strongest first.
Candidates = Mapping[str, tuple[tuple[str, Entry], ...]]

ADDRESS = "bootstrap.servers"
ALIAS_ROLES = ("", "admin.", "consumer.", "producer.")
#: MirrorMaker 2 gives each client its own settings; here one set reaches a cluster, so the data path's come first.
FLOW_ROLES: dict[Side, tuple[str, ...]] = {
    "source": ("consumer.", "admin."),
    "target": ("producer.override.", "producer.", "admin."),
}


def flow_prefixes(side: Side) -> Iterator[str]:
    """What a flow's connection setting begins with after ``a->b.``, strongest first."""
    for role in FLOW_ROLES[side]:
        if role != "producer.override.":
            yield f"{side}.{role}"
    yield from FLOW_ROLES[side]
    yield f"{side}.cluster."
    yield ""


def connection_candidates(
    layers: Layers, alias: str, named: Scope, *, flow: Scope | None = None, side: Side = "source"
) -> Candidates:
    """Every value that a connection setting of ``alias`` has, by key, strongest first.

    ``named`` are the settings of the Airflow connection that the alias names; ``flow`` the entries of a flow, of which
    the cluster is the ``side``.
    """
    found: dict[str, list[tuple[str, Entry]]] = {}

    def gather(scope: Scope, prefix: str, form: str, *, address: bool = True) -> None:
        for written, entry in scope.items():
            key = written[len(prefix) :]
            if written.startswith(prefix) and is_connection_key(key) and (address or key != ADDRESS):
                found.setdefault(key, []).append((form, entry))

    if flow is not None:
        for prefix in flow_prefixes(side):
            # An address for both sides would make the flow a loop.
            gather(flow, prefix, f"<source>-><target>.{prefix}key", address=bool(prefix))
    for role in ALIAS_ROLES:
        gather(layers.clusters[alias], role, f"<alias>.{role}key")
    gather(named, "", "Airflow connection")
    gather(layers.top, "", "key", address=False)
    return {key: tuple(values) for key, values in found.items()}


def strongest(candidates: Candidates) -> Scope:
    """The entry that counts, by key."""
    return {key: values[0][1] for key, values in candidates.items()}


def has_own_connection(scope: Scope, side: Side) -> bool:
    """Whether a flow says anything of its own about how to reach the cluster of that side."""
    return any(
        key.startswith(prefix) and is_connection_key(key[len(prefix) :]) and (prefix or key != ADDRESS)
        for key in scope
        for prefix in flow_prefixes(side)
    )
