"""``srm-control takeover`` and ``srm-control handback``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import click
from rich.console import RenderableType

from srm_common.cli.commands.plan import plan_text
from srm_common.cli.invocation import Invocation, Seconds, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowName
from srm_common.domain.flow.names import ConnectNames
from srm_common.domain.moving.handover import Handback, HandoverPosition, Takeover, Verdict, counted_verdicts

F = TypeVar("F", bound=Callable[..., Any])
#: Partitions whose positions agree with the logs are listed up to this many; the others always are.
_LISTED = 50


def mirror_maker_options(command: F) -> F:
    """The options of both commands; some name a MirrorMaker 2 that runs in a Connect cluster."""
    options = (
        click.option(
            "--connect-group",
            "group",
            metavar="G",
            help="The Connect workers' group, where MirrorMaker 2 runs in a Connect cluster.  [default: SOURCE-mm2]",
        ),
        click.option(
            "--connector",
            metavar="NAME",
            help="The source connector's name there.  [default: MirrorSourceConnector]",
        ),
        click.option(
            "--offsets-topic",
            metavar="TOPIC",
            help="Where those workers keep source offsets.  [default: mm2-offsets.SOURCE.internal]",
        ),
        click.option(
            "--compare",
            "compared",
            type=click.IntRange(1, 10_000),
            default=100,
            show_default=True,
            metavar="N",
            help="Records of each copy's end to compare with the source.",
        ),
        click.option(
            "--accept-unproved",
            is_flag=True,
            help="Continue from the stored offsets even where the logs contradict them.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def connect_names(flow: FlowName, group: str | None, connector: str | None, offsets_topic: str | None) -> ConnectNames:
    """The given names, and for the others those of a dedicated MirrorMaker 2."""
    usual = ConnectNames.dedicated(flow)
    return ConnectNames(group or usual.group, connector or usual.connector, offsets_topic or usual.offsets_topic)


def position_lines(positions: Iterable[HandoverPosition]) -> list[RenderableType]:
    """The positions for people, doubtful ones first."""
    handover_positions = sorted(positions, key=lambda one: (list(Verdict)[::-1].index(one.verdict), one.place))
    usual = [position for position in handover_positions if position.verdict is Verdict.PROVED]
    listed = [position for position in handover_positions if position.verdict is not Verdict.PROVED] + usual[:_LISTED]
    if not listed:
        return ["No partition has been copied yet."]
    rows = [
        [position.topic, position.partition, position.stored, position.position, str(position.verdict), position.proof]
        for position in listed
    ]
    lines: list[RenderableType] = [table(["TOPIC", "PARTITION", "STORED", "GOES ON AT", "VERDICT", "WHY"], rows)]
    if len(usual) > _LISTED:
        lines.append(f"... and {len(usual) - _LISTED} more that are proved; --output json lists all")
    return [*lines, f"Partitions: {counted_verdicts(handover_positions)}"]


@click.command("takeover")
@flow_option
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@mirror_maker_options
@click.option(
    "--watch",
    type=Seconds(),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the copies must not grow.",
)
@config_option
@output_option
@pass_invocation
def takeover_command(
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

    Stop MirrorMaker 2 for this flow first: a dedicated one must have no workers left, and the copies must not grow. Its
    tasks are then fenced. Its stored offsets are checked against the ends of both logs, by comparing the last records
    of each copy with the source; if it was killed before it could store its progress, the flow continues after what is
    copied. Its topics get records in srm-meta.internal, and the compared records become the first segment of the offset
    map. May be repeated.

    \b
    Exit codes: 0 the flow is taken over (with --dry-run: can be); 1 it cannot be taken over, and no offset was
    written; 2 the configuration is invalid; 3 a cluster cannot be reached; 4 a state topic is not trustworthy;
    5 MirrorMaker 2, or a run, is active.
    """
    from srm_common.usecases.mirror_maker.takeover import TakeoverRequest, take_over

    settings = invocation.flow_now(flow).flow
    names = connect_names(settings.name, group, connector, offsets_topic)
    takeover = take_over(settings, TakeoverRequest(names, compared, accept_unproved, watch), dry_run=dry_run)
    obstacles = takeover.obstacles
    return Answer({**takeover.to_json(), "dry_run": dry_run}, _takeover_text(takeover, dry_run), 1 if obstacles else 0)


def _takeover_text(found: Takeover, dry_run: bool) -> list[RenderableType]:
    text: list[RenderableType] = [*position_lines(found.positions), ""]
    text += [f"Left out: {topic}: {reason}" for topic, reason in found.left_out]
    text += map(str, found.results) if found.results else plan_text(found.plan)
    then = (
        f"Enable its DAG, and do not start MirrorMaker 2 for it again without: srm-control handback --flow "
        f"'{found.flow}'"
    )
    return [*text, "", *_outcome(found, dry_run, "taken over", then)]


def _outcome(found: Takeover | Handback, dry_run: bool, done: str, then: str) -> Iterator[str]:
    """What came of it; ``then`` is what to do after it is ``done``."""
    if found.obstacles:
        head = f"it could not be {done}" if dry_run else f"not {done}; no offset was written"
        yield f"{found.flow}: {head}:"
        yield from (f"  {obstacle}" for obstacle in found.obstacles)
    elif dry_run:
        yield f"{found.flow}: it can be {done}; nothing was changed"
    else:
        yield f"{found.flow}: {done}. {then}"


@click.command("handback")
@flow_option
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@mirror_maker_options
@config_option
@output_option
@pass_invocation
def handback_command(
    invocation: Invocation,
    flow: str | None,
    dry_run: bool,
    group: str | None,
    connector: str | None,
    offsets_topic: str | None,
    compared: int,
    accept_unproved: bool,
) -> Answer:
    """Hand a flow back to MirrorMaker 2, with or without exactly-once support.

    Pause the flow's DAG first and wait for the end of its run. The flow is fenced, so that no transaction is open;
    committed offsets are checked against the ends of both logs, and rewritten where MirrorMaker 2 would believe one of
    an aborted transaction; start positions that are not committed yet are committed; offset syncs and checkpoints are
    brought up to date. May be repeated.

    \b
    Exit codes: 0 MirrorMaker 2 can be started (with --dry-run: it could be handed back); 1 it cannot be handed back,
    and no offset was written; 2 the configuration is invalid; 3 a cluster cannot be reached; 4 a state topic is not
    trustworthy; 5 a run, or MirrorMaker 2, is active.
    """
    from srm_common.usecases.mirror_maker.handback import HandbackRequest, hand_back

    settings = invocation.flow_now(flow).flow
    names = connect_names(settings.name, group, connector, offsets_topic)
    handback = hand_back(settings, HandbackRequest(names, compared, accept_unproved), dry_run=dry_run)
    return Answer(
        {**handback.to_json(), "dry_run": dry_run}, _handback_text(handback, dry_run), 1 if handback.obstacles else 0
    )


def _handback_text(found: Handback, dry_run: bool) -> list[RenderableType]:
    done = "would be written" if dry_run else "written" if found.written else "not written"
    text: list[RenderableType] = [*position_lines(found.positions), ""]
    text.append(f"{counted(found.rewritten, 'committed offset')} {done} once more, after those of aborted transactions")
    text.append(f"{counted(found.offsets, 'other offset')} {done}")
    if found.checkpoints:
        text.append(found.checkpoints)
    then = "Start MirrorMaker 2 with the same aliases and policy, and keep the flow's DAG paused, or disable the flow."
    return [*text, "", *_outcome(found, dry_run, "handed back", then)]
