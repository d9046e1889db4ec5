"""``srm-control takeover``."""

from __future__ import annotations

import click
from rich.console import RenderableType

from srm_common.cli.commands.plan import plan_text
from srm_common.cli.handover_options import connect_names, mirror_maker_options, position_lines
from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer
from srm_common.domain.moving.handover import Takeover


@click.command("takeover")
@flow_option
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@mirror_maker_options
@click.option(
    "--watch",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the copies must not grow.",
)
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
    watch: float,
) -> Answer:
    """Take a flow over from MirrorMaker 2, or Streams Replication Manager, without a gap or a repetition.

    Stop MirrorMaker 2 for this flow first: its workers' group must have no members, and its copies must not grow. Its
    tasks are fenced then. Its stored offsets are held against the ends of both logs, by comparing the last records of
    each copy with the source; where it was killed before it could store its progress, the flow goes on behind what is
    copied. Its topics get records in srm-meta.internal, and the compared records become the first piece of the offset
    map. May be repeated.

    \b
    Exit codes: 0 the flow is taken over (with --dry-run: can be); 1 something speaks against it, and no offset was
    written; 2 the configuration is wrong; 3 a cluster cannot be reached; 4 a state topic cannot be believed;
    5 MirrorMaker 2, or a run, is at work.
    """
    from srm_common.usecases.mirror_maker.takeover import TakeoverRequest, take_over

    settings = invocation.flow_now(flow).flow
    names = connect_names(settings.name, group, connector, offsets_topic)
    found = take_over(settings, TakeoverRequest(names, compared, accept_unproved, watch), dry_run=dry_run)
    obstacles = found.obstacles
    return Answer({**found.to_json(), "dry_run": dry_run}, _text(found, dry_run), 1 if obstacles else 0)


def _text(found: Takeover, dry_run: bool) -> list[RenderableType]:
    text: list[RenderableType] = [*position_lines(found.positions), ""]
    text += [f"Left out: {topic}: {reason}" for topic, reason in found.left_out]
    text += map(str, found.results) if found.results else plan_text(found.plan)
    text.append("")
    if found.obstacles:
        head = "It could not be taken over" if dry_run else "Not taken over; no offset was written"
        text += [f"{found.flow}: {head}:", *(f"  {one}" for one in found.obstacles)]
    elif dry_run:
        text.append(f"{found.flow}: it can be taken over; nothing was changed")
    else:
        text.append(
            f"{found.flow}: taken over. Enable its DAG, and do not start MirrorMaker 2 for it again without: "
            f"srm-control handback --flow '{found.flow}'"
        )
    return text
