"""``--bootstrap-servers``, ``--props``, ``--producer-props`` and ``--consumer-props``: how to reach the flow's target,
where ``srm-control.internal`` lies, other than the properties file says, or without one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.settings.layers import Entry
from srm_common.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

# A comma outside quotes (a login has its password in them) before what looks like a key of a client: a.b=
_NEXT_PROPERTY = re.compile(r',\s*(?=[A-Za-z][A-Za-z0-9_-]*\.[A-Za-z0-9._-]*=)(?=(?:[^"]*"[^"]*")*[^"]*$)')
_COMMAND_LINE = "the command line"


@dataclass(frozen=True)
class ClientOverrides:
    """What the command line says about Kafka's clients; properties are ``key=value`` or the names of files."""

    bootstrap_servers: str | None = None
    props: tuple[str, ...] = ()
    producer_props: tuple[str, ...] = ()
    consumer_props: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any((self.bootstrap_servers, self.props, self.producer_props, self.consumer_props))

    def read_from(self, cluster: ClusterSettings) -> ClusterSettings:
        """``cluster`` as it is read. Raises :class:`ConfigError`."""
        return self._applied(cluster, (*self.props, *self.consumer_props))

    def written_to(self, cluster: ClusterSettings) -> ClusterSettings:
        """``cluster`` as it is written to. Raises :class:`ConfigError`."""
        return self._applied(cluster, (*self.props, *self.producer_props))

    def _applied(self, cluster: ClusterSettings, written: Sequence[str]) -> ClusterSettings:
        servers = self.bootstrap_servers or cluster.bootstrap_servers
        if not written:
            return cluster.at(servers)
        from srm_common.settings_files.client_keys import cluster_settings, is_connection_key

        entries = {"bootstrap.servers": Entry("--bootstrap-servers", servers, _COMMAND_LINE, 0)}
        for text in written:
            for key, entry in _properties(text):
                if not is_connection_key(key):
                    raise ConfigError(
                        f"{entry.written} says nothing about how to reach a cluster, so it would do nothing here",
                        file=entry.file,
                        line=entry.line or None,
                    )
                entries[key] = entry
        return cluster_settings(cluster.alias, entries, lambda entry: entry.value)


def client_options(command: F) -> F:
    """The four options, given to the command as ``clients``."""
    for name, what in (
        ("--consumer-props", "The same, for reading only."),
        ("--producer-props", "The same, for writing only."),
        (
            "--props",
            "Client properties for the target cluster: key=value[,key=value...], or a file of them (better for "
            "passwords). They replace all those of the configuration file.",
        ),
    ):
        command = click.option(name, multiple=True, metavar="K=V|FILE", help=what)(command)
    return click.option("--bootstrap-servers", metavar="HOST:PORT", help="Address of the target cluster.")(command)


def _properties(text: str) -> list[tuple[str, Entry]]:
    from srm_common.settings_files.properties import read_properties

    if "=" not in text:
        path = Path(text)
        if not path.is_file():
            raise ConfigError(f"'{text}' is neither key=value nor a file")
        return [(found.key, Entry(found.key, found.value, str(path), found.line)) for found in read_properties(path)]
    pairs = (piece.partition("=") for piece in _NEXT_PROPERTY.split(text.strip()))
    return [(key.strip(), Entry(key.strip(), value.strip(), _COMMAND_LINE, 0)) for key, _, value in pairs]
