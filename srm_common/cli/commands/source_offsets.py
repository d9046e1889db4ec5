"""``srm-control source-offsets``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, given, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.cli.text_files import read_text
from srm_common.domain.flow.start_position import OF_EDITS, StartPosition
from srm_common.domain.offsets.offset_edits import OffsetEdit, parse_offsets_file
from srm_common.domain.patterns.name_filter import check_patterns, split_list
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ConfigError

if TYPE_CHECKING:
    from srm_common.usecases.offsets.edit_source_offsets import Request


def _expressions(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    patterns = given("--topic", [value])
    fault = check_patterns(patterns)
    if fault is not None:
        raise ConfigError(f"--topic: {fault}")
    return patterns


def _numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    if value is None:
        return ()
    pieces = split_list(value)
    if not pieces or not all(piece.isascii() and piece.isdecimal() for piece in pieces):
        raise ConfigError(f"--partition: '{value}' is neither a number nor several, separated by commas")
    return tuple(map(int, pieces))


_topic = click.option(
    "--topic",
    "topics",
    callback=_expressions,
    metavar="A,B.*",
    help="Source topics: expressions that match the whole name.",
)
_partition = click.option("--partition", "partitions", callback=_numbers, metavar="N,M", help="Only these partitions.")
_dry_run = click.option("--dry-run", is_flag=True, help="Print what would be changed, and change nothing.")


@click.group("source-offsets")
@config_option
@output_option
def source_offsets_command() -> None:
    """List and move how far a flow has copied each partition of its source.

    Offsets are the next ones to copy. Moving one needs a flow that is not running: pause its DAG first. Every change is
    one transaction, and goes into the history in srm-control.internal.
    """


@source_offsets_command.command("list")
@flow_option
@_topic
@_partition
@config_option
@output_option
@pass_invocation
def list_command(
    invocation: Invocation, flow: str | None, topics: tuple[str, ...], partitions: tuple[int, ...]
) -> Answer:
    """Print the committed offsets, the source's logs and the lag. Also while the flow is running."""
    from srm_common.domain.patterns.name_filter import PatternList
    from srm_common.usecases.offsets.source_offsets import list_source_offsets

    settings = invocation.flow(flow)
    wanted = PatternList(topics)
    listed = [
        offset
        for offset in list_source_offsets(settings)
        if (not topics or wanted.matching(offset.topic) is not None)
        and (not partitions or offset.partition in partitions)
    ]
    rows = [
        [
            offset.topic,
            offset.partition,
            offset.offset,
            offset.log and offset.log.start,
            offset.log and offset.log.end,
            offset.lag,
            offset.note,
        ]
        for offset in listed
    ]
    columns = ["TOPIC", "PARTITION", "OFFSET", "LOG START", "LOG END", "LAG", "NOTE"]
    return Answer(
        {"flow": str(settings.name), "offsets": [offset.to_json() for offset in listed]},
        [table(columns, rows)] if rows else f"{settings.name} has a position in no such partition.",
    )


@source_offsets_command.command("set")
@flow_option
@_topic
@_partition
@click.option("--offset", type=click.IntRange(min=0), metavar="N", help="The next offset to copy.")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Many at once: CSV with topic,partition,offset, or JSON as list prints it.",
)
@_dry_run
@config_option
@output_option
@pass_invocation
def set_command(
    invocation: Invocation,
    flow: str | None,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    offset: int | None,
    file: Path | None,
    dry_run: bool,
) -> Answer:
    """Move partitions to offsets: --topic T --partition N --offset O, or --file FILE."""
    from srm_common.usecases.offsets.edit_source_offsets import Request

    if file is not None:
        if topics or partitions or offset is not None:
            raise ConfigError("--file contains everything: omit --topic, --partition and --offset")
        offsets = parse_offsets_file(read_text(file, "file"), str(file))
    else:
        if len(topics) != 1 or not partitions or offset is None:
            raise ConfigError("give --topic T --partition N --offset O, or --file FILE")
        # Here the topic is a name, not an expression.
        offsets = {TopicPartition(topics[0], number): offset for number in partitions}
    return _edit(invocation, flow, Request("set", offsets=offsets), dry_run)


@source_offsets_command.command("reset")
@flow_option
@_topic
@_partition
@click.option(
    "--to",
    required=True,
    metavar="WHERE",
    help="earliest, latest, timestamp:<milliseconds or ISO 8601>, or opposite: after what the flow in the other "
    "direction copied into the topic.",
)
@_dry_run
@config_option
@output_option
@pass_invocation
def reset_command(
    invocation: Invocation,
    flow: str | None,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    to: str,
    dry_run: bool,
) -> Answer:
    """Move all partitions of topics to a position; --topic '.*' is everything that the flow copies."""
    from srm_common.usecases.offsets.edit_source_offsets import Request

    where = StartPosition.parse(to, OF_EDITS)
    return _edit(invocation, flow, Request("reset", topics=_some(topics), partitions=partitions, to=where), dry_run)


@source_offsets_command.command("delete")
@flow_option
@_topic
@_partition
@_dry_run
@config_option
@output_option
@pass_invocation
def delete_command(
    invocation: Invocation, flow: str | None, topics: tuple[str, ...], partitions: tuple[int, ...], dry_run: bool
) -> Answer:
    """Delete positions: the next run starts these like partitions without progress."""
    from srm_common.usecases.offsets.edit_source_offsets import Request

    return _edit(invocation, flow, Request("delete", topics=_some(topics), partitions=partitions), dry_run)


def _some(topics: tuple[str, ...]) -> tuple[str, ...]:
    if not topics:
        raise ConfigError("say which topics with --topic; '.*' is all of them")
    return topics


def _edit(invocation: Invocation, flow: str | None, request: Request, dry_run: bool) -> Answer:
    from srm_common.usecases.offsets.edit_source_offsets import edit_source_offsets

    settings = invocation.flow(flow)
    edits = edit_source_offsets(settings, request, dry_run=dry_run)
    problems = [edit for edit in edits if edit.problem is not None]
    changed = [edit for edit in edits if edit.changes]
    written = not problems and not dry_run
    data: dict[str, Any] = {
        "flow": str(settings.name),
        "dry_run": dry_run,
        "written": written,
        "edits": [edit.to_json() for edit in edits],
    }
    rows = [_row(edit) for edit in [*problems, *(edit for edit in edits if edit.problem is None)]]
    text: list[RenderableType] = [table(["TOPIC", "PARTITION", "BEFORE", "AFTER", "EFFECT"], rows), ""]
    if problems:
        text.append(f"{settings.name}: nothing was written: {len(problems)} of {len(edits)} partitions cannot be moved")
    elif dry_run:
        text.append(f"{settings.name}: {len(changed)} of {len(edits)} offsets would be changed")
    else:
        text.append(f"{settings.name}: {len(changed)} of {len(edits)} offsets changed")
        if not settings.exactly_once and changed:
            text.append("The flow copies at least once, so nothing could be fenced: make sure that no run was active.")
    return Answer(data, text, 1 if problems else 0)


def _row(edit: OffsetEdit) -> list[object]:
    return [edit.topic, edit.partition, edit.before, edit.after, edit.effect]
