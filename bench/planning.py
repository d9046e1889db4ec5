"""What planning costs for many topics, without brokers: ``python -m bench.planning``.

Both clusters are described by values, as an answer of real brokers is after it was read. What is timed is everything
that is done with the answers: decisions by filters, records and ids, the plan, its text and its JSON. The figure in
docs/topics.md is for the default size, on one core.
"""

from __future__ import annotations

import gc
import json
import resource
import time
from dataclasses import dataclass

import click

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.plans.plan import Plan
from srm_common.domain.plans.planning import SourceView, TargetView, make_plan
from srm_common.domain.policy import policy_name
from srm_common.domain.topics.lifecycle import TopicIds, settle
from srm_common.domain.topics.replication import Brokers
from srm_common.domain.topics.selection import select_topics
from srm_common.domain.topics.topic_records import Ancestor, Knowledge, TopicRecord, TopicRecords, TopicState
from srm_common.domain.topics.topic_settings import (
    AFTER_MAX,
    BEFORE_MAX,
    LONG_MAX,
    TIMESTAMP_TYPE,
    Source,
    TargetAbilities,
)
from srm_common.domain.topics.topic_settings import TopicSetting as Setting

#: As many settings as a topic of Kafka 4.x has, most of them at their defaults.
_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    TIMESTAMP_TYPE: "CreateTime",
    BEFORE_MAX: LONG_MAX,
    AFTER_MAX: "3600000",
    **{f"setting.number.{number}": str(number) for number in range(28)},
}
_SHARED = {key: Setting(value, Source.DEFAULT) for key, value in _DEFAULTS.items()}
_OWN = {"retention.ms": Setting("86400000", Source.TOPIC), "segment.bytes": Setting("104857600", Source.TOPIC)}
_COPIED = {
    **_OWN,
    AFTER_MAX: Setting(LONG_MAX, Source.TOPIC),
    TIMESTAMP_TYPE: Setting("CreateTime", Source.TOPIC),
}


@dataclass(frozen=True)
class Views:
    """What was read of both clusters."""

    source: SourceView
    target: TargetView
    ids: TopicIds
    knowledge: Knowledge


def flow_of_everything() -> FlowSettings:
    """All topics are selected."""
    return FlowSettings(
        FlowName("a", "b"),
        ClusterSettings.plaintext("a", "a:9092"),
        ClusterSettings.plaintext("b", "b:9092"),
        replication_factor=3,
        emit_heartbeats=False,
    )


def views(flow: FlowSettings, topics: int, partitions: int, changed_percent: float) -> Views:
    """Two clusters in step, but for ``changed_percent`` of the topics: new, grown or with another setting in turn."""
    every = round(100 / changed_percent) if changed_percent else topics + 1
    names = [f"team-{number % 100}.topic-{number}" for number in range(topics)]
    changed = {name: number // every % 3 for number, name in enumerate(names) if (number + 1) % every == 0}
    new = {name for name, kind in changed.items() if kind == 0}
    copies = {name: f"a.{name}" for name in names}
    records = (
        TopicRecord(
            str(flow.name),
            name,
            copies[name],
            f"id-of-{name}",
            f"id-of-{copies[name]}",
            "cluster-a",
            "cluster-b",
            policy_name(flow.policy),
            TopicState.REPLICATING,
            1,
            (Ancestor("cluster-a", "a", name),),
        )
        for name in names
        if name not in new
    )
    there = [name for name in names if name not in new]
    return Views(
        SourceView(dict.fromkeys(names, partitions), {name: {**_SHARED, **_OWN} for name in names}),
        TargetView(
            {copies[name]: partitions - (changed.get(name) == 1) for name in there},
            {
                copies[name]: {**_SHARED, **_COPIED, **({"retention.ms": Setting("1", Source.TOPIC)} if other else {})}
                for name in there
                for other in [changed.get(name) == 2]
            },
            Brokers(3),
            TargetAbilities(_DEFAULTS, frozenset(_DEFAULTS)),
        ),
        TopicIds({name: f"id-of-{name}" for name in names}, {copies[name]: f"id-of-{copies[name]}" for name in there}),
        Knowledge("cluster-a", "cluster-b", {"b": TopicRecords.of(records), "a": TopicRecords()}, now_ms=2),
    )


def planned(flow: FlowSettings, seen: Views) -> Plan:
    """Decisions, lifecycle and plan, as a refresh makes them."""
    decisions = select_topics(flow, seen.source.partitions, seen.knowledge)
    records = seen.knowledge.records[flow.name.target].of_flow(flow.name)
    settled = settle(flow, decisions, records, seen.ids)
    return make_plan(flow, [one.decision for one in settled], seen.source, seen.target)


@click.command()
@click.option("--topics", default=10_000, show_default=True)
@click.option("--partitions", default=10, show_default=True, help="Of each topic.")
@click.option("--changed", default=1.0, show_default=True, help="Percent of the topics that need an action.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(topics: int, partitions: int, changed: float, output: str) -> None:
    """Plan for two clusters of so many topics, nearly in step."""
    flow = flow_of_everything()
    seen = views(flow, topics, partitions, changed)
    gc.collect()
    before = _peak_mb()
    started, cpu = time.perf_counter(), time.process_time()
    plan = planned(flow, seen)
    made = time.perf_counter() - started
    text = plan.render()
    document = json.dumps(plan.to_json())
    figures = {
        "topics": topics,
        "partitions": topics * partitions,
        "actions": len(plan.actions),
        "plan_seconds": round(made, 2),
        "with_text_and_json_seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "views_peak_mb": round(before),
        "peak_mb": round(_peak_mb()),
        "json_mb": round(len(document) / 1e6, 1),
        "text_lines": len(text.splitlines()),
    }
    print(
        json.dumps(figures) if output == "json" else "\n".join(f"{key:>28}  {value}" for key, value in figures.items())
    )


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
