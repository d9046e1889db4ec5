"""``srm-control offsets apply``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import RenderableType

from srm_common.cli.client_overrides import ClientOverrides, client_options
from srm_common.cli.flow_choice import chosen_flow, flow_choice_options
from srm_common.cli.invocation import Invocation, config_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.flow import FlowSettings
from srm_common.domain.groups.group_offsets import GroupOffset, parse_group_offsets
from srm_common.domain.patterns.name_filter import split_list
from srm_common.errors import ConfigError

if TYPE_CHECKING:
    from srm_common.domain.groups.group_offsets import AppliedOffset

F = TypeVar("F", bound=Callable[..., Any])


def group_options(command: F) -> F:
    """``--group`` and ``--all-groups``, given to the command as ``groups`` and ``all_groups``."""
    command = click.option("--all-groups", is_flag=True, help="All groups that have checkpoints.")(command)
    return click.option(
        "--group", "groups", multiple=True, metavar="G", help="The consumer group; a,b or given again for several."
    )(command)


def wanted_groups(groups: Sequence[str], all_groups: bool) -> list[str]:
    """The names in ``--group``, each once. Raises :class:`ConfigError`."""
    wanted = list(dict.fromkeys(group for text in groups for group in split_list(text) if group))
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
    help="Set what this file says, as --export writes it, instead of the newest checkpoints.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be set, and change nothing.")
@click.option("--rewind", is_flag=True, help="Also move groups back that are further already.")
@client_options
@config_option
@output_option
@pass_invocation
def command(
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

    The groups must have no members there. Nothing is set while a single line cannot be: a topic, partition or offset
    that does not exist, a group in use. Afterwards every offset is read again and compared. The source is not asked.
    """
    from srm_common.usecases.groups.apply_offsets import apply_offsets

    wanted = wanted_groups(groups, all_groups)
    overrides = ClientOverrides(
        clients["bootstrap_servers"], clients["props"], clients["producer_props"], clients["consumer_props"]
    )
    chosen = chosen_flow(invocation, flow, source, target, overrides)
    if file is not None:
        offsets = _of_file(file, wanted)
    elif wanted or all_groups:
        offsets = _of_checkpoints(chosen.settings, None if all_groups else wanted)
    else:
        raise ConfigError("say which group with --group G, or --all-groups")
    cluster = chosen.writes_to or chosen.settings.target
    applied = apply_offsets(cluster, offsets, dry_run=dry_run, rewind=rewind)
    return _answer(chosen.settings, applied, dry_run)


def _of_file(file: Path, wanted: Sequence[str]) -> list[GroupOffset]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file cannot be read: {error}", file=str(file)) from error
    return parse_group_offsets(text, str(file), wanted)


def _of_checkpoints(flow: FlowSettings, wanted: Sequence[str] | None) -> list[GroupOffset]:
    from srm_common.usecases.groups.export_offsets import export_offsets

    found = [one.checkpoint for one in export_offsets(flow, wanted).offsets]
    known = {one.group for one in found}
    missing = [group for group in wanted or () if group not in known]
    if missing or not found:
        what = f"group {missing[0]} has no checkpoint" if missing else "there is no checkpoint"
        raise ConfigError(
            f"{what} of flow {flow.name} on cluster '{flow.target.alias}', so nothing was set; "
            f"srm-control offsets says why"
        )
    return [GroupOffset(one.group, one.topic, one.partition, one.downstream, one.metadata) for one in found]


def _answer(flow: FlowSettings, applied: Sequence[AppliedOffset], dry_run: bool) -> Answer:
    problems = [one for one in applied if one.problem is not None]
    # Nobody looks again unless something was written.
    written = any(one.after is not None for one in applied)
    changed = sum(one.changes for one in applied)
    rows = [
        [one.wanted.group, one.wanted.topic, one.wanted.partition, one.before, one.wanted.offset, one.effect]
        for one in [*problems, *(one for one in applied if one.problem is None)]
    ]
    where = f"{flow.name}: on cluster '{flow.target.alias}'"
    if problems and not written:
        verdict = f"nothing was set: {len(problems)} of {len(applied)} offsets cannot be"
    elif problems:
        verdict = f"{changed} of {len(applied)} offsets were set, {len(problems)} were not; mend these and run again"
    elif dry_run:
        verdict = f"{changed} of {len(applied)} offsets would be set"
    else:
        verdict = f"{changed} of {len(applied)} offsets were set, and read back as they should be"
    text: list[RenderableType] = [
        table(["GROUP", "TOPIC", "PARTITION", "BEFORE", "NEW-OFFSET", "EFFECT"], rows),
        "",
        f"{where} {verdict}",
    ]
    data = {
        "flow": str(flow.name),
        "dry_run": dry_run,
        "written": written,
        "offsets": [one.to_json() for one in applied],
    }
    return Answer(data, text, 1 if problems else 0)
