"""What all commands share: the configuration file, the selected flow, and the output format."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from srm_common.cli.output import Format
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.patterns.name_filter import split_list
from srm_common.errors import ConfigError, SrmError, UnknownFlow
from srm_common.settings_files.configuration import Configuration, load_configuration

if TYPE_CHECKING:
    from srm_common.usecases.filters.effective_filters import EffectiveFilters

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_FILE = "srm.properties"


@dataclass
class Invocation:
    """One call of ``srm-control``."""

    config: Path = field(default_factory=lambda: Path(os.environ.get("SRM_CONFIG") or DEFAULT_FILE))
    output: Format = "table"
    verbose: bool = False

    @property
    def has_file(self) -> bool:
        """Whether there is a configuration; several files are assumed to exist."""
        return os.pathsep in str(self.config) or self.config.exists()

    def configuration(self) -> Configuration:
        """Raises :class:`ConfigError`."""
        if not self.has_file:
            raise ConfigError(
                "there is no such file; name one with --config FILE or the variable SRM_CONFIG", file=str(self.config)
            )
        return load_configuration(self.config)

    def flow(self, name: str | None) -> FlowSettings:
        """The flow called ``name``; without a name the only flow of the file. Raises :class:`ConfigError`."""
        configuration = self.configuration()
        if name is not None:
            return configuration.flow(name)
        enabled: list[FlowName] = [flow.name for flow in configuration.enabled_flows] + list(configuration.faults)
        if len(enabled) == 1:
            return configuration.flow(enabled[0])
        listed = ", ".join(f'"{flow}"' for flow in enabled)
        raise UnknownFlow(
            f"say which flow with --flow: {listed}" if enabled else "no flow is enabled", file=str(self.config)
        )

    def flow_now(self, name: str | None) -> EffectiveFilters:
        """The same flow as it runs now, with its edited lists; warns of edits that cannot take effect.

        Raises:
            ConfigError: as :meth:`flow`.
            AirflowError: an Airflow is named and does not respond.
            UnreachableCluster, AccessDenied, ClusterError: the target, which keeps the edits, cannot be read.
        """
        from srm_common.cli.filter_store import filter_store

        settings = self.flow(name)
        configuration = self.configuration()
        effective = filter_store(settings, (*configuration.flows, *configuration.faults)).effective()
        for fault in effective.faults:
            print(f"srm-control: warning: {fault}", file=sys.stderr)
        return effective


class Seconds(click.FloatRange):
    """A time to wait or to work, in seconds: at least ``minimum``, and not NaN, infinite or longer than a thread can
    wait."""

    def __init__(self, minimum: float = 0.0, maximum: float | None = None) -> None:
        super().__init__(minimum, maximum)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if not seconds <= threading.TIMEOUT_MAX:  # NaN is not, either
            self.fail(f"{value!r} is not a number of seconds to wait.", param, ctx)
        return seconds


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            setattr(context.ensure_object(Invocation), name, value)

    return keep


def _complete_flow(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        flows = context.ensure_object(Invocation).configuration().flows
    except SrmError:
        return []  # a broken file must not break the prompt; the command itself will say what is wrong
    return [CompletionItem(str(name)) for name in flows if str(name).startswith(incomplete)]


def config_option(command: F) -> F:
    """``--config FILE``, before or after the command's name."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        callback=_set("config"),
        expose_value=False,
        metavar="FILE",
        help="Configuration file, a folder of *.properties, or several separated as in PATH.  [default: $SRM_CONFIG "
        "or srm.properties]",
    )(command)


def output_option(command: F, forms: tuple[str, ...] = ("table", "json")) -> F:
    """``--output table|json``."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(forms),
        callback=_set("output"),
        expose_value=False,
        help="Output format.  [default: table]",
    )(command)


def rows_output_option(command: F) -> F:
    """``--output table|json|csv``, for commands whose answers have rows."""
    return output_option(command, ("table", "json", "csv"))


def flow_option(command: F) -> F:
    """``--flow "a->b"``, given to the command as ``flow`` (None: the only flow of the file)."""
    return click.option(
        "--flow",
        "-f",
        metavar='"SOURCE->TARGET"',
        shell_complete=_complete_flow,
        help="The flow; may be omitted if the file has only one.",
    )(command)


def given(option: str, values: Iterable[str]) -> tuple[str, ...]:
    """The names in an option, each once: of every time that it was given, and of lists with commas.

    Raises:
        ConfigError: it was given without a name. Left out, it means all; an empty variable of a script does not.
    """
    names: dict[str, None] = {}
    for value in values:
        pieces = [piece for piece in split_list(value) if piece]
        if not pieces:
            raise ConfigError(f"{option}: '{value}' names nothing; give a name, or leave {option} out")
        names.update(dict.fromkeys(pieces))
    return tuple(names)
