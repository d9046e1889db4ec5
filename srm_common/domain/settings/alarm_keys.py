"""Keys of monitoring: when an alarm is raised, what sends it, and the topic with raw metrics."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.settings.key import ALL_LEVELS, Key, Kind


def alarm_keys() -> Iterator[Key]:
    section = "Health and alarms"
    yield Key(
        "lag.objective.records",
        section,
        Kind.WHOLE_OR_NONE,
        "none",
        "How many records the flow may lag behind, over all its partitions. Above it the flow counts as catching up, "
        "and the alarm `lag_objective` is raised. With `none` no lag raises an alarm.",
        "What lag is acceptable depends on the data.",
        unit="records",
        minimum=0,
        levels=ALL_LEVELS,
        field="lag_objective_records",
    )
    yield Key(
        "stalled.after.seconds",
        section,
        Kind.NUMBER_OR_AUTO,
        "auto",
        "After how long without a finished run the flow counts as stalled, and without a successful one the alarm "
        "`stalled` is raised. `auto`: four times `schedule.interval.seconds` (or `run.max.seconds`, if that is "
        "longer), at least two minutes.",
        "One run is due, one is late, two were slow.",
        unit="seconds",
        minimum=1,
        levels=ALL_LEVELS,
        field="stalled_after_seconds",
    )
    yield Key(
        "alarm.notifiers",
        section,
        Kind.NAMES,
        "",
        "Names of the notifiers that send alarms, configured by the keys below; see "
        "[operations.md](operations.md#notifications). Each alarm is sent when it is raised and when it is resolved. "
        "If a flow has a notifier, there is a DAG `srm.watch`, which sends `stalled`.",
        "Metrics and the Replications page show alarms without notifiers.",
        levels=ALL_LEVELS,
    )
    yield Key(
        "alarm.notifier.*",
        section,
        Kind.TEXT,
        None,
        "`alarm.notifier.<name>.class` is the dotted path of an Airflow notifier, "
        "`alarm.notifier.<name>.<argument>` one of its arguments: a text, in which Airflow renders templates such as "
        "`{{ alarm.text }}`, or JSON (a list, a number, true).",
        "Recipients are site-specific.",
        levels=ALL_LEVELS,
    )


def metrics_topic_keys() -> Iterator[Key]:
    section = "Raw metrics"
    yield Key(
        "metrics.topic.enabled",
        section,
        Kind.SWITCH,
        "false",
        "Whether the report of each run is also written to `srm-metrics.<source>.internal` on the target, for your own "
        "programs and for remote services; see [metrics.md](metrics.md#raw-metrics).",
        "Nothing here needs it.",
        levels=ALL_LEVELS,
        field="metrics_topic",
    )
    yield Key(
        "metrics.topic.retention.ms",
        section,
        Kind.WHOLE,
        "604800000",
        "How long that topic keeps reports, if the flow creates it.",
        "A week; the metrics store keeps what is older.",
        unit="milliseconds",
        minimum=60_000,
        levels=ALL_LEVELS,
        field="metrics_topic_retention_ms",
    )
