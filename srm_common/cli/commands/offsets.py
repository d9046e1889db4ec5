"""``srm-control offsets``: print where groups go on, as Kafka's own tool takes it or with reasons."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from srm_common.cli.client_overrides import ClientOverrides, client_options
from srm_common.cli.commands.offsets_apply import command as apply_command
from srm_common.cli.commands.offsets_apply import group_options, wanted_groups
from srm_common.cli.flow_choice import ChosenFlow, chosen_flow, flow_choice_options
from srm_common.cli.invocation import Invocation, config_option, pass_invocation, rows_output_option
from srm_common.cli.output import Answer, table
from srm_common.domain.amount import duration
from srm_common.domain.groups.group_offsets import GroupOffset, write_group_offsets
from srm_common.errors import AirflowError, ConfigError

if TYPE_CHECKING:
    from srm_common.usecases.groups.export_offsets import ExportedOffsets


@click.group("offsets", invoke_without_command=True)
@flow_choice_options
@click.option("--export", "export", is_flag=True, help="Print lines for kafka-consumer-groups.sh --from-file.")
@group_options
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the lines to a file instead of standard output; it is made where it is missing.",
)
@client_options
@config_option
@rows_output_option
@pass_invocation
@click.pass_context
def command(
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
    """Print where consumer groups of the source go on reading on the target; or set it, with apply.

    \b
      srm-control offsets --source a --target b --group g
      srm-control offsets --source a --target b --group g --export > offsets.csv
      kafka-consumer-groups.sh --bootstrap-server B --reset-offsets --group g --from-file offsets.csv --execute

    The first prints a table, with the reason for each position that has no translation. Lines of --export are
    topic,partition,offset for one group, group,topic,partition,offset for several. Topics have their names on the
    target. The offsets are those of the flow's checkpoints there, so both work while the source is down; how old they
    are is said on standard error.
    """
    if context.invoked_subcommand is not None:
        return None
    wanted = wanted_groups(groups, all_groups)
    if not wanted and not all_groups:
        raise ConfigError("say which group with --group G, or --all-groups")
    overrides = ClientOverrides(clients["bootstrap_servers"], clients["props"], (), clients["consumer_props"])
    chosen = chosen_flow(invocation, flow, source, target, overrides)
    # With --output csv these are the lines; a spreadsheet's header would not be taken.
    if not export and to is None and invocation.output != "csv":
        return _explained(invocation, chosen, wanted, all_groups)
    return _exported(invocation, chosen, wanted, all_groups, to)


command.add_command(apply_command)


def _exported(
    invocation: Invocation, chosen: ChosenFlow, wanted: Sequence[str], all_groups: bool, to: Path | None
) -> Answer:
    from srm_common.usecases.groups.export_offsets import export_offsets

    settings = chosen.settings
    exported = export_offsets(settings, None if all_groups else wanted)
    found = [one.checkpoint for one in exported.offsets]
    one_group = len(wanted) == 1
    rows = [[*([] if one_group else [one.group]), one.topic, one.partition, one.downstream] for one in found]
    missing = [group for group in wanted if group not in exported.written_ms]
    for group in missing:
        _say(f"group {group} has no checkpoint of flow {settings.name} on cluster '{settings.target.alias}'")
    _tell_age(exported)
    if to is not None:
        offsets = [GroupOffset(one.group, one.topic, one.partition, one.downstream) for one in found]
        try:
            to.write_text(write_group_offsets(offsets, one_group=one_group), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the offsets cannot be written: {error.strerror}", file=str(to)) from error
    elif invocation.output == "table":
        invocation.output = "csv"
    data = {
        "flow": str(settings.name),
        "offsets": [
            {
                "group": one.checkpoint.group,
                "topic": one.checkpoint.topic,
                "partition": one.checkpoint.partition,
                "offset": one.checkpoint.downstream,
                "upstream_offset": one.checkpoint.upstream,
                "written_ms": one.written_ms,
            }
            for one in exported.offsets
        ],
        "missing": missing,
        "unreadable": list(exported.unreadable),
    }
    text = f"Wrote {len(rows)} offsets to {to}"
    return Answer(data, text, exit_code=1 if missing or not rows else 0, rows=rows if to is None else [])


def _explained(invocation: Invocation, chosen: ChosenFlow, wanted: Sequence[str], all_groups: bool) -> Answer:
    from srm_common.usecases.groups.explain_offsets import ExplainedOffsets, explain_offsets
    from srm_common.usecases.groups.export_offsets import export_offsets

    settings = chosen.settings
    groups = None if all_groups else wanted
    exported = export_offsets(settings, groups)
    if chosen.file:
        try:
            # The reasons are those of the lists as they are edited now.
            flow = replace(invocation.flow_now(str(settings.name)).flow, target=settings.target)
            explained = explain_offsets(flow, exported.offsets, groups)
        except AirflowError as error:
            explained = ExplainedOffsets.of(exported.offsets, f"reasons are not known, because {error}")
    else:
        without_file = f"'{settings.name.source}' is not asked for reasons without a properties file"
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
