"""A flow: one directed pair of clusters, with every setting resolved and typed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Any, Literal

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.flow_name import FlowName
from srm_common.domain.flow.graph_flow import GraphFlow
from srm_common.domain.flow.start_position import TopicStart
from srm_common.domain.policy import DefaultReplicationPolicy, ReplicationPolicy, policy_name
from srm_common.domain.transforms.chain import Chain
from srm_common.domain.transforms.plain_statements import needs_spark
from srm_common.domain.transforms.statements import PythonTransform, Statement
from srm_common.errors import ConfigError

# The notifiers of alarms: any of Airflow or of one of its providers, named in the configuration file.


#: What the keys of notifiers begin with: ``alarm.notifier.<name>.class`` and ``alarm.notifier.<name>.<argument>``.
NOTIFIER_KEYS = "alarm.notifier."
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


@dataclass(frozen=True, slots=True)
class AlarmNotifier:
    """``path`` is the dotted path of a class, ``arguments`` what it is made with, which may be secret."""

    name: str
    path: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)


def alarm_notifiers(names: Iterable[str], settings: Mapping[str, str]) -> tuple[AlarmNotifier, ...]:
    """The notifiers called ``names``, in their order. ``settings`` are all keys below :data:`NOTIFIER_KEYS`, in full.

    Values that are JSON of something else than a text (``["a@b", "c@d"]``, ``true``, ``5``) are taken as that, all
    others as the text that they are. The class is not imported, since a provider need not be installed where the file
    is read.

    Raises:
        ConfigError: a name has no class, or one that cannot be a dotted path; the message names the key.
    """
    return tuple(_notifier(name, settings) for name in dict.fromkeys(names))


def _notifier(name: str, settings: Mapping[str, str]) -> AlarmNotifier:
    prefix = f"{NOTIFIER_KEYS}{name}."
    arguments = {key[len(prefix) :]: value for key, value in settings.items() if key.startswith(prefix)}
    path = arguments.pop("class", "").strip()
    if not path:
        raise ConfigError(f"names '{name}', which has no {prefix}class; write the dotted path of an Airflow notifier")
    if not _DOTTED.fullmatch(path):
        raise ConfigError(f"names '{name}', whose {prefix}class = {path} is not the dotted path of a class")
    return AlarmNotifier(name, path, {key: _value(text.strip()) for key, text in arguments.items()})


def _value(text: str) -> Any:
    try:
        loads = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(loads, str) else loads


#: Kafka's codecs, by their ids in the attributes of a batch (``CompressionType``).
COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec of :data:`COMPRESSION_TYPES`, and its level in the words of Kafka's producer (KIP-390)."""

    codec: str
    level: int = 0


@dataclass(frozen=True, slots=True)
class FilterClass:
    """A filter of the user's own: its dotted path, and the class, which is given a flow's include and exclude lists
    (:mod:`srm_common.domain.filters.flow_filters`)."""

    path: str
    make: Callable[..., Any] = field(repr=False)


#: Also with ``retry.timeout.seconds = 0``, which is about partitions that fail.
_LEAST_PATIENCE_SECONDS = 30.0
#: Whatever ``admin.timeout.ms`` says: nothing is copied meanwhile, and the caller is waiting.
_LONGEST_REQUEST_SECONDS = 30.0


Provenance = Literal["flow", "cluster", "topic", "partition", "offset"]
#: What headers can say about where a copy came from, and their names.
PROVENANCE_HEADERS: Mapping[Provenance, str] = {
    "flow": "srm.flow",
    "cluster": "srm.source.cluster",
    "topic": "srm.source.topic",
    "partition": "srm.source.partition",
    "offset": "srm.source.offset",
}


class OnDataLoss(StrEnum):
    """What a flow does about records that vanished: at the source before they were copied, or on the target after."""

    FAIL = "fail"
    SKIP = "skip"
    RESET = "reset"


#: Switches of jobs that MirrorMaker 2 does not start with a negative interval (``Scheduler.scheduleRepeating``,
#: ``MirrorCheckpointConnector.taskConfigs``, ``MirrorHeartbeatConnector.taskConfigs``).
_WITH_INTERVAL: tuple[str, ...] = ("refresh_topics", "sync_topic_configs", "sync_topic_acls", "sync_group_offsets")
_WITH_INTERVAL += ("emit_heartbeats", "emit_checkpoints")


def _plain(value: Any, *, shown: bool = False) -> Any:
    """A step as JSON takes it, without the fields that have their defaults; or only with those that ``repr`` shows."""
    if isinstance(value, Mapping):
        return {str(name): _plain(found, shown=shown) for name, found in value.items()}
    if is_dataclass(value):
        own = {one.name: getattr(value, one.name) for one in fields(value) if one.repr or not shown}
        defaults = {one.name: one.default for one in fields(value)}
        own = {name: found for name, found in own.items() if found != defaults[name]}
        return [type(value).__name__, {name: _plain(found, shown=shown) for name, found in own.items()}]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset | set):
        return sorted(_plain(one, shown=shown) for one in value)
    return [_plain(one, shown=shown) for one in value] if isinstance(value, tuple | list) else value


@dataclass(frozen=True)
class FlowSettings:
    """All settings of one flow. Field names follow the property names; docs/configuration.md explains each.

    Fields that end in ``_seconds``, ``_ms`` or ``_bytes`` are in that unit. An interval of 0 means each run, a negative
    one turns its switch off, as in MirrorMaker 2.
    """

    name: FlowName
    source: ClusterSettings
    target: ClusterSettings
    enabled: bool = False
    #: The file says ``enabled = false``, rather than nothing: then no run copies because of a schedule.
    disabled: bool = False
    policy: ReplicationPolicy = field(default_factory=DefaultReplicationPolicy)
    policy_switch: Literal["refuse", "force"] = "refuse"
    #: The aliases of the file's clusters, and every enabled flow in its order; empty where nothing is known of others.
    aliases: tuple[str, ...] = field(default=(), repr=False, compare=False)
    graph: tuple[GraphFlow, ...] = field(default=(), repr=False, compare=False)

    topics: tuple[str, ...] = (".*",)
    topics_exclude: tuple[str, ...] = (r".*[\-\.]internal", r".*\.replica", "__.*")
    groups: tuple[str, ...] = (".*",)
    groups_exclude: tuple[str, ...] = ("console-consumer-.*", "connect-.*", "__.*")
    config_properties_exclude: tuple[str, ...] = (
        r"follower\.replication\.throttled\.replicas",
        r"leader\.replication\.throttled\.replicas",
        r"message\.timestamp\.difference\.max\.ms",
        r"message\.timestamp\.type",
        r"unclean\.leader\.election\.enable",
        r"min\.insync\.replicas",
    )
    # Dotted paths of Python classes; None: the lists above.
    topic_filter_class: FilterClass | None = None
    group_filter_class: FilterClass | None = None
    config_property_filter_class: FilterClass | None = None
    #: Copies of the flow in the other direction whose consumers' offsets are translated back.
    reverse_checkpointing: bool = True
    reverse_topics: tuple[str, ...] = (".*",)
    reverse_topics_exclude: tuple[str, ...] = ()
    use_defaults_from: Literal["source", "target"] = "target"

    tasks_max: int = 2
    replication_factor: int = 2
    internal_replication_factor: int = 3
    status_replication_factor: int = 3
    config_replication_factor: int = 3
    heartbeats_replication_factor: int = 3
    checkpoints_replication_factor: int = 3
    offset_syncs_replication_factor: int = 3
    offsets_partitions: int = 25
    status_partitions: int = 5
    metric_names_formats: tuple[str, ...] = ("legacy",)
    offset_syncs_topic_location: Literal["source", "target"] = "source"
    heartbeats_topic_location: Literal["auto", "both", "source", "target"] = "auto"
    offset_lag_max: int = 100

    exactly_once: bool = True
    read_committed: bool = True
    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    start_positions: tuple[TopicStart, ...] = ()
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    on_target_loss: OnDataLoss = OnDataLoss.FAIL

    refresh_topics: bool = True
    refresh_topics_interval_seconds: float = 600.0
    sync_topic_configs: bool = True
    sync_topic_configs_interval_seconds: float = 600.0
    sync_topic_acls: bool = True
    sync_topic_acls_interval_seconds: float = 600.0
    acl_replicator_principals: str = ""
    acl_replicator_superuser: bool = False
    sync_schemas: bool = False
    sync_schemas_interval_seconds: float = 0.0
    schemas_subjects: tuple[str, ...] = (".*",)
    schemas_subjects_exclude: tuple[str, ...] = ()
    schemas_context: str = ""
    schemas_ids: Literal["keep", "map"] = "keep"
    schemas_ids_keys: tuple[str, ...] = ()
    schemas_ids_values: tuple[str, ...] = (".*",)
    schemas_compatibility: Literal["none", "subjects", "all"] = "subjects"
    emit_heartbeats: bool = True
    emit_heartbeats_interval_seconds: float = 1.0
    emit_checkpoints: bool = True
    emit_checkpoints_interval_seconds: float = 60.0
    emit_checkpoints_in_runs_interval_seconds: float = 5.0
    emit_offset_syncs: bool = True
    sync_group_offsets: bool = False
    sync_group_offsets_interval_seconds: float = 60.0
    heartbeats_replication: bool = True

    run_max_seconds: float = 0.0
    schedule_interval_seconds: float = 30.0
    lag_objective_records: int | None = None
    #: None: by the schedule.
    stalled_after_seconds: float | None = None
    certificate_expiry_warning_days: float = 30.0
    open_transaction_alarm_seconds: float = 1200.0
    metrics_topic: bool = False
    metrics_topic_retention_ms: int = 604_800_000
    alarm_notifiers: tuple[AlarmNotifier, ...] = ()
    transforms: Chain = ()
    statements: tuple[Statement, ...] = ()
    transforms_python: str = ""
    transforms_python_timeout_seconds: float = 10.0
    provenance_headers: tuple[str, ...] = ("none",)
    copy_source_offset_in_header: bool = False
    preview_values_enabled: bool = False
    errors_tolerance: Literal["none", "all"] = "none"
    errors_log_enable: bool = False
    errors_deadletterqueue_topic_name: str = ""
    errors_deadletterqueue_topic_replication_factor: int = 3
    errors_deadletterqueue_context_headers_enable: bool = False
    chunk_bytes: int = 64 << 20
    chunk_seconds: float = 5.0
    chunk_linger_ms: int = 200
    fetch_bytes: int = 16 << 20
    fetch_partition_bytes: int = 4 << 20
    fetch_max_wait_ms: int = 500
    compression_type: Literal["producer", "none", "gzip", "snappy", "lz4", "zstd"] = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    transaction_timeout_ms: int = 30_000
    request_timeout_ms: int = 30_000
    admin_timeout_ms: int = 60_000
    retry_timeout_seconds: float = 60.0
    retries: int = 2
    retry_delay_seconds: float = 10.0
    execution_timeout_seconds: float = 21_600.0
    airflow_pool: str = "default_pool"
    spark_connection: str = "spark"
    spark_min_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source.of_role(only_read=True))
        object.__setattr__(self, "target", self.target.of_role(only_read=False))
        for switch in _WITH_INTERVAL:
            if getattr(self, f"{switch}_interval_seconds") < 0:
                object.__setattr__(self, switch, False)

    def cluster(self, alias: str) -> ClusterSettings | None:
        """How to reach a cluster of this flow, or of another enabled flow of the file; None: none has it. Raises
        :class:`ConfigError` if none that has it says how."""
        for end in (self.target, self.source):
            if end.alias == alias:
                return end
        fault: ConfigError | None = None
        for flow in reversed(self.graph):
            if alias in (flow.name.source, flow.name.target):
                try:
                    return flow.target if flow.name.target == alias else flow.source
                except ConfigError as error:  # of this flow's own settings for it
                    fault = fault or error
        if fault is not None:
            raise fault
        return None

    @property
    def patience_seconds(self) -> float:
        """How long a run waits for a cluster that has to answer before anything can be copied: as long as for a
        partition, but never less than a leader's move takes."""
        return max(_LEAST_PATIENCE_SECONDS, self.retry_timeout_seconds)

    @property
    def request_seconds(self) -> float:
        """How long one request about state, groups or records of topics may take: ``admin.timeout.ms``, and since
        they are small no more than 30 s."""
        return min(_LONGEST_REQUEST_SECONDS, self.admin_timeout_ms / 1000)

    @property
    def python_transform(self) -> PythonTransform | None:
        """The user's function, if there is one."""
        if not self.transforms_python:
            return None
        return PythonTransform(self.transforms_python, self.transforms_python_timeout_seconds)

    @property
    def has_transforms(self) -> bool:
        """Whether records may come out other than they went in, or not at all."""
        return bool(self.transforms or self.statements or self.transforms_python)

    @property
    def needs_spark_sql(self) -> bool:
        """Whether only Spark can evaluate the flow's statements."""
        return needs_spark(self.statements)

    @property
    def maps_schema_ids(self) -> bool:
        """Whether records get the ids of the target's registry."""
        return self.sync_schemas and self.schemas_ids == "map"

    @property
    def transforms_digest(self) -> str:
        """A digest of what is done to records; empty if nothing is. The same text for the same steps in all versions,
        as far as fields of steps that are new have defaults. The code of functions is not part of it, but of run
        records."""
        steps = [*self.transforms, *self.statements, self.transforms_python, self.provenance]
        if self.maps_schema_ids:
            steps.append(("schemas.ids", self.schemas_ids_keys, self.schemas_ids_values))
        if not any(steps):
            return ""
        return hashlib.sha256(json.dumps([_plain(step) for step in steps]).encode()).hexdigest()[:12]

    @property
    def digest(self) -> str:
        """A digest of what ``repr`` shows, so without secrets, and without the clusters' settings: two runs with the
        same one were configured alike."""
        ends = ("source", "target", "policy", "aliases")
        shown = {one.name: _plain(getattr(self, one.name), shown=True) for one in fields(self) if one.name not in ends}
        shown |= {"policy": policy_name(self.policy), "graph": None}
        return hashlib.sha256(json.dumps(shown, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        """Which headers copies get that say where they came from, in their order; the offset is the last."""
        wanted = {*self.provenance_headers, *(("offset",) if self.copy_source_offset_in_header else ())}
        return tuple(header for header in PROVENANCE_HEADERS if header in wanted)

    @property
    def dead_letter_topic(self) -> str:
        """Where records go that a transform cannot handle; empty where the flow writes none."""
        return self.errors_deadletterqueue_topic_name if self.skips_records else ""

    @property
    def skips_records(self) -> bool:
        """Whether records that a transform cannot handle are left out of the copies."""
        return (self.has_transforms or self.maps_schema_ids) and self.errors_tolerance == "all"

    @property
    def compression(self) -> Compression | None:
        """How copies are to be compressed; None: as their producers did it."""
        kind = self.compression_type
        return None if kind == "producer" else Compression(kind, getattr(self, f"compression_{kind}_level", 0))

    @property
    def heartbeats_location(self) -> Literal["both", "source", "target"]:
        """``heartbeats_topic_location``, decided: a source spared from offset syncs is spared from heartbeats, too."""
        if self.heartbeats_topic_location == "auto":
            return "target" if self.offset_syncs_topic_location == "target" else "both"
        return self.heartbeats_topic_location
