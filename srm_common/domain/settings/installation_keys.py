"""Keys of the installation as a whole: clusters, secret providers, metrics store, the web app and its peers."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.settings.key import Key, Kind, Level

_SECTION = "The file as a whole"
_TOP_ONLY = (Level.TOP,)
_NOTHING = "There is no sensible default."


def file_keys() -> Iterator[Key]:
    yield Key(
        "clusters",
        _SECTION,
        Kind.NAMES,
        None,
        "Aliases of all clusters. Required. An alias becomes part of topic names, so it may contain letters, digits, "
        "`.`, `_` and `-`, and under `DefaultReplicationPolicy` not the separator.",
        _NOTHING,
        levels=_TOP_ONLY,
    )
    yield Key(
        "streams.replication.manager.driver.target.cluster",
        _SECTION,
        Kind.NAMES,
        None,
        "Target clusters that this installation writes to; flows to others have no DAG here and are not run. Set it "
        "if several installations share one file, each next to its own target (pull mode).",
        "One installation serves all flows.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "config.providers",
        _SECTION,
        Kind.NAMES,
        None,
        "Names of additional secret providers; see Secrets.",
        "`env`, `file` and `dir` are always available.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "config.providers.*",
        _SECTION,
        Kind.TEXT,
        None,
        "Class and restrictions of a provider; see Secrets.",
        _NOTHING,
        levels=_TOP_ONLY,
    )
    yield Key(
        "streams.replication.manager.config",
        _SECTION,
        Kind.TEXT,
        None,
        "Streams Replication Manager's list of entries; `srm-control config convert` converts it.",
        note="Its entries are not read; `srm-control config convert` converts them.",
        levels=_TOP_ONLY,
    )


def store_keys() -> Iterator[Key]:
    yield Key(
        "metrics.database.url",
        "Metrics store",
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
        "Metrics store",
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
    return Key(name, "Metrics store", Kind.NUMBER, default, doc, reason, unit=unit, minimum=0, levels=_TOP_ONLY)


def service_keys() -> Iterator[Key]:
    yield from _metrics_keys()
    yield from _peer_keys()


def _metrics_keys() -> Iterator[Key]:
    section = "Prometheus"
    yield Key(
        "metrics.prometheus.open",
        section,
        Kind.SWITCH,
        "false",
        "Whether `/metrics` is available without authentication. It contains names of flows, topics and groups.",
        "Names may be confidential.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "metrics.prometheus.token",
        section,
        Kind.TEXT,
        None,
        "A bearer token that is valid for `/metrics` only, for scrapers without a user, such as "
        "`${env:SRM_METRICS_TOKEN}`.",
        "A well-known token would be none.",
        levels=_TOP_ONLY,
    )
    yield _names_key()


def _names_key() -> Key:
    return Key(
        "metric.names.formats",
        "Prometheus",
        Kind.CHOICES,
        "legacy",
        "Under which of MirrorMaker 2's names `/metrics` exports the flow's series: `legacy` "
        "(`kafka_connect_mirror_mirrorsourceconnector_...`), `new` (`kafka_connect_plugins_...` with the labels "
        "`connector` and `task`, KIP-1280), or both.",
        "MirrorMaker 2's default; dashboards for it keep working.",
        choices=("legacy", "new"),
        field="metric_names_formats",
    )


def _peer_keys() -> Iterator[Key]:
    section = "Several services"
    yield Key(
        "service.name",
        section,
        Kind.TEXT,
        None,
        "The name under which other services show this one. Default: the host of `service.advertised.url`.",
        "The host name is usually sufficient.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.advertised.url",
        section,
        Kind.TEXT,
        None,
        "The URL at which others reach this service, including the root path, such as `https://west.example:6670` or, "
        "under Airflow, `https://airflow.example/srm`. It is written to `srm-services.internal` on every cluster this "
        "installation writes to. Without it nothing is advertised.",
        "Only the operator knows how others reach the service.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.advertise.interval.seconds",
        section,
        Kind.NUMBER,
        "30",
        "How often that record is renewed. Others drop a service after ten times that, but at least five minutes.",
        "Clocks may differ by minutes.",
        unit="seconds",
        minimum=1,
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.gateway.enabled",
        section,
        Kind.SWITCH,
        "false",
        "Whether this service discovers the others that advertise themselves on the clusters of its file, and shows "
        "their flows among its own.",
        "Querying other services needs credentials for them.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peers.timeout.seconds",
        section,
        Kind.NUMBER,
        "3",
        "How long a gateway waits for the response of another service, and for a cluster's list of services.",
        "A page that waits longer seems broken.",
        unit="seconds",
        minimum=0.1,
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peers.hosts",
        section,
        Kind.PATTERNS,
        ".*",
        "Hosts that a gateway may query. Anyone who may write to `srm-services.internal` can add others.",
        "Correct if only services may write to that topic.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peers.ca.location",
        section,
        Kind.TEXT,
        None,
        "PEM file of the CAs to trust for services with `https`. Default: the system's.",
        "Certificates that the system trusts need no file.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "service.peer.*",
        section,
        Kind.TEXT,
        None,
        "Credentials for other services, by host: `service.peer.<host>.user` and `service.peer.<host>.password`, or "
        "`service.peer.<host>.token` for a bearer token. They are sent to that host only.",
        "Each service has its own users.",
        levels=_TOP_ONLY,
    )
