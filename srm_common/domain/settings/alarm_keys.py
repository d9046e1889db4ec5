"""Keys that say when somebody is to be told about a flow, and by what."""

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
        "How many records the flow may be behind, over all its partitions. With more it counts as catching up, and the "
        "alarm `lag_objective` is raised. With `none` no lag is an alarm.",
        "Nobody but you knows what is much.",
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
        "After how long without a run that ended the flow counts as stalled, and without a good one the alarm "
        "`stalled` is raised. `auto`: four times `schedule.interval.seconds` (or `run.max.seconds`, where that is "
        "longer), two minutes at least.",
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
        "Names of the notifiers that tell alarms, described by the keys below; see "
        "[operations.md](operations.md#notifications). Each alarm is told when it begins and when it is over. Where "
        "a flow has one, there is a DAG `srm.watch`, which tells `stalled`.",
        "Metrics and the Replications page have alarms without that.",
        levels=ALL_LEVELS,
    )
    yield Key(
        "alarm.notifier.*",
        section,
        Kind.TEXT,
        None,
        "`alarm.notifier.<name>.class` is the dotted path of an Airflow notifier, "
        "`alarm.notifier.<name>.<argument>` what it is made with: a text, in which Airflow fills in templates such as "
        "`{{ alarm.text }}`, or JSON (a list, a number, true).",
        "Whoever is told needs an address.",
        levels=ALL_LEVELS,
    )
