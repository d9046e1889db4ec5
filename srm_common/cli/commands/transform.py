"""``srm-control transform``."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.settings.layers import Entry
from srm_common.domain.transforms.chain import CHAIN_KEYS
from srm_common.settings_files.configuration import load_configuration
from srm_common.usecases.runs.transform_preview import Outcome, Previewed, ShownRecord

#: What of another configuration is compared; clusters, topics and filters are those of the flow.
_COMPARED = (
    "transforms",
    "statements",
    "transforms_python",
    "transforms_python_timeout_seconds",
    "provenance_headers",
    "copy_source_offset_in_header",
)
_KEYS = (*CHAIN_KEYS, "provenance.headers", "copy.source.offset.in.header.enabled")
_FATES = ("unchanged", "changed", "dropped", "failed")
_WIDTH = 60


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
) -> Answer:
    """Print the newest records before and after the flow's transforms, and how many are dropped or fail.

    With --set or --against also what other transforms would make of them. Nothing is written.
    """
    from srm_common.usecases.flows.flow_clusters import FlowClusters
    from srm_common.usecases.runs.transform_preview import preview_transforms

    settings = invocation.flow_now(flow).flow
    other = None
    if assignments or against is not None:
        other = _other(settings, against or invocation.config, settings.name, assignments)
    with FlowClusters(settings) as clusters:
        found, left_out = preview_transforms(clusters, topics, sample, other)
    text: list[RenderableType] = [_summary("", Counter(one.after.fate(one.before) for one in found))]
    if other is not None:
        text.append(_summary("The other transforms: ", Counter(_other_fate(one) for one in found)))
        differ = sum(one.after != one.other for one in found)
        text.append(f"{counted(differ, 'record')} would come out otherwise.")
    if found:
        columns = ["TOPIC", "PARTITION", "OFFSET", "", "KEY", "VALUE", "HEADERS"]
        text += ["", table(columns, [row for one in found for row in _rows(one)])]
    if left_out:
        text.append(f"{counted(len(left_out), 'more topic')} not looked at; name them with --topic.")
    data = {
        "flow": str(settings.name),
        "counts": _counts(Counter(one.after.fate(one.before) for one in found)),
        "other_counts": None if other is None else _counts(Counter(_other_fate(one) for one in found)),
        "records": [_json(one) for one in found],
        "topics_left_out": left_out,
    }
    return Answer(data, text)


def _other(settings: FlowSettings, path: Path, name: FlowName, assignments: tuple[str, ...]) -> FlowSettings:
    entries = []
    for number, text in enumerate(assignments, 1):
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise click.UsageError(f"--set takes KEY=VALUE, but is '{text}'")
        if not key.strip().startswith(_KEYS):
            raise click.UsageError(f"--set takes keys that begin with {', '.join(_KEYS)}; {key.strip()} does not")
        entries.append(Entry(f"{name}.{key.strip()}", value.strip(), "--set", number))
    found = load_configuration(path, more=tuple(entries)).flow(name)
    changes: dict[str, Any] = {field: getattr(found, field) for field in _COMPARED}
    return replace(settings, **changes)


def _other_fate(one: Previewed) -> str:
    return "" if one.other is None else one.other.fate(one.before)


def _counts(fates: Counter[str]) -> dict[str, int]:
    return {fate: fates[fate] for fate in _FATES}


def _summary(who: str, fates: Counter[str]) -> str:
    said = ", ".join(f"{fates[fate]} {fate}" for fate in _FATES)
    return f"{who}{counted(fates.total(), 'record')}: {said}"


def _rows(one: Previewed) -> list[list[object]]:
    place: list[object] = [one.topic, one.partition, one.offset]
    rows = [[*place, "before", *_cells(one.before)]]
    outcomes = [("after", one.after)]
    if one.other is not None and one.other != one.after:
        outcomes.append(("other", one.other))
    for name, outcome in outcomes:
        fate = outcome.fate(one.before)
        if outcome.record is not None and fate == "changed":
            rows.append(["", "", "", f"{name}: changed", *_cells(outcome.record)])
        else:
            rows.append(["", "", "", f"{name}: {fate}", outcome.reason, "", ""])
    return rows


def _cells(record: ShownRecord) -> list[object]:
    headers = ", ".join(f"{name}={'null' if value is None else _text(value)}" for name, value in record.headers)
    return [*(None if part is None else _cut(_text(part)) for part in (record.key, record.value)), _cut(headers)]


def _text(part: bytes) -> str:
    """What a terminal can be shown: a record's bytes may be control sequences for it."""
    text = part.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _json(one: Previewed) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "before": _record_json(one.before),
        "after": _outcome_json(one.after, one.before),
        "other": None if one.other is None else _outcome_json(one.other, one.before),
    }


def _outcome_json(outcome: Outcome, before: ShownRecord) -> dict[str, Any]:
    return {
        "result": outcome.fate(before),
        "reason": outcome.reason or None,
        "record": None if outcome.record is None else _record_json(outcome.record),
    }


def _record_json(record: ShownRecord) -> dict[str, Any]:
    return {
        "timestamp_ms": record.timestamp_ms,
        "key": None if record.key is None else _text(record.key),
        "value": None if record.value is None else _text(record.value),
        "headers": [[name, None if value is None else _text(value)] for name, value in record.headers],
    }
