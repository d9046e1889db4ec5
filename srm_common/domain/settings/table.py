"""All keys: those of flows, of topics and runs, and of the installation as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from srm_common.domain.settings.ineffective_keys import without_effect_keys
from srm_common.domain.settings.key import CONNECTOR_LEVELS, Key, Kind, Level
from srm_common.domain.settings.offset_keys import offsets_keys, state_keys
from srm_common.domain.settings.run_keys import alarm_keys, copying_keys, metrics_topic_keys, scheduling_keys
from srm_common.domain.settings.topic_keys import schema_keys, selection_keys, topics_keys

_TOP_ONLY = (Level.TOP,)
_NOTHING = "There is no sensible default."
_PARTITIONS_KEPT = (
    "samples of partitions are kept in buckets of an hour (as reported: 1 hour, in finer buckets: 6 hours). 0: there "
    "is history only for topics and flows, and for partitions only their current status"
)


def file_keys() -> Iterator[Key]:
    key = partial(Key, section="The file as a whole", levels=_TOP_ONLY)
    yield key("clusters", Kind.NAMES, None).means(
        "Aliases of all clusters. Required. An alias becomes part of topic names, so it may contain letters, digits, "
        "`.`, `_` and `-`, and under `DefaultReplicationPolicy` not the separator.",
        _NOTHING,
    )
    yield key("streams.replication.manager.driver.target.cluster", Kind.NAMES, None).means(
        "Target clusters that this installation writes to; flows to others have no DAG here and are not run. Set it "
        "if several installations share one file, each next to its own target (pull mode).",
        "One installation serves all flows.",
    )
    yield key("config.providers", Kind.NAMES, None).means(
        "Names of additional secret providers; see Secrets.", "`env`, `file` and `dir` are always available."
    )
    yield key("config.providers.*", Kind.TEXT, None).means(
        "Class and restrictions of a provider; see Secrets.", _NOTHING
    )
    yield key(
        "streams.replication.manager.config",
        Kind.TEXT,
        None,
        note="Its entries are not read; `srm-control config convert` converts them.",
    ).means("Streams Replication Manager's list of entries; `srm-control config convert` converts it.")


def store_keys() -> Iterator[Key]:
    key = partial(Key, section="Metrics store", levels=_TOP_ONLY)
    yield key("metrics.database.url", Kind.TEXT, None).means(
        "The database of the metrics history, as an SQLAlchemy URL: `sqlite:////path/to/file.db` or "
        "`postgresql+psycopg2://user:password@host:5432/database`, with the password preferably as `${env:NAME}`. The "
        "environment variable `SRM_DATABASE` overrides it. Without either: the file `srm-metrics.db` in "
        "`AIRFLOW_HOME`, otherwise in `~/.local/share/srm`. See [metrics-store.md](metrics-store.md).",
        "On one machine no server is needed.",
    )
    for name, default, what, reason in (
        ("raw.hours", "2", "samples are kept as each run reported them", "For the present."),
        ("5m.days", "2", "samples are kept in buckets of five minutes", "For yesterday."),
        ("1h.days", "8", "samples are kept in hourly buckets", "For the same day last week."),
        ("6h.days", "40", "samples are kept in buckets of six hours", "For this month and the last."),
        ("1d.days", "400", "samples are kept in daily buckets", "For this year and the last."),
        ("partitions.days", "2", _PARTITIONS_KEPT, "They are most of the store's content."),
        ("runs.days", "7", "runs and their errors are kept", "Airflow keeps its own record of runs."),
    ):
        unit = name.rpartition(".")[2]
        yield key(f"metrics.retention.{name}", Kind.NUMBER, default, unit=unit, minimum=0).means(
            f"How long {what}; counted back from a flow's newest report.", reason
        )
    yield key("metrics.retention.flows.days", Kind.NUMBER, "40", unit="days", minimum=0).means(
        "How long the data of a flow are kept after its last report, once the flow is no longer in this file; "
        "counted back from the newest report of any flow. Flows that are enabled here stay, also while paused.",
        "Time enough to restore a flow with its history.",
    )


def prometheus_keys() -> Iterator[Key]:
    key = partial(Key, section="Prometheus", levels=_TOP_ONLY)
    yield key("metrics.prometheus.open", Kind.SWITCH, "false").means(
        "Whether `/metrics` is available without authentication. It contains names of flows, topics and groups.",
        "Names may be confidential.",
    )
    yield key("metrics.prometheus.token", Kind.TEXT, None).means(
        "A bearer token that is valid for `/metrics` only, for scrapers without a user, such as "
        "`${env:SRM_METRICS_TOKEN}`.",
        "A well-known token would be none.",
    )
    yield key("metric.names.formats", Kind.CHOICES, "legacy", levels=CONNECTOR_LEVELS, choices=("legacy", "new")).means(
        "Under which of MirrorMaker 2's names `/metrics` exports the flow's series: `legacy` "
        "(`kafka_connect_mirror_mirrorsourceconnector_...`), `new` (`kafka_connect_plugins_...` with the labels "
        "`connector` and `task`, KIP-1280), or both.",
        "MirrorMaker 2's default; dashboards for it keep working.",
    )


def peer_keys() -> Iterator[Key]:
    key = partial(Key, section="Several services", levels=_TOP_ONLY)
    yield key("service.name", Kind.TEXT, None).means(
        "The name under which other services show this one. Default: the host of `service.advertised.url`.",
        "The host name is usually sufficient.",
    )
    yield key("service.advertised.url", Kind.TEXT, None).means(
        "The URL at which others reach this service, including the root path, such as `https://west.example:6670` or, "
        "under Airflow, `https://airflow.example/srm`. It is written to `srm-services.internal` on every cluster this "
        "installation writes to. Without it nothing is advertised.",
        "Only the operator knows how others reach the service.",
    )
    yield key("service.advertise.interval.seconds", Kind.NUMBER, "30", unit="seconds", minimum=1).means(
        "How often that record is renewed. Others drop a service after ten times that, but at least five minutes.",
        "Clocks may differ by minutes.",
    )
    yield key("service.gateway.enabled", Kind.SWITCH, "false").means(
        "Whether this service discovers the others that advertise themselves on the clusters of its file, and shows "
        "their flows among its own.",
        "Querying other services needs credentials for them.",
    )
    yield key("service.peers.timeout.seconds", Kind.NUMBER, "3", unit="seconds", minimum=0.1).means(
        "How long a gateway waits for the response of another service, and for a cluster's list of services.",
        "A page that waits longer seems broken.",
    )
    yield key("service.peers.hosts", Kind.PATTERNS, ".*").means(
        "Hosts that a gateway may query. Anyone who may write to `srm-services.internal` can add others.",
        "Correct if only services may write to that topic.",
    )
    yield key("service.peers.ca.location", Kind.TEXT, None).means(
        "PEM file of the CAs to trust for services with `https`. Default: the system's.",
        "Certificates that the system trusts need no file.",
    )
    yield key("service.peer.*", Kind.TEXT, None).means(
        "Credentials for other services, by host: `service.peer.<host>.user` and `service.peer.<host>.password`, or "
        "`service.peer.<host>.token` for a bearer token. They are sent to that host only.",
        "Each service has its own users.",
    )


KEYS: tuple[Key, ...] = (
    *file_keys(),
    *selection_keys(),
    *topics_keys(),
    *schema_keys(),
    *offsets_keys(),
    *state_keys(),
    *copying_keys(),
    *scheduling_keys(),
    *alarm_keys(),
    *metrics_topic_keys(),
    *store_keys(),
    *prometheus_keys(),
    *peer_keys(),
    *without_effect_keys(),
)
BY_NAME: dict[str, Key] = {name: key for key in KEYS for name in (key.name, *key.legacy)}
#: Further spellings, by level, of keys that act.
ALSO: dict[tuple[Level, str], Key] = {place: key for key in KEYS for place in key.also}
#: Settings of Kafka's clients that act as one of these keys, by their names without a client's prefix.
CLIENT_SETTINGS: dict[str, Key] = {
    name.removeprefix("source.consumer.").removeprefix("target.producer.").removeprefix("admin."): key
    for _, name in ALSO
    for key in [ALSO[_, name]]
    if name.startswith(("source.consumer.", "target.producer.", "admin."))
}
FLOW_KEYS: tuple[Key, ...] = tuple(key for key in KEYS if key.field is not None)
# Longest first: ``key.converter.*`` before anything shorter that it also begins with.
_FAMILIES = sorted((key for key in KEYS if key.is_family), key=lambda key: -len(key.name))


def known_key(name: str) -> Key | None:
    """The key called ``name``, by its older names and by its family's too, or None."""
    found = BY_NAME.get(name)
    if found is not None:
        return found
    return next((family for family in _FAMILIES if name.startswith(family.name[:-1])), None)
