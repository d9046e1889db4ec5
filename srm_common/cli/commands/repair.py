"""``srm-control repair``."""

from __future__ import annotations

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table


@click.command("repair")
@flow_option
@click.option("--dry-run", is_flag=True, help="Print what would be written, and change nothing.")
@config_option
@output_option
@pass_invocation
def command(invocation: Invocation, flow: str | None, dry_run: bool) -> Answer:
    """Write lost source offsets again, as the offset map and the copies prove them.

    For a flow that refuses to start because its mm2-offsets topic has lost its records. The flow is fenced first;
    positions that exist are left alone.
    """
    from srm_common.usecases.offsets.repair_offsets import repair_offsets

    settings = invocation.flow(flow)
    actions = repair_offsets(settings, dry_run=dry_run)
    unproved = sum(action.next_offset is None for action in actions)
    done = "would be written" if dry_run else "written"
    text: list[RenderableType] = [
        f"{settings.name}: {len(actions) - unproved} source offsets {done}, {unproved} cannot be proved"
    ]
    if actions:
        rows = [[action.topic, action.partition, action.next_offset, action.proof] for action in actions]
        text += ["", table(["TOPIC", "PARTITION", "NEXT OFFSET", "PROOF"], rows)]
    if unproved:
        text.append(
            "The next run copies what cannot be proved from its start again, behind what is there: exclude those "
            "topics first, or delete their copies."
        )
    if not actions:
        text.append("Nothing to do: every partition of the map has a position.")
    data = {
        "flow": str(settings.name),
        "dry_run": dry_run,
        "actions": [action.to_json() for action in actions],
    }
    return Answer(data, text, 1 if unproved else 0)
