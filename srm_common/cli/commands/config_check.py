"""``srm-control config check``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from srm_common.cli.invocation import Invocation, config_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.errors import ConfigError
from srm_common.settings_files.checks import findings
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.findings import Finding, Severity


@click.command("check")
@click.option("--without-airflow", is_flag=True, help="Do not look for the Airflow connections that clusters name.")
@config_option
@output_option
@pass_invocation
def command(invocation: Invocation, without_airflow: bool) -> Answer:
    """Print every fault of the file, and every key that does nothing.

    A fault stops a flow, or everything, and makes the exit code 2. A warning is probably not what was meant: an unknown
    key, a key at a level it does not have, flows that do not fit together. A note explains.
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
        [table(["", "WHERE", "KEY", "WHAT"], rows), "", f"{head}; {summary}"] if rows else f"{head}; nothing to say",
        exit_code=ConfigError.exit_code if counted[Severity.FAULT] else 0,
    )


def _short(place: str, folder: Path) -> str:
    return place.removeprefix(f"{folder}/")
