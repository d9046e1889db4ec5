"""``srm-control config``: check, explain, show and convert."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import click
from click.shell_completion import CompletionItem
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.filters.flow_filters import variable_name
from srm_common.domain.flow import FlowName
from srm_common.domain.settings.table import KEYS
from srm_common.errors import ConfigError, UnknownFlow
from srm_common.settings_files.checks import findings
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.connections.client_keys import CONNECTION_KEYS
from srm_common.settings_files.conversion.conversion import Tool, convert
from srm_common.settings_files.explanations import Explainer, texts
from srm_common.settings_files.findings import Finding, Severity


def flow_name(configuration: Configuration, asked: str | None) -> FlowName:
    """The flow asked for, or the only one of the file. Raises :class:`ConfigError`."""
    if asked is None:
        names = [flow.name for flow in configuration.enabled_flows] + list(configuration.faults)
        if len(names) != 1:
            listed = ", ".join(f'"{name}"' for name in names)
            raise UnknownFlow(
                f"say which flow with --flow: {listed}" if names else "no flow is enabled",
                file=str(configuration.path),
            )
        asked = str(names[0])
    name = FlowName.parse(asked)
    if name not in configuration.faults or not {name.source, name.target} <= set(configuration.layers.aliases):
        configuration.flow(name)  # raises when there is no such flow
    return name


@click.command("check")
@click.option("--without-airflow", is_flag=True, help="Do not look for the Airflow connections that clusters name.")
@config_option
@output_option
@pass_invocation
def config_check_command(invocation: Invocation, without_airflow: bool) -> Answer:
    """Print every error in the file, and every key without effect.

    An error stops a flow, or everything, and sets the exit code to 2. A warning is probably a mistake: an unknown key,
    a key at a level it does not have, flows that conflict. A note explains.
    """
    configuration: Configuration | None = None
    try:
        configuration = (
            load_configuration(invocation.config, connections=None) if without_airflow else invocation.configuration()
        )
        found: tuple[Finding, ...] = findings(configuration)
    except ConfigError as error:
        found = (Finding.fault(error),)
    counted = Counter(finding.severity for finding in found)
    flows = [str(flow.name) for flow in configuration.enabled_flows] if configuration else []
    data = {
        "config": str(invocation.config),
        "flows": flows,
        "findings": [finding.to_json() for finding in found],
    }
    folder = Path.cwd()
    rows = [[finding.severity, _short(finding.place, folder), finding.key, finding.text] for finding in found]
    summary = ", ".join(
        f"{counted[severity]} {severity}{'' if counted[severity] == 1 else 's'}"
        for severity in Severity
        if counted[severity]
    )
    enabled = f"enabled: {', '.join(flows)}" if flows else "no flow is enabled"
    head = f"{invocation.config}: {enabled}"
    return Answer(
        data,
        [table(["", "WHERE", "KEY", "WHAT"], rows), "", f"{head}; {summary}"] if rows else f"{head}; no findings",
        exit_code=ConfigError.exit_code if counted[Severity.FAULT] else 0,
    )


def _short(place: str, folder: Path) -> str:
    return place.removeprefix(f"{folder}/")


def _complete_key(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = sorted({key.name for key in KEYS if not key.is_family} | CONNECTION_KEYS)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command("explain", short_help="Print where a key's value comes from, what it overrides and what it means.")
@click.argument("key", shell_complete=_complete_key)
@flow_option
@config_option
@output_option
@pass_invocation
def config_explain_command(invocation: Invocation, key: str, flow: str | None) -> Answer:
    """Print where the value of KEY comes from, what it overrides and what it means.

    KEY has no prefix. For a connection setting, such as security.protocol, both sides are shown. Secrets are masked.
    """
    configuration = invocation.configuration()
    name = flow_name(configuration, flow)
    explanations = Explainer(configuration, name).explain(key)
    parts: list[RenderableType] = []
    for explanation in explanations:
        side = f" ({explanation.place})" if explanation.place else ""
        value = "" if explanation.value is None else f" = {explanation.value}"
        parts.append(f"{name}{side}: {explanation.name}{value}")
        parts += [f"  {what:<17} {text}" for what, text in texts(explanation)]
    return Answer({"flow": str(name), "explanations": [explanation.to_json() for explanation in explanations]}, parts)


@click.command("show")
@flow_option
@click.option("--written", is_flag=True, help="Leave out keys that are at their default.")
@config_option
@output_option
@pass_invocation
def config_show_command(invocation: Invocation, flow: str | None, written: bool) -> Answer:
    """Print all effective values of a flow, with their origins. Secrets are masked."""
    configuration = invocation.configuration()
    name = flow_name(configuration, flow)
    explanations = [
        explanation
        for explanation in Explainer(configuration, name).everything()
        if explanation.origin is not None or not written
    ]
    rows = [
        [
            f"{explanation.place}: {explanation.name}" if explanation.place else explanation.name,
            explanation.value,
            explanation.origin.written if explanation.origin else "default",
            explanation.origin.place if explanation.origin else "",
        ]
        for explanation in explanations
    ]
    notes = [
        "",
        f"topics, topics.exclude, groups and groups.exclude are those of the file; edits of the Airflow variable "
        f"{variable_name(name)} take precedence (srm-control topics --flow '{name}' --list).",
    ]
    fault = configuration.faults.get(name)
    if fault is not None:
        notes.append(f"The flow is stopped: {fault}")
    return Answer(
        {
            "flow": str(name),
            "fault": str(fault) if fault else None,
            "values": [explanation.to_json() for explanation in explanations],
        },
        [table(["KEY", "VALUE", "FROM", "WHERE"], rows), *notes],
    )


@click.command(
    "convert", short_help="Make a properties file from a configuration of MirrorMaker 2, SRM, Strimzi or Connect."
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "tool",
    type=click.Choice([tool.value for tool in Tool]),
    help="Format of the configuration.  [default: detected]",
)
@click.option("--to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the file there.")
@output_option
def config_convert_command(file: Path, tool: str | None, to: Path | None) -> Answer:
    """Convert the configuration in FILE to a properties file.

    FILE is an mm2.properties of MirrorMaker 2, the service properties of Streams Replication Manager, the YAML of a
    KafkaMirrorMaker2 or of KafkaConnector resources of Strimzi, or MirrorMaker 2's connectors as Connect's REST API
    accepts and returns them (JSON, for example from GET /connectors?expand=info&expand=status). Keys without effect
    here become comments with the reason. Secrets are not copied: they are replaced by references to environment
    variables, which are listed at the top of the file.
    """
    made = convert(file, Tool(tool) if tool else None)
    data = {
        "from": made.tool.value,
        "to": str(to) if to else None,
        "text": made.text,
        "lost": list(made.lost),
        "variables": dict(made.variables),
    }
    if to is None:
        return Answer(data, made.text.rstrip("\n"))
    _write(to, made.text)
    lines = [f"wrote {to}"]
    lines += [f"not carried over: {sentence}" for sentence in made.lost]
    lines += [f"set {name}: {holds}" for name, holds in made.variables]
    lines.append(f"Check it with: srm-control config check --config {to}")
    return Answer(data, "\n".join(lines))


def _write(path: Path, text: str) -> None:
    try:
        # Never overwrite a file that was written by hand.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    except FileExistsError:
        raise ConfigError("already exists; name another file with --to", file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


@click.group("config")
@config_option
@output_option
def config_command() -> None:
    """Look at the configuration, and make one from that of another tool. Connects to no cluster."""


for _command in (config_check_command, config_explain_command, config_show_command, config_convert_command):
    config_command.add_command(_command)
