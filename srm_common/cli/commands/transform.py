"""``srm-control transform``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, Seconds, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.settings.layers import Entry
from srm_common.domain.transforms.statements import Statement
from srm_common.errors import ConfigError, installing
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.transform_settings import TRANSFORM_FIELDS, TRANSFORM_KEYS, is_transform_key
from srm_common.usecases.transforms.record_text import RecordTexts, headers_text
from srm_common.usecases.transforms.transform_preview import DIFFERENCES, FATES, Previewed, ShownRecord

_WIDTH = 60

if TYPE_CHECKING:
    from srm_common.replication.slots.range_transforms import SqlAccess
    from srm_common.replication.spark.sql_pass import SqlPasses


@click.command("transform")
@flow_option
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="A topic of the source. May be repeated.")
@click.option(
    "--sample", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Records of each topic, the newest."
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Compare with this key set for the flow. May be repeated.",
)
@click.option(
    "--against", type=click.Path(path_type=Path), metavar="FILE", help="Compare with another configuration of the flow."
)
@click.option(
    "--max-seconds",
    type=Seconds(1, 3600),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Time limit; what was compared by then is shown.",
)
@config_option
@output_option
@pass_invocation
def transform_command(
    invocation: Invocation,
    flow: str | None,
    topics: tuple[str, ...],
    sample: int,
    assignments: tuple[str, ...],
    against: Path | None,
    max_seconds: float,
) -> Answer:
    """Print the newest records before and after the flow's transforms, and how many are dropped or fail.

    With --set or --against, also what other transforms would change. Nothing is written.
    """
    from srm_common.usecases.flows.flow_clusters import FlowClusters
    from srm_common.usecases.transforms.newest_records import ReadLimits
    from srm_common.usecases.transforms.transform_preview import preview_transforms

    settings = invocation.flow_now(flow).flow
    other = None
    if assignments or against is not None:
        other = _other(settings, against or invocation.config, settings.name, assignments)
    with FlowClusters(settings) as clusters, ExitStack() as ending:
        preview = preview_transforms(
            clusters,
            topics,
            sample,
            other,
            sql=_local_spark(settings.name, ending),
            limits=ReadLimits(seconds=max_seconds),
        )
    records, texts = preview.records, RecordTexts(preview.schemas)
    text: list[RenderableType] = [_summary("", Counter(record.after.fate(record.before) for record in records))]
    if other is not None:
        text.append(_summary("The other transforms: ", Counter(_other_fate(record) for record in records)))
        text.append(_differences(records))
    if preview.ended_early:
        text.append(f"Ended early: {preview.ended_early}")
    if records:
        columns = ["TOPIC", "PARTITION", "OFFSET", "", "KEY", "VALUE", "HEADERS"]
        text += ["", table(columns, [row for record in records for row in _rows(record, texts)])]
    if preview.topics_left_out:
        text.append(f"{counted(len(preview.topics_left_out), 'more topic')} not looked at; name them with --topic.")
    data = {
        "flow": str(settings.name),
        "counts": _counts(Counter(record.after.fate(record.before) for record in records)),
        "other_counts": None if other is None else _counts(Counter(_other_fate(record) for record in records)),
        "differences": None
        if other is None
        else dict(Counter(record.difference for record in records if record.difference)),
        "ended_early": preview.ended_early or None,
        "records": [texts.to_json(record) for record in records],
        "topics_left_out": preview.topics_left_out,
    }
    return Answer(data, text)


def _other(settings: FlowSettings, path: Path, name: FlowName, assignments: tuple[str, ...]) -> FlowSettings:
    entries = []
    for number, text in enumerate(assignments, 1):
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise click.UsageError(f"--set takes KEY=VALUE, but is '{text}'")
        if not is_transform_key(key.strip()):
            raise click.UsageError(
                f"--set takes keys that begin with {', '.join(TRANSFORM_KEYS)}; {key.strip()} does not"
            )
        entries.append(Entry(f"{name}.{key.strip()}", value.strip(), "--set", number))
    flow_settings = load_configuration(path, more=tuple(entries)).flow(name)
    changes: dict[str, Any] = {field: getattr(flow_settings, field) for field in TRANSFORM_FIELDS}
    return replace(settings, **changes)


def _local_spark(name: FlowName, ending: ExitStack) -> Callable[[tuple[Statement, ...]], SqlAccess]:
    """A Spark application of this process, started when a flow has statements, and stopped by ``ending``."""

    @cache
    def passes() -> SqlPasses:
        from srm_common.replication.driver.run_folder import folder_of_process
        from srm_common.replication.spark.spark_application import spark_context
        from srm_common.replication.spark.spark_conf import local_master, spark_settings
        from srm_common.replication.spark.sql_pass import SqlPasses

        def settings(master: str) -> Mapping[str, str]:
            return spark_settings(
                master, 1, app_name=f"srm transform {name}", temporary=folder_of_process(), statements=True
            )

        try:
            context = spark_context(settings, local_master(1))
        except ImportError as error:
            remedy = installing("spark", "transforms")
            raise ConfigError(f"transforms.sql needs {error.name}: {remedy} here") from error
        ending.callback(context.stop)
        return SqlPasses(context)

    return lambda statements: passes().local(statements)


def _other_fate(one: Previewed) -> str:
    return "" if one.other is None else one.other.fate(one.before)


def _counts(fates: Counter[str]) -> dict[str, int]:
    return {fate: fates[fate] for fate in FATES}


def _summary(who: str, fates: Counter[str]) -> str:
    said = ", ".join(f"{fates[fate]} {fate}" for fate in FATES)
    return f"{who}{counted(fates.total(), 'record')}: {said}"


def _differences(records: Sequence[Previewed]) -> str:
    kinds = Counter(record.difference for record in records if record.difference)
    said = ", ".join(f"{kinds[kind]} {kind}" for kind in DIFFERENCES if kinds[kind])
    return f"{counted(kinds.total(), 'record')} would come out differently{f': {said}' if said else ''}."


def _rows(one: Previewed, texts: RecordTexts) -> list[list[object]]:
    place: list[object] = [one.topic, one.partition, one.offset]
    rows = [[*place, "before", *_cells(one, one.before, texts)]]
    outcomes = [("after", one.after)]
    if one.other is not None and one.other != one.after:
        outcomes.append(("other", one.other))
    for name, outcome in outcomes:
        fate = outcome.fate(one.before)
        if outcome.record is not None and fate == "changed":
            rows.append(["", "", "", f"{name}: changed", *_cells(one, outcome.record, texts)])
        else:
            rows.append(["", "", "", f"{name}: {fate}", outcome.reason, "", ""])
    return rows


def _cells(one: Previewed, record: ShownRecord, texts: RecordTexts) -> list[object]:
    parts = (texts.key(record, one.topic), texts.value(record, one.topic))
    return [*(None if part is None else part.within(_WIDTH) for part in parts), headers_text(record, _WIDTH)]
