"""``srm-control handback``."""

from __future__ import annotations

import click
from rich.console import RenderableType

from srm_common.cli.handover_options import connect_names, mirror_maker_options, position_lines
from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer
from srm_common.domain.amount import counted
from srm_common.domain.moving.handover import Handback


@click.command("handback")
@flow_option
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@mirror_maker_options
@config_option
@output_option
@pass_invocation
def command(
    invocation: Invocation,
    flow: str | None,
    dry_run: bool,
    group: str | None,
    connector: str | None,
    offsets_topic: str | None,
    compared: int,
    accept_unproved: bool,
) -> Answer:
    """Leave a flow so that MirrorMaker 2 goes on, with exactly-once support or without it.

    Pause the flow's DAG first and wait for the end of its run. The flow is fenced, so that nothing is open; committed
    offsets are held against the ends of both logs, and written once more where MirrorMaker 2 would believe one of an
    aborted transaction; starting points that are not committed yet are committed; offset syncs and checkpoints are
    brought up to date. May be repeated.

    \b
    Exit codes: 0 MirrorMaker 2 can be started (with --dry-run: could be handed to it); 1 something speaks against it,
    and no offset was written; 2 the configuration is wrong; 3 a cluster cannot be reached; 4 a state topic cannot be
    believed; 5 a run, or MirrorMaker 2, is at work.
    """
    from srm_common.usecases.mirror_maker.handback import HandbackRequest, hand_back

    settings = invocation.flow_now(flow).flow
    names = connect_names(settings.name, group, connector, offsets_topic)
    found = hand_back(settings, HandbackRequest(names, compared, accept_unproved), dry_run=dry_run)
    return Answer({**found.to_json(), "dry_run": dry_run}, _text(found, dry_run), 1 if found.obstacles else 0)


def _text(found: Handback, dry_run: bool) -> list[RenderableType]:
    done = "would be written" if dry_run else "written" if found.written else "not written"
    text: list[RenderableType] = [*position_lines(found.positions), ""]
    text.append(
        f"{counted(found.rewritten, 'committed offset')} {done} once more, behind those of aborted transactions"
    )
    text.append(f"{counted(found.offsets, 'other offset')} {done}")
    if found.checkpoints:
        text.append(found.checkpoints)
    text.append("")
    if found.obstacles:
        head = "It could not be handed back" if dry_run else "Not handed back; no offset was written"
        text += [f"{found.flow}: {head}:", *(f"  {one}" for one in found.obstacles)]
    elif dry_run:
        text.append(f"{found.flow}: it can be handed back; nothing was changed")
    else:
        text.append(
            f"{found.flow}: handed back. Start MirrorMaker 2 with the same aliases and policy, and keep the flow's DAG "
            f"paused, or disable the flow."
        )
    return text
