"""Which flow a command is about: ``--flow "a->b"`` or ``--source a --target b``, out of the properties file, or without
one where the command line says how to reach the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from srm_common.cli.client_overrides import ClientOverrides
from srm_common.cli.invocation import Invocation, flow_option
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.errors import ConfigError, SrmError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ChosenFlow:
    """``settings`` have the lists of the file; ``flows`` are all flows of it. ``writes_to``: the target as it is
    written to, where the command line gives writing other properties. ``file`` is False without a file."""

    settings: FlowSettings
    flows: tuple[FlowName, ...]
    writes_to: ClusterSettings | None = None
    file: bool = True

    def need_source(self, what: str) -> FlowSettings:
        """The flow, whose source can be asked. Raises :class:`ConfigError`."""
        if not self.file:
            raise ConfigError(
                f"{what} asks the source cluster, whose address is in the properties file; name it with --config FILE"
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
        raise ConfigError(f'--flow "{name}" and --source {source} --target {target} are two flows')
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
