"""What ``srm-control takeover`` and ``handback`` have in common: whose flow it is, and how positions are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from rich.console import RenderableType

from srm_common.cli.output import table
from srm_common.domain.flow import FlowName
from srm_common.domain.flow.names import ConnectNames
from srm_common.domain.moving.handover import HandoverPosition, Verdict, counted_verdicts

F = TypeVar("F", bound=Callable[..., Any])
#: Partitions whose positions agree with the logs are listed up to this many; the others always are.
_LISTED = 50


def mirror_maker_options(command: F) -> F:
    """Among them what names a MirrorMaker 2 that runs in a Connect cluster."""
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
            help="Go on from the stored offsets also where the logs do not agree with them.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def connect_names(flow: FlowName, group: str | None, connector: str | None, offsets_topic: str | None) -> ConnectNames:
    """The names given, and those of a dedicated MirrorMaker 2 for the others."""
    usual = ConnectNames.dedicated(flow)
    return ConnectNames(group or usual.group, connector or usual.connector, offsets_topic or usual.offsets_topic)


def position_lines(positions: Iterable[HandoverPosition]) -> list[RenderableType]:
    """The positions for people, doubtful ones first."""
    found = sorted(positions, key=lambda one: (list(Verdict)[::-1].index(one.verdict), one.place))
    usual = [one for one in found if one.verdict is Verdict.PROVED]
    listed = [one for one in found if one.verdict is not Verdict.PROVED] + usual[:_LISTED]
    if not listed:
        return ["No partition has been copied yet."]
    rows = [[one.topic, one.partition, one.stored, one.position, str(one.verdict), one.proof] for one in listed]
    lines: list[RenderableType] = [table(["TOPIC", "PARTITION", "STORED", "GOES ON AT", "VERDICT", "WHY"], rows)]
    if len(usual) > _LISTED:
        lines.append(f"... and {len(usual) - _LISTED} more that are proved; --output json lists all")
    return [*lines, f"Partitions: {counted_verdicts(found)}"]
