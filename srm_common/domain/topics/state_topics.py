"""The topics that hold a flow's state: the cluster and the settings of each, and what its loss would mean.

:func:`judge` compares one with what a cluster has; it decides and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from srm_common.domain.cluster import MAX_MESSAGE_BYTES
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.topics.refused_settings import LIMITS, MAX_MESSAGE, described

#: As many as Connect's offsets topic has by default: a chunk adds the partitions it writes to its transaction, so
#: more of them cost more markers, while fewer let one open transaction hide more of the map.
SEGMENTS_PARTITIONS = 25

_MIB = 1 << 20
#: The active segment of a log is never compacted, and every run reads these topics from their start. Kafka's
#: default of 1 GiB would have a busy flow read gigabytes to learn a few hundred numbers.
_SMALL_LOG_SEGMENTS = str(16 * _MIB)
#: Each chunk writes an offset of each of its partitions, and a marker: a busy flow a hundred thousand records an hour,
#: of which a few hundred count. The smallest segments that brokers take, and cleaning within the hour whatever the
#: share of what is superseded (KIP-354: it also rolls the active segment), keep what a start reads near what counts.
#: MirrorMaker 2 reads the same topic whole at its start, and needs nothing older either.
_SUPERSEDED_SOON = {"segment.bytes": _MIB, "max.compaction.lag.ms": 3_600_000}
#: A round of checkpoints writes a few records of each of its thousands of groups, which compress well: 16 MiB of them
#: would be millions to read at each round. With a new segment an hour the cleaner keeps the log near what it says.
_HOURLY_LOG_SEGMENTS = {"segment.bytes": _SMALL_LOG_SEGMENTS, "segment.ms": str(3_600_000)}
#: Segments are joined, and tombstones take the place of those that were. What a flow that copies a trickle writes in an
#: hour is a quarter of its data, until the cleaner has seen it; readers need an hour of tombstones at the very most.
_MAP_SETTINGS = {**_HOURLY_LOG_SEGMENTS, "delete.retention.ms": str(3_600_000)}
#: A run record takes 50 to 100 bytes a partition when it is compressed, as it is written: Kafka's default is enough for
#: ten thousand partitions, what managed clusters take for a hundred thousand.
_LARGE_RECORDS = 16 * _MIB
_IN_SYNC = "min.insync.replicas"
_RETENTION = "retention.ms"

Location = Literal["source", "target"]


@dataclass(frozen=True)
class StateTopic:
    """One state topic.

    ``partitions`` and ``replication_factor`` (-1: the broker's default) are what it is created with.
    ``exact_partitions``: with any other number it cannot be used. ``precious``: records that are gone are not derived
    again, or not without an operator, so a cleanup policy that may have deleted some is not fixed silently;
    ``restored_by`` is the command for that, empty where there is none. ``cleanup_policy`` is what the topic must have,
    unless ``any_policy`` says that it is only created with it. It can do without the others, which a cluster may
    refuse: ``created_with`` counts at its creation, ``at_least`` are numeric settings that may be larger, ``at_most``
    such as may be smaller.
    """

    name: str
    location: Location
    partitions: int
    replication_factor: int
    exact_partitions: bool = False
    precious: bool = False
    restored_by: str = ""
    created_with: Mapping[str, str] = field(default_factory=dict)
    at_least: Mapping[str, int] = field(default_factory=dict)
    at_most: Mapping[str, int] = field(default_factory=dict)
    cleanup_policy: Literal["compact", "delete"] = "compact"
    any_policy: bool = False

    @property
    def needs(self) -> dict[str, str]:
        """Settings at its creation that no cluster may refuse."""
        return {"cleanup.policy": self.cleanup_policy}

    @property
    def wishes(self) -> dict[str, str]:
        """The other settings at its creation."""
        limits = {name: str(value) for name, value in {**self.at_least, **self.at_most}.items()}
        return {**self.created_with, **limits}


@dataclass(frozen=True)
class FoundTopic:
    """What a cluster has. ``log_starts_at_zero`` is None if not checked."""

    partitions: int
    replication_factor: int
    settings: Mapping[str, str]
    log_starts_at_zero: bool | None = None


@dataclass(frozen=True)
class Create:
    """The topic does not exist."""

    topic: StateTopic


@dataclass(frozen=True)
class Repair:
    """Some settings are to be set; nothing was lost. Without those in ``wanted`` the topic can be used all the same:
    it may be another software's, and the cluster may not take them from us, or not at all."""

    topic: StateTopic
    settings: Mapping[str, str]
    wanted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refuse:
    """The topic cannot be trusted. ``setting`` is the cause, ``command`` fixes it; ``then`` restores records that are
    gone, empty where nothing does."""

    topic: StateTopic
    setting: str
    reason: str
    command: str
    then: str = ""


@dataclass(frozen=True)
class Fine:
    topic: StateTopic


Verdict = Create | Repair | Refuse | Fine


def state_topics(flow: FlowSettings) -> tuple[StateTopic, ...]:
    """The topics that ``flow`` cannot run without; the offset-syncs topic only where the flow emits them."""
    source = flow.name.source
    internal = flow.internal_replication_factor
    out = [
        StateTopic(
            names.offsets_topic(source),
            "target",
            flow.offsets_partitions,
            internal,
            precious=True,
            restored_by=f"srm-control repair --flow '{flow.name}'",
            at_most=_SUPERSEDED_SOON,
        ),
        StateTopic(
            names.segments_topic(source),
            "target",
            SEGMENTS_PARTITIONS,
            internal,
            precious=True,
            created_with=_MAP_SETTINGS,
            # The batches of a chunk's map are as large as that.
            at_least={MAX_MESSAGE: MAX_MESSAGE_BYTES},
        ),
        flow_state_topic(flow),
        meta_topic(internal),
        # Connect refuses a config topic of more than one partition.
        StateTopic(names.configs_topic(source), "target", 1, flow.config_replication_factor, exact_partitions=True),
        StateTopic(names.status_topic(source), "target", flow.status_partitions, flow.status_replication_factor),
        StateTopic(
            names.checkpoints_topic(flow),
            "target",
            1,
            flow.checkpoints_replication_factor,
            created_with=_HOURLY_LOG_SEGMENTS,
        ),
    ]
    if flow.emit_offset_syncs:
        out.append(
            StateTopic(
                names.offset_syncs_topic(flow),
                flow.offset_syncs_topic_location,
                1,
                flow.offset_syncs_replication_factor,
            )
        )
    return tuple(out)


def flow_state_topic(flow: FlowSettings) -> StateTopic:
    """Run record, last plan, decisions, and what else a flow remembers besides its progress."""
    return StateTopic(
        names.flow_state_topic(flow.name.source),
        "target",
        1,
        flow.internal_replication_factor,
        exact_partitions=True,
        created_with={"segment.bytes": _SMALL_LOG_SEGMENTS},
        at_least={MAX_MESSAGE: _LARGE_RECORDS},
    )


def metrics_topic(flow: FlowSettings) -> StateTopic:
    """Raw metrics in the order of time, as long as they are kept; made where a flow writes them."""
    return StateTopic(
        names.metrics_topic(flow.name.source),
        "target",
        1,
        flow.internal_replication_factor,
        exact_partitions=True,
        created_with={_RETENTION: str(flow.metrics_topic_retention_ms)},
        cleanup_policy="delete",
    )


def meta_topic(replication_factor: int) -> StateTopic:
    """The one topic with the records of all flows into a cluster."""
    small = {"segment.bytes": _SMALL_LOG_SEGMENTS}
    return StateTopic(names.META_TOPIC, "target", 1, replication_factor, exact_partitions=True, created_with=small)


def heartbeats(flow: FlowSettings, location: Location = "target") -> StateTopic:
    """The one topic that all flows of a cluster share, as may other software: its policy is its owner's business, since
    only the newest heartbeats count."""
    return StateTopic(names.heartbeats_topic(), location, 1, flow.heartbeats_replication_factor, any_policy=True)


def written_heartbeats(flow: FlowSettings) -> tuple[StateTopic, ...]:
    """The heartbeats topics that ``flow`` writes to: none, that of its target, of its source, or both."""
    places: tuple[Location, ...] = ("target", "source") if flow.emit_heartbeats else ()
    return tuple(heartbeats(flow, place) for place in places if flow.heartbeats_location in (place, "both"))


def control_log(flow: FlowSettings) -> StateTopic:
    """The history of edits, shared by all flows into a cluster; made when there is a first one."""
    return StateTopic(names.CONTROL_TOPIC, "target", 1, flow.internal_replication_factor, exact_partitions=True)


def services_topic(replication_factor: int) -> StateTopic:
    """Where to find the services of a cluster; records are renewed all the time, and few of them count."""
    return StateTopic(
        names.SERVICES_TOPIC,
        "target",
        1,
        replication_factor,
        exact_partitions=True,
        created_with=_HOURLY_LOG_SEGMENTS,
    )


def judge(topic: StateTopic, found: FoundTopic | None, bootstrap_servers: str) -> Verdict:
    """What is to be done about ``topic``.

    Args:
        found: what the cluster has, None when it has no such topic.
        bootstrap_servers: for the commands in refusals.
    """
    if found is None:
        return Create(topic)
    if topic.exact_partitions and found.partitions != topic.partitions:
        return Refuse(
            topic,
            "partitions",
            f"it has {found.partitions} partitions where only {topic.partitions} can be used",
            f"kafka-topics.sh --bootstrap-server {bootstrap_servers} --delete --topic {topic.name}",
        )
    policy = found.settings.get("cleanup.policy", "compact")
    repairs: dict[str, str] = {}
    if policy != topic.cleanup_policy and not topic.any_policy:
        repairs["cleanup.policy"] = topic.cleanup_policy
        if topic.precious and not found.log_starts_at_zero:
            return Refuse(
                topic,
                "cleanup.policy",
                f"cleanup.policy={policy} must be compact, and records may have been deleted already",
                alter_command(topic, bootstrap_servers, repairs),
                topic.restored_by,
            )
    wanted: dict[str, str] = {}
    if int(found.settings.get(_IN_SYNC, "1")) > found.replication_factor:
        # The brokers' default may ask for more replicas than the flow gives. Before Kafka 3.7 (KIP-966) nothing can
        # write to such a topic; since then this is what the brokers make of it.
        wanted[_IN_SYNC] = str(found.replication_factor)
    # What a managed cluster has taken at best is not asked for again and again.
    for name, least in topic.at_least.items():
        if int(found.settings.get(name, least)) < min(least, LIMITS.get(name, least)):
            wanted[name] = str(least)
    for name, most in topic.at_most.items():
        if int(found.settings.get(name, most)) > max(most, LIMITS.get(name, most)):
            wanted[name] = str(most)
    return Repair(topic, repairs, wanted) if repairs or wanted else Fine(topic)


def price(settings: Iterable[str]) -> str:
    """What a state topic is without these settings, which a cluster has refused; to follow its name."""
    costs = {
        MAX_MESSAGE: "takes no record that is larger than its max.message.bytes, such as the run record of a flow with "
        "very many partitions",
        _IN_SYNC: "can only be written to if its brokers are of Kafka 3.7 or newer",
        _RETENTION: "keeps its records as long as the cluster says",
    }
    told = dict.fromkeys(costs.get(key, "takes longer to read than necessary") for key in settings)
    return " and ".join(told)


def created_text(topic: StateTopic, alias: str, given: Mapping[str, str], refusal: str) -> str:
    """That a topic was created at the cluster ``alias``, with what is ``given`` of its wishes.

    Args:
        refusal: the last reason for which the cluster refused others.
    """
    text = f"created state topic {topic.name} on cluster '{alias}'"
    lacking = {key: value for key, value in topic.wishes.items() if given.get(key) != value}
    if not lacking:
        return text
    return f"{text} {described(topic.wishes, given)}, because the cluster refused more: {refusal}; it {price(lacking)}"


def alter_command(topic: StateTopic, bootstrap_servers: str, settings: Mapping[str, str]) -> str:
    """The command that gives ``topic`` these settings."""
    config = ",".join(f"{name}={value}" for name, value in settings.items())
    return (
        f"kafka-configs.sh --bootstrap-server {bootstrap_servers} --alter --entity-type topics "
        f"--entity-name {topic.name} --add-config {config}"
    )


def time_refused(topic: str, alias: str) -> str:
    """What to say where the cluster refuses records of a state topic for their timestamps: brokers take none that is
    more than an hour ahead of their clocks (``message.timestamp.after.max.ms``), unless configured otherwise."""
    return (
        f"state topic {topic} at cluster '{alias}' refuses records for their time: the clock of this machine and that "
        "of the broker are too far apart; set both right and run again; nothing is lost"
    )


def batch_too_large(topic: str, alias: str, size: int = 0) -> str:
    """What to say where the cluster refuses a batch for a state topic as too large; ``size`` is the batch's, in bytes,
    where it is known."""
    limit = max(size, MAX_MESSAGE_BYTES)
    return (
        f"max.message.bytes of state topic {topic} at cluster '{alias}' is too small for what has to be written "
        f"there; set it to {limit} or more and run again; nothing is lost"
    )
