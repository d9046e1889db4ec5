"""Keys for the metrics store: where it is, and how long it keeps what."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.settings.key import Key, Kind, Level

_SECTION = "Metrics store"
_TOP_ONLY = (Level.TOP,)


def store_keys() -> Iterator[Key]:
    yield Key(
        "metrics.database.url",
        _SECTION,
        Kind.TEXT,
        None,
        "The database of the metrics history, as an SQLAlchemy URL: `sqlite:////path/to/file.db` or "
        "`postgresql+psycopg2://user:password@host:5432/database`, with the password preferably as `${env:NAME}`. The "
        "environment variable `SRM_DATABASE` overrides it. Without either: the file `srm-metrics.db` in "
        "`AIRFLOW_HOME`, otherwise in `~/.local/share/srm`. See [metrics-store.md](metrics-store.md).",
        "On one machine no server is needed.",
        levels=_TOP_ONLY,
    )
    yield _kept(
        "metrics.retention.raw.hours", "2", "hours", "samples are kept as each run reported them", "For the present."
    )
    yield _kept(
        "metrics.retention.5m.days", "2", "days", "samples are kept in buckets of five minutes", "For yesterday."
    )
    yield _kept(
        "metrics.retention.1h.days", "8", "days", "samples are kept in hourly buckets", "For the same day last week."
    )
    yield _kept(
        "metrics.retention.6h.days",
        "40",
        "days",
        "samples are kept in buckets of six hours",
        "For this month and the last.",
    )
    yield _kept(
        "metrics.retention.1d.days", "400", "days", "samples are kept in daily buckets", "For this year and the last."
    )
    yield _kept(
        "metrics.retention.partitions.days",
        "2",
        "days",
        "samples of partitions are kept in buckets of an hour (as reported: 1 hour, in finer buckets: 6 hours). "
        "0: there is history only for topics and flows, and for partitions only their current status",
        "They are most of the store's content.",
    )
    yield _kept(
        "metrics.retention.runs.days",
        "7",
        "days",
        "runs and their errors are kept",
        "Airflow keeps its own record of runs.",
    )
    yield Key(
        "metrics.retention.flows.days",
        _SECTION,
        Kind.NUMBER,
        "40",
        "How long the data of a flow are kept after its last report, once the flow is no longer in this file; "
        "counted back from the newest report of any flow. Flows that are enabled here stay, also while paused.",
        "Time enough to restore a flow with its history.",
        unit="days",
        minimum=0,
        levels=_TOP_ONLY,
    )


def _kept(name: str, default: str, unit: str, what: str, reason: str) -> Key:
    doc = f"How long {what}; counted back from a flow's newest report."
    return Key(name, _SECTION, Kind.NUMBER, default, doc, reason, unit=unit, minimum=0, levels=_TOP_ONLY)
