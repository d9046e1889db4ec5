"""``srm-control config show``."""

from __future__ import annotations

import click

from srm_common.cli.commands.config_flow import flow_name
from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.filters.flow_filters import variable_name
from srm_common.settings_files.explanations import Explainer


@click.command("show")
@flow_option
@click.option("--written", is_flag=True, help="Leave out keys that are at their default.")
@config_option
@output_option
@pass_invocation
def command(invocation: Invocation, flow: str | None, written: bool) -> Answer:
    """Print all effective values of a flow, with their origins. Secrets are masked."""
    configuration = invocation.configuration()
    name = flow_name(configuration, flow)
    found = [
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
        for explanation in found
    ]
    notes = [
        "",
        f"topics, topics.exclude, groups and groups.exclude are those of the file; edits of the Airflow variable "
        f"{variable_name(name)} go before them (srm-control topics --flow '{name}' --list).",
    ]
    fault = configuration.faults.get(name)
    if fault is not None:
        notes.append(f"The flow is stopped: {fault}")
    return Answer(
        {
            "flow": str(name),
            "fault": str(fault) if fault else None,
            "values": [explanation.to_json() for explanation in found],
        },
        [table(["KEY", "VALUE", "FROM", "WHERE"], rows), *notes],
    )
