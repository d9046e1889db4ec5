"""Keys that determine what is copied, and the properties of remote topics."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.settings.key import ALL_LEVELS, FLOW_ONLY, Key, Kind, consumer_spellings

_BROKER_DEFAULT = "-1 leaves it to the broker."
_TO_MM2 = "MirrorMaker 2's default."
_BACK = "Groups can return at any time, without a list to maintain."


def selection_keys() -> Iterator[Key]:
    section = "What is copied"
    yield Key(
        "enabled",
        section,
        Kind.SWITCH,
        "false",
        "Whether the flow exists: one DAG per enabled flow.",
        _TO_MM2,
        levels=FLOW_ONLY,
        field="enabled",
    )
    yield Key(
        "topics",
        section,
        Kind.PATTERNS,
        ".*",
        "Topics to copy: an expression must match the whole name. An empty list matches nothing.",
        _TO_MM2,
        field="topics",
    )
    yield Key(
        "topics.exclude",
        section,
        Kind.PATTERNS,
        r".*[\-\.]internal, .*\.replica, __.*",
        "Topics not to copy; overrides `topics`. Setting it replaces the default list. Internal topics and "
        "topics that came from the target are never copied, whatever this says.",
        _TO_MM2,
        field="topics_exclude",
        legacy=("topics.blacklist",),
    )
    yield Key(
        "groups",
        section,
        Kind.PATTERNS,
        ".*",
        "Consumer groups whose offsets are translated.",
        _TO_MM2,
        field="groups",
    )
    yield Key(
        "groups.exclude",
        section,
        Kind.PATTERNS,
        "console-consumer-.*, connect-.*, __.*",
        "Consumer groups to exclude; overrides `groups`.",
        _TO_MM2,
        field="groups_exclude",
        legacy=("groups.blacklist",),
    )
    yield Key(
        "reverse.checkpointing.enabled",
        section,
        Kind.SWITCH,
        "true",
        "Translate the offsets that groups at the source have committed on copies back to the originals on the target, "
        "see [failover.md](failover.md).",
        _BACK,
        field="reverse_checkpointing",
        legacy=("cloudera.reverse.checkpointing.enabled",),
    )
    yield Key(
        "reverse.checkpointed.topics",
        section,
        Kind.PATTERNS,
        ".*",
        "Copies at the source, by their names there, to which reverse checkpointing applies.",
        _BACK,
        field="reverse_topics",
    )
    yield Key(
        "reverse.checkpointed.topics.exclude",
        section,
        Kind.PATTERNS,
        "",
        "Copies to which it does not apply; overrides `reverse.checkpointed.topics`.",
        _BACK,
        field="reverse_topics_exclude",
    )
    for what, plural in (("topic", "topics"), ("group", "groups"), ("config.property", "properties")):
        default = f"Default{what.title().replace('.', '')}Filter"
        yield Key(
            f"{what}.filter.class",
            section,
            Kind.TEXT,
            default,
            f"How {plural} are filtered: `{default}` (lists of expressions; Java's full name is accepted), or the "
            "dotted path of a Python class, see [filters.md](filters.md).",
            _TO_MM2,
        )
    yield Key(
        "transforms",
        section,
        Kind.NAMES,
        None,
        "Connect's single message transforms are Java classes and are not loaded: a flow that configures any is "
        "stopped, since records that they should mask or drop would be copied unchanged.",
        "Records are copied unchanged.",
    )
    yield Key(
        "heartbeats.replication.enabled",
        section,
        Kind.SWITCH,
        "true",
        "Copy heartbeats topics whatever `topics` says, so that upstream clusters can be discovered.",
        _TO_MM2,
        field="heartbeats_replication",
    )
    yield Key(
        "consumer.auto.offset.reset",
        section,
        Kind.CHOICE,
        "earliest",
        "Where to start in a partition that was never copied. Also read as `<source>.consumer.auto.offset.reset` "
        "and `<source>-><target>.source.consumer.auto.offset.reset`.",
        "Nothing is skipped unless configured.",
        choices=("earliest", "latest"),
        field="auto_offset_reset",
        also=consumer_spellings("auto.offset.reset"),
    )
    yield Key(
        "start.positions",
        section,
        Kind.STARTS,
        "",
        "Where to start in partitions that were never copied, by topic: `orders.*=latest, "
        "payments=timestamp:2026-01-01T00:00:00Z, audit=offsets:0=100;1=250`, also `earliest` and `opposite` (after "
        "what the flow in the other direction copied). The first expression that matches the whole name applies, "
        "otherwise `consumer.auto.offset.reset`. Decided once per topic; see [start-positions.md](start-positions.md).",
        "Nothing is skipped unless configured.",
        levels=ALL_LEVELS,
        field="start_positions",
    )
    yield Key(
        "consumer.isolation.level",
        section,
        Kind.CHOICE,
        "read_committed",
        "Which records of the source are copied; `read_uncommitted` has an effect only if "
        "`exactly.once.source.support` is not `enabled`.",
        "Aborted records would become visible on the target.",
        choices=("read_committed", "read_uncommitted"),
        field="read_committed",
        also=consumer_spellings("isolation.level"),
    )


def topics_keys() -> Iterator[Key]:
    section = "Remote topics"
    yield Key(
        "replication.policy.class",
        section,
        Kind.TEXT,
        "DefaultReplicationPolicy",
        "How remote topics are named: `DefaultReplicationPolicy` (alias, separator, name), "
        "`IdentityReplicationPolicy` (unchanged), `MigratingReplicationPolicy` (unchanged, heartbeats as by default) "
        "or the dotted path of a Python class (docs/policies.md). Java's full class names are accepted.",
        _TO_MM2,
        levels=ALL_LEVELS,
    )
    yield Key(
        "replication.policy.switch",
        section,
        Kind.CHOICE,
        "refuse",
        "What to do if another policy or separator would rename existing copies: `refuse` stops the flow and lists "
        "them; `force` continues under the new names, and the old copies stay as they are.",
        "Consumers of the old names would silently get no more records.",
        levels=ALL_LEVELS,
        choices=("refuse", "force"),
        field="policy_switch",
    )
    yield Key(
        "replication.policy.separator",
        section,
        Kind.TEXT,
        ".",
        "Between the alias and the name of a remote topic.",
        _TO_MM2,
        levels=ALL_LEVELS,
    )
    yield Key(
        "replication.policy.internal.topic.separator.enabled",
        section,
        Kind.SWITCH,
        "true",
        "Use the separator in the names of checkpoints and offset-syncs topics, too.",
        _TO_MM2,
        levels=ALL_LEVELS,
    )
    yield Key(
        "replication.factor",
        section,
        Kind.WHOLE,
        "2",
        "Replicas of new remote topics. " + _BROKER_DEFAULT + " A value above the number of the target's brokers is "
        "lowered, and the plan says so.",
        _TO_MM2,
        minimum=-1,
        field="replication_factor",
    )
    yield Key(
        "refresh.topics.enabled",
        section,
        Kind.SWITCH,
        "true",
        "Look for new topics and partitions.",
        _TO_MM2,
        field="refresh_topics",
    )
    yield Key(
        "refresh.topics.interval.seconds",
        section,
        Kind.NUMBER,
        "600",
        "How often at most; 0 means each run. A negative value turns it off.",
        _TO_MM2,
        unit="seconds",
        field="refresh_topics_interval_seconds",
    )
    yield Key(
        "sync.topic.configs.enabled",
        section,
        Kind.SWITCH,
        "true",
        "Keep the topic settings of remote topics in sync with the source.",
        _TO_MM2,
        field="sync_topic_configs",
        legacy=("sync.topic.configs",),
    )
    yield Key(
        "sync.topic.configs.interval.seconds",
        section,
        Kind.NUMBER,
        "600",
        "How often at most; 0 means each run.",
        _TO_MM2,
        unit="seconds",
        field="sync_topic_configs_interval_seconds",
    )
    yield Key(
        "config.properties.exclude",
        section,
        Kind.PATTERNS,
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
        r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
        r"min\.insync\.replicas",
        "Topic settings that are not copied. Setting it replaces the default list.",
        _TO_MM2,
        field="config_properties_exclude",
        legacy=("config.properties.blacklist",),
    )
    yield Key(
        "use.defaults.from",
        section,
        Kind.CHOICE,
        "target",
        "Where the value of a topic setting comes from that the source leaves at its default.",
        _TO_MM2,
        choices=("source", "target"),
        field="use_defaults_from",
    )
    yield Key(
        "sync.topic.acls.enabled",
        section,
        Kind.SWITCH,
        "true",
        "Permit principals that may read a source topic to read its copy.",
        _TO_MM2,
        field="sync_topic_acls",
        legacy=("sync.topic.acls",),
    )
    yield Key(
        "sync.topic.acls.interval.seconds",
        section,
        Kind.NUMBER,
        "600",
        "How often at most; 0 means each run.",
        _TO_MM2,
        unit="seconds",
        field="sync_topic_acls_interval_seconds",
    )
    yield Key(
        "sync.topic.acls.replicator.principals",
        section,
        Kind.TEXT,
        "",
        "The principals with which the replicator writes to the target, such as `User:srm`, separated by semicolons. "
        "No DENY of the source is carried over to them, and other writers of copies are reported. Empty: the user name "
        "in the target's connection settings.",
        "Only the broker knows the principal of a certificate or a token.",
        field="acl_replicator_principals",
    )
