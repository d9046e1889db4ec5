"""Keys of the metrics store: where it is, and how long it keeps what."""

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
        "The database that keeps the history, as SQLAlchemy writes it: `sqlite:////path/to/file.db` or "
        "`postgresql+psycopg2://user:password@host:5432/database`, the password better as `${env:NAME}`. The "
        "environment variable `SRM_DATABASE` goes before it. Without either: the file `srm-metrics.db` in "
        "`AIRFLOW_HOME`, else in `~/.local/share/srm`. See [metrics-store.md](metrics-store.md).",
        "One machine needs no server for that.",
        levels=_TOP_ONLY,
    )
    yield _kept(
        "metrics.retention.raw.hours", "2", "hours", "figures are kept as each run reported them", "A look at now."
    )
    yield _kept(
        "metrics.retention.5m.days", "2", "days", "figures are kept in buckets of five minutes", "A look at yesterday."
    )
    yield _kept(
        "metrics.retention.1h.days", "8", "days", "figures are kept in buckets of an hour", "The same day a week ago."
    )
    yield _kept(
        "metrics.retention.6h.days",
        "40",
        "days",
        "figures are kept in buckets of six hours",
        "This month and the last.",
    )
    yield _kept(
        "metrics.retention.1d.days", "400", "days", "figures are kept in buckets of a day", "This year and the last."
    )
    yield _kept(
        "metrics.retention.partitions.days",
        "2",
        "days",
        "figures of single partitions are kept in buckets of an hour (as reported: 1 hour, in finer buckets: 6 hours). "
        "0: history is of topics and flows only, and of partitions how they stand now",
        "They are most of what the store holds.",
    )
    yield _kept(
        "metrics.retention.runs.days",
        "7",
        "days",
        "runs are kept, with their errors",
        "Airflow keeps its own record of runs.",
    )
    yield Key(
        "metrics.retention.flows.days",
        _SECTION,
        Kind.NUMBER,
        "40",
        "How long all that is kept of a flow is kept after its last report, once this file does not have it any more; "
        "counted back from the newest report of any flow. Flows that are enabled here stay, also while paused.",
        "Time enough to bring a flow back with its history.",
        unit="days",
        minimum=0,
        levels=_TOP_ONLY,
    )


def _kept(name: str, default: str, unit: str, what: str, reason: str) -> Key:
    doc = f"How long {what}; counted back from a flow's newest report."
    return Key(name, _SECTION, Kind.NUMBER, default, doc, reason, unit=unit, minimum=0, levels=_TOP_ONLY)
