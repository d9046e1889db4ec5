"""``srm-control offsets``."""

from __future__ import annotations

import csv
import io
import sys
import time
from pathlib import Path
from typing import Any

import click

from srm_common.cli.client_overrides import ClientOverrides, client_options
from srm_common.cli.flow_choice import chosen_flow, flow_choice_options
from srm_common.cli.invocation import Invocation, config_option, pass_invocation, rows_output_option
from srm_common.cli.output import Answer
from srm_common.domain.duration import duration
from srm_common.domain.filters import split_list
from srm_common.errors import ConfigError


@click.command("offsets")
@flow_choice_options
@click.option("--export", "export", is_flag=True, help="Print the offsets (the only thing this command does).")
@click.option("--group", "groups", multiple=True, metavar="G", help="The consumer group; may be given more than once.")
@click.option("--all-groups", is_flag=True, help="All groups that have checkpoints.")
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to a file instead of standard output; it is made where it is missing.",
)
@client_options
@config_option
@rows_output_option
@pass_invocation
def command(
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
) -> Answer:
    """Print where consumer groups of the source go on reading on the target, as Kafka's own tool takes it.

    \b
      srm-control offsets --source a --target b --group g --export > offsets.csv
      kafka-consumer-groups.sh --bootstrap-server B --reset-offsets --group g --from-file offsets.csv --execute

    One group gives lines topic,partition,offset; several give group,topic,partition,offset. Topics have their names on
    the target. The offsets are those of the flow's checkpoints there, so this works while the source is down; how old
    they are is said on standard error.
    """
    from srm_common.usecases.export_offsets import export_offsets

    wanted = [group for text in groups for group in split_list(text) if group]
    if not wanted and not all_groups:
        raise ConfigError("say which group with --group G, or --all-groups")
    if wanted and all_groups:
        raise ConfigError("--group and --all-groups exclude each other")
    overrides = ClientOverrides(clients["bootstrap_servers"], clients["props"], (), clients["consumer_props"])
    settings = chosen_flow(invocation, flow, source, target, overrides).settings
    exported = export_offsets(settings, None if all_groups else wanted)
    one = len(wanted) == 1
    rows = [
        [*([] if one else [found.group]), found.topic, found.partition, found.downstream]
        for found in exported.checkpoints
    ]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    missing = [group for group in wanted if group not in exported.groups]
    for group in missing:
        _say(f"group {group} has no checkpoint of flow {settings.name} on cluster '{settings.target.alias}'")
    for sentence in exported.unreadable:
        _say(sentence)
    now_ms = time.time() * 1000
    for group, (newest, oldest) in sorted(exported.written_ms.items()):
        _say(f"group {group}: checkpoints written {duration(now_ms - newest)} to {duration(now_ms - oldest)} ago")
    if to is not None:
        try:
            to.write_text(text.getvalue(), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the offsets cannot be written: {error.strerror}", file=str(to)) from error
    if to is None and invocation.output == "table":
        invocation.output = "csv"
    return Answer(
        {
            "flow": str(settings.name),
            "offsets": [
                {"group": found.group, "topic": found.topic, "partition": found.partition, "offset": found.downstream}
                for found in exported.checkpoints
            ],
            "written_ms": {group: {"newest": new, "oldest": old} for group, (new, old) in exported.written_ms.items()},
            "missing": missing,
            "unreadable": list(exported.unreadable),
        },
        f"Wrote {len(rows)} offsets to {to}",
        exit_code=1 if missing or not rows else 0,
        rows=rows if to is None else [],
    )


def _say(sentence: str) -> None:
    print(f"srm-control: {sentence}", file=sys.stderr)
