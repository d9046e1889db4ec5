"""The flow that a command is about, by our options or Streams Replication Manager's, and overrides of its clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from srm_common.cli.invocation import Invocation, flow_option
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.settings.layers import Entry
from srm_common.errors import ConfigError, SrmError

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
        from srm_common.settings_files.connections.client_keys import cluster_settings, is_connection_key

        entries = {"bootstrap.servers": Entry("--bootstrap-servers", servers, _COMMAND_LINE, 0)}
        for text in written:
            for key, entry in _properties(text):
                if not is_connection_key(key):
                    raise ConfigError(
                        f"{entry.written} does not describe how to reach a cluster, so it would have no effect here",
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
    from srm_common.settings_files.sources.properties import read_properties

    if "=" not in text:
        path = Path(text)
        if not path.is_file():
            raise ConfigError(f"'{text}' is neither key=value nor a file")
        return [(found.key, Entry(found.key, found.value, str(path), found.line)) for found in read_properties(path)]
    pairs = (piece.partition("=") for piece in _NEXT_PROPERTY.split(text.strip()))
    return [(key.strip(), Entry(key.strip(), value.strip(), _COMMAND_LINE, 0)) for key, _, value in pairs]


@dataclass(frozen=True)
class ChosenFlow:
    """``settings`` have the lists of the file; ``flows`` are all flows of it. ``writes_to``: the target as it is
    written to, if the command line has other properties for that. ``file`` is False without a file."""

    settings: FlowSettings
    flows: tuple[FlowName, ...]
    writes_to: ClusterSettings | None = None
    file: bool = True

    def need_source(self, what: str) -> FlowSettings:
        """The flow, if its source can be queried. Raises :class:`ConfigError`."""
        if not self.file:
            raise ConfigError(
                f"{what} queries the source, whose address is in the properties file; pass it with --config FILE"
            )
        return self.settings


def flow_choice_options(command: F) -> F:
    """``--flow``, ``--source`` and ``--target``."""
    for name in ("--target", "--source"):
        command = click.option(
            name, metavar="ALIAS", shell_complete=_complete_alias, help=f"The flow's {name[2:]} cluster."
        )(command)
    return flow_option(command)


def chosen_flow(
    invocation: Invocation, flow: str | None, source: str | None, target: str | None, clients: ClientOverrides
) -> ChosenFlow:
    """Raises :class:`ConfigError`."""
    name = _name(flow, source, target)
    if name is not None and clients.bootstrap_servers and not invocation.has_file:
        settings = FlowSettings(
            name,
            ClusterSettings.plaintext(name.source, ""),
            ClusterSettings.plaintext(name.target, clients.bootstrap_servers),
        )
        return _with(ChosenFlow(settings, (name,), file=False), clients)
    settings = invocation.flow(None if name is None else str(name))
    configuration = invocation.configuration()
    return _with(ChosenFlow(settings, (*configuration.flows, *configuration.faults)), clients)


def _name(flow: str | None, source: str | None, target: str | None) -> FlowName | None:
    if (source is None) != (target is None):
        raise ConfigError(f"--{'target' if target is None else 'source'} is missing; a flow has both")
    both = None if source is None or target is None else FlowName(source, target)
    if flow is None:
        return both
    name = FlowName.parse(flow)
    if both not in (None, name):
        raise ConfigError(f'--flow "{name}" and --source {source} --target {target} name two flows')
    return name


def _with(chosen: ChosenFlow, clients: ClientOverrides) -> ChosenFlow:
    if not clients:
        return chosen
    target = chosen.settings.target
    settings = replace(chosen.settings, target=clients.read_from(target))
    return replace(chosen, settings=settings, writes_to=clients.written_to(target))


def _complete_alias(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        clusters = context.ensure_object(Invocation).configuration().clusters
    except SrmError:
        return []
    return [CompletionItem(alias) for alias in clusters if alias.startswith(incomplete)]
