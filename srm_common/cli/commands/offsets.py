"""``srm-control offsets`` and ``srm-control offsets apply``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import RenderableType

from srm_common.cli.flow_choice import ChosenFlow, ClientOverrides, chosen_flow, client_options, flow_choice_options
from srm_common.cli.invocation import (
    Invocation,
    config_option,
    given,
    output_option,
    pass_invocation,
    rows_output_option,
)
from srm_common.cli.output import Answer, table
from srm_common.cli.text_files import read_text, write_text
from srm_common.domain.amount import duration
from srm_common.domain.flow import FlowSettings
from srm_common.domain.groups.group_offsets import AppliedOffset, GroupOffset, parse_group_offsets, write_group_offsets
from srm_common.errors import AirflowError, ConfigError

if TYPE_CHECKING:
    from srm_common.usecases.groups.explain_offsets import ExportedOffsets


F = TypeVar("F", bound=Callable[..., Any])


def group_options(command: F) -> F:
    """``--group`` and ``--all-groups``, given to the command as ``groups`` and ``all_groups``."""
    command = click.option("--all-groups", is_flag=True, help="All groups that have checkpoints.")(command)
    return click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="G",
        help="The consumer group; several as a,b, or by repeating the option.",
    )(command)


def wanted_groups(groups: Sequence[str], all_groups: bool) -> tuple[str, ...]:
    """The names in ``--group``, each once. Raises :class:`ConfigError`."""
    wanted = given("--group", groups)
    if wanted and all_groups:
        raise ConfigError("--group and --all-groups exclude each other")
    return wanted


@click.command("apply")
@flow_choice_options
@group_options
@click.option(
    "--from-file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Set the offsets in this file, in the format of --export, instead of the newest checkpoints.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be set, and change nothing.")
@click.option("--rewind", is_flag=True, help="Also move groups back that are further ahead.")
@client_options
@config_option
@output_option
@pass_invocation
def offsets_apply_command(
    invocation: Invocation,
    /,
    groups: tuple[str, ...],
    all_groups: bool,
    file: Path | None,
    dry_run: bool,
    rewind: bool,
    flow: str | None,
    source: str | None,
    target: str | None,
    **clients: Any,
) -> Answer:
    """Set the offsets of groups on the target: those of the newest checkpoints, or of a file.

    \b
      srm-control offsets apply --flow "a->b" --group g --dry-run
      srm-control offsets apply --flow "a->b" --all-groups
      srm-control offsets apply --flow "a->b" --group g --from-file offsets.csv

    The groups must have no members there. Nothing is set if a single line cannot be: a topic, partition or offset that
    does not exist, a group in use. Afterwards every offset is read back and compared. The source is not queried.
    """
    from srm_common.usecases.groups.apply_offsets import apply_offsets

    wanted = wanted_groups(groups, all_groups)
    overrides = ClientOverrides(
        clients["bootstrap_servers"], clients["props"], clients["producer_props"], clients["consumer_props"]
    )
    chosen = chosen_flow(invocation, flow, source, target, overrides)
    if file is not None:
        offsets = parse_group_offsets(read_text(file, "file"), str(file), wanted)
    elif wanted or all_groups:
        offsets = _of_checkpoints(chosen.settings, None if all_groups else wanted)
    else:
        raise ConfigError("say which group with --group G, or --all-groups")
    cluster = chosen.writes_to or chosen.settings.target
    applied = apply_offsets(cluster, offsets, dry_run=dry_run, rewind=rewind)
    return _answer(chosen.settings, applied, dry_run)


def _of_checkpoints(flow: FlowSettings, wanted: Sequence[str] | None) -> list[GroupOffset]:
    from srm_common.usecases.groups.explain_offsets import export_offsets

    checkpoints = [offset.checkpoint for offset in export_offsets(flow, wanted).offsets]
    known = {checkpoint.group for checkpoint in checkpoints}
    missing = [group for group in wanted or () if group not in known]
    if missing or not checkpoints:
        what = f"group {missing[0]} has no checkpoint" if missing else "there is no checkpoint"
        raise ConfigError(
            f"{what} of flow {flow.name} on cluster '{flow.target.alias}', so nothing was set; "
            f"srm-control offsets says why"
        )
    return [
        GroupOffset(
            checkpoint.group, checkpoint.topic, checkpoint.partition, checkpoint.downstream, checkpoint.metadata
        )
        for checkpoint in checkpoints
    ]


def _answer(flow: FlowSettings, applied: Sequence[AppliedOffset], dry_run: bool) -> Answer:
    problems = [offset for offset in applied if offset.problem is not None]
    # There is nothing to verify unless something was written.
    written = any(offset.after is not None for offset in applied)
    changed = sum(offset.changes for offset in applied)
    rows = [
        [
            problem.wanted.group,
            problem.wanted.topic,
            problem.wanted.partition,
            problem.before,
            problem.wanted.offset,
            problem.effect,
        ]
        for problem in [*problems, *(offset for offset in applied if offset.problem is None)]
    ]
    where = f"{flow.name}: on cluster '{flow.target.alias}'"
    if problems and not written:
        verdict = f"nothing was set: {len(problems)} of {len(applied)} offsets cannot be set"
    elif problems:
        verdict = f"{changed} of {len(applied)} offsets were set, {len(problems)} were not; fix these and run again"
    elif dry_run:
        verdict = f"{changed} of {len(applied)} offsets would be set"
    else:
        verdict = f"{changed} of {len(applied)} offsets were set, and read back correctly"
    text: list[RenderableType] = [
        table(["GROUP", "TOPIC", "PARTITION", "BEFORE", "NEW-OFFSET", "EFFECT"], rows),
        "",
        f"{where} {verdict}",
    ]
    data = {
        "flow": str(flow.name),
        "dry_run": dry_run,
        "written": written,
        "offsets": [offset.to_json() for offset in applied],
    }
    return Answer(data, text, 1 if problems else 0)


@click.group("offsets", invoke_without_command=True)
@flow_choice_options
@click.option("--export", "export", is_flag=True, help="Print lines for kafka-consumer-groups.sh --from-file.")
@group_options
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the lines to a file instead of standard output; it is created if it does not exist.",
)
@client_options
@config_option
@rows_output_option
@pass_invocation
@click.pass_context
def offsets_command(
    context: click.Context,
    invocation: Invocation,
    /,
    export: bool,
    groups: tuple[str, ...],
    all_groups: bool,
    to: Path | None,
    flow: str | None,
    source: str | None,
    target: str | None,
    **clients: Any,
) -> Answer | None:
    """Print where consumer groups of the source resume on the target; or set it, with apply.

    \b
      srm-control offsets --source a --target b --group g
      srm-control offsets --source a --target b --group g --export > offsets.csv
      kafka-consumer-groups.sh --bootstrap-server B --reset-offsets --group g --from-file offsets.csv --execute

    The first prints a table, with the reason for each position that has no translation. Lines of --export are
    topic,partition,offset for one group, group,topic,partition,offset for several. Topics have their names on the
    target. The offsets are those of the flow's checkpoints there, so both work while the source is down; their age is
    printed to standard error.
    """
    if context.invoked_subcommand is not None:
        return None
    wanted = wanted_groups(groups, all_groups)
    if not wanted and not all_groups:
        raise ConfigError("say which group with --group G, or --all-groups")
    overrides = ClientOverrides(clients["bootstrap_servers"], clients["props"], (), clients["consumer_props"])
    chosen = chosen_flow(invocation, flow, source, target, overrides)
    # With --output csv, too, the lines are printed: kafka-consumer-groups.sh takes no header.
    if not export and to is None and invocation.output != "csv":
        return _explained(invocation, chosen, wanted, all_groups)
    return _exported(invocation, chosen, wanted, all_groups, to)


offsets_command.add_command(offsets_apply_command)


def _exported(
    invocation: Invocation, chosen: ChosenFlow, wanted: Sequence[str], all_groups: bool, to: Path | None
) -> Answer:
    from srm_common.usecases.groups.explain_offsets import export_offsets

    settings = chosen.settings
    exported = export_offsets(settings, None if all_groups else wanted)
    checkpoints = [offset.checkpoint for offset in exported.offsets]
    one_group = len(wanted) == 1
    rows = [
        [*([] if one_group else [checkpoint.group]), checkpoint.topic, checkpoint.partition, checkpoint.downstream]
        for checkpoint in checkpoints
    ]
    missing = [group for group in wanted if group not in exported.written_ms]
    for group in missing:
        _say(f"group {group} has no checkpoint of flow {settings.name} on cluster '{settings.target.alias}'")
    _tell_age(exported)
    if to is not None and rows:
        offsets = [
            GroupOffset(checkpoint.group, checkpoint.topic, checkpoint.partition, checkpoint.downstream)
            for checkpoint in checkpoints
        ]
        write_text(to, write_group_offsets(offsets, one_group=one_group), "file")
    elif to is None and invocation.output == "table":
        invocation.output = "csv"
    data = {
        "flow": str(settings.name),
        "offsets": [
            {
                "group": offset.checkpoint.group,
                "topic": offset.checkpoint.topic,
                "partition": offset.checkpoint.partition,
                "offset": offset.checkpoint.downstream,
                "upstream_offset": offset.checkpoint.upstream,
                "written_ms": offset.written_ms,
            }
            for offset in exported.offsets
        ],
        "missing": missing,
        "unreadable": list(exported.unreadable),
    }
    text = f"Wrote {len(rows)} offsets to {to}" if rows else f"There are no offsets, so {to} was not written"
    return Answer(data, text, exit_code=1 if missing or not rows else 0, rows=rows if to is None else [])


def _explained(invocation: Invocation, chosen: ChosenFlow, wanted: Sequence[str], all_groups: bool) -> Answer:
    from srm_common.usecases.groups.explain_offsets import ExplainedOffsets, explain_offsets, export_offsets

    settings = chosen.settings
    groups = None if all_groups else wanted
    exported = export_offsets(settings, groups)
    if chosen.file:
        try:
            # The reasons are those of the lists as they are edited now.
            flow = replace(invocation.flow_now(str(settings.name)).flow, target=settings.target)
            explained = explain_offsets(flow, exported.offsets, groups)
        except AirflowError as error:
            explained = ExplainedOffsets.of(exported.offsets, f"reasons are unknown, because {error}")
    else:
        without_file = f"'{settings.name.source}' is not queried for reasons without a properties file"
        explained = ExplainedOffsets.of(exported.offsets, without_file)
    now_ms = time.time() * 1000
    rows = [
        [
            row.group,
            row.topic,
            row.partition,
            row.upstream,
            row.offset,
            None if row.written_ms is None else duration(now_ms - row.written_ms),
            row.remark,
        ]
        for row in explained.rows
    ]
    notes = [f"Note: {note}" for note in (*explained.notes, *exported.unreadable)]
    translated = {row.group for row in explained.rows if row.offset is not None}
    missing = [group for group in wanted if group not in translated]
    columns = ["GROUP", "TOPIC", "PARTITION", "COMMITTED AT SOURCE", "OFFSET", "AGE", "REMARK"]
    nothing = f"{settings.name} has no checkpoints of any group." if all_groups else "There are no checkpoints."
    return Answer(
        {
            "flow": str(settings.name),
            "offsets": [row.to_json() for row in explained.rows],
            "missing": missing,
            "notes": list(explained.notes),
            "unreadable": list(exported.unreadable),
        },
        [table(columns, rows) if rows else nothing, *notes],
        exit_code=1 if missing or not translated else 0,
    )


def _tell_age(exported: ExportedOffsets) -> None:
    for sentence in exported.unreadable:
        _say(sentence)
    now_ms = time.time() * 1000
    for group, (newest, oldest) in sorted(exported.written_ms.items()):
        _say(f"group {group}: checkpoints written {duration(now_ms - newest)} to {duration(now_ms - oldest)} ago")


def _say(sentence: str) -> None:
    print(f"srm-control: {sentence}", file=sys.stderr)
