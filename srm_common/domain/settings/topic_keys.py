"""Keys that determine what is copied, and the properties of remote topics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from srm_common.domain.flow.settings import PROVENANCE_HEADERS
from srm_common.domain.settings.key import ALL_LEVELS, FLOW_ONLY, LARGEST_SHORT, Key, Kind, consumer_spellings

_BROKER_DEFAULT = "-1 leaves it to the broker."
_TO_MM2 = "MirrorMaker 2's default."
_UNCHANGED = "Records are copied unopened."
_BACK = "Groups can return at any time, without a list to maintain."


def selection_keys() -> Iterator[Key]:
    key = partial(Key, section="What is copied")
    yield key("enabled", Kind.SWITCH, "false", levels=FLOW_ONLY).means(
        "Whether the flow copies on its schedule. `true`: Airflow creates its DAG unpaused. `false`: no run is "
        "scheduled, even if the DAG is unpaused; runs that are started by hand or by a move do copy. Not set, though "
        "other keys of the flow are: Airflow creates its DAG paused, and whoever unpauses it starts the flow. A flow "
        "that is enabled later has to be unpaused once.",
        _TO_MM2,
    )
    yield key("topics", Kind.PATTERNS, ".*").means(
        "Topics to copy: an expression must match the whole name. An empty list matches nothing.", _TO_MM2
    )
    yield key(
        "topics.exclude", Kind.PATTERNS, r".*[\-\.]internal, .*\.replica, __.*", legacy=("topics.blacklist",)
    ).means(
        "Topics not to copy; overrides `topics`. Setting it replaces the default list. Internal topics and "
        "topics that came from the target are never copied, whatever this says.",
        _TO_MM2,
    )
    yield key("groups", Kind.PATTERNS, ".*").means("Consumer groups whose offsets are translated.", _TO_MM2)
    yield key(
        "groups.exclude", Kind.PATTERNS, "console-consumer-.*, connect-.*, __.*", legacy=("groups.blacklist",)
    ).means("Consumer groups to exclude; overrides `groups`.", _TO_MM2)
    yield key(
        "reverse.checkpointing.enabled",
        Kind.SWITCH,
        "true",
        flow_field="reverse_checkpointing",
        legacy=("cloudera.reverse.checkpointing.enabled",),
    ).means(
        "Translate the offsets that groups at the source have committed on copies back to the originals on the target, "
        "see [failover.md](failover.md).",
        _BACK,
    )
    yield key("reverse.checkpointed.topics", Kind.PATTERNS, ".*", flow_field="reverse_topics").means(
        "Copies at the source, by their names there, to which reverse checkpointing applies.", _BACK
    )
    yield key("reverse.checkpointed.topics.exclude", Kind.PATTERNS, "", flow_field="reverse_topics_exclude").means(
        "Copies to which it does not apply; overrides `reverse.checkpointed.topics`.", _BACK
    )
    for what, plural in (("topic", "topics"), ("group", "groups"), ("config.property", "properties")):
        default = f"Default{what.title().replace('.', '')}Filter"
        yield key(f"{what}.filter.class", Kind.TEXT, default, flow_field="").means(
            f"How {plural} are filtered: `{default}` (lists of expressions; Java's full name is accepted), or the "
            "dotted path of a Python class, see [filters.md](filters.md).",
            _TO_MM2,
        )
    yield key("transforms", Kind.NAMES, None, flow_field="").means(
        "Connect's single message transforms, in their order, see [transforms.md](transforms.md). A flow with an "
        "unsupported one is stopped, since records that it should mask or drop would be copied unchanged.",
        _UNCHANGED,
    )
    yield key("predicates", Kind.NAMES, None).means(
        "Conditions that transforms name by `transforms.<name>.predicate` (KIP-585).", _UNCHANGED
    )
    yield key("transforms.*", Kind.TEXT, None).means(
        "Settings of the transform `<name>`: `transforms.<name>.type` is Kafka's class, `.predicate` and `.negate` say "
        "which records it is for.",
        _UNCHANGED,
    )
    yield key("predicates.*", Kind.TEXT, None).means(
        "Settings of the predicate `<name>`: `predicates.<name>.type` is Kafka's class.", _UNCHANGED
    )
    yield key("transforms.sql", Kind.TEXT, None, flow_field="").means(
        "A Spark SQL query `SELECT ... FROM records WHERE ...` over columns `topic`, `partition`, `offset`, `key`, "
        "`value`, `headers` and `timestamp`, and the parsed value as `json` or `avro`, after `transforms`, see "
        "[transforms.md](transforms.md#sql). Unless it is plain, its flow is copied in Spark, whatever "
        "`spark.min.bytes` says.",
        _UNCHANGED,
    )
    yield key("transforms.sql.*", Kind.TEXT, None).means(
        "`transforms.sql.<name>` is a query for the topics whose names at the source match the Java expression "
        "`transforms.sql.<name>.topics` as a whole; without one it is for all. Of several, the first by name counts, "
        "and `transforms.sql` is for the rest.",
        _UNCHANGED,
    )
    yield key("transforms.python", Kind.FUNCTION, "").means(
        "A Python function `package.module:function` that changes batches of records, after `transforms` and "
        "`transforms.sql`, see [transforms.md](transforms.md#your-own-python-functions). It must be installed wherever "
        "slots run.",
        _UNCHANGED,
    )
    yield key("transforms.python.timeout.seconds", Kind.NUMBER, "10", unit="seconds", minimum=0.1, maximum=20).means(
        "How long a call of that function may take; one that takes longer stops its partition with an error.",
        "A transaction stays open during the call.",
    )
    yield key("provenance.headers", Kind.CHOICES, "none", choices=("none", *PROVENANCE_HEADERS)).means(
        "Headers that say where a copied record came from: `cluster` (the source's alias, as `srm.source.cluster`), "
        "`topic`, `partition`, `offset` (likewise) and `flow` (`srm.flow`), see [transforms.md](transforms.md).",
        "Records are copied unopened; the offset map has the origin of each.",
    )
    yield key(
        "copy.source.offset.in.header.enabled", Kind.SWITCH, "false", flow_field="copy_source_offset_in_header"
    ).means("The same as `offset` in `provenance.headers`.", _UNCHANGED)
    yield key("preview.values.enabled", Kind.SWITCH, "false").means(
        "Whether the Replications page and the REST API show keys, values and headers of records, when transforms are "
        "tried on the newest ones, to users who may edit the flow. Without it they show only each record's "
        "result. `srm-control transform` shows values whatever this says.",
        "The flow's principal may read what a user of Airflow may not.",
    )
    yield key("errors.tolerance", Kind.CHOICE, "none", choices=("none", "all")).means(
        "What happens to a record that a transform cannot handle: `none` stops its partition there with an error, "
        "`all` leaves it out and counts it, see [transforms.md](transforms.md). Partitions that fail otherwise are "
        "retried for `retry.timeout.seconds` and then reported, whatever this says.",
        "Connect's default.",
    )
    yield key("errors.log.enable", Kind.SWITCH, "false").means(
        "Log each record that is left out, by topic, partition, offset and reason, never its key or value.",
        "Connect's default.",
    )
    yield key("errors.deadletterqueue.topic.name", Kind.TOPIC, "").means(
        "The topic on the target that gets the records which `errors.tolerance = all` leaves out, with their keys, "
        "values, headers and timestamps, in the transaction that passes them. Empty: they are dropped.",
        "Connect's default.",
    )
    yield key(
        "errors.deadletterqueue.topic.replication.factor", Kind.WHOLE, "3", minimum=-1, maximum=LARGEST_SHORT
    ).means(
        f"Its replicas where `srm-control apply` or `refresh_topics` creates it. {_BROKER_DEFAULT}",
        "Connect's default.",
    )
    yield key("errors.deadletterqueue.context.headers.enable", Kind.SWITCH, "false").means(
        "Add headers to records in the dead letter topic that say where each comes from and why it failed "
        "(`__connect.errors.topic` and others).",
        "Connect's default.",
    )
    for side in ("key", "value"):
        yield key(f"{side}.format", Kind.TEXT, None).means(
            f"What {side}s are, for transforms that use their fields: `json`, `avro`, `json-schema`, `protobuf` or "
            "`string`. "
            f"Connect's `{side}.converter` says the same, see [transforms.md](transforms.md).",
            _UNCHANGED,
        )
    yield key("heartbeats.replication.enabled", Kind.SWITCH, "true", flow_field="heartbeats_replication").means(
        "Copy heartbeats topics whatever `topics` says, so that upstream clusters can be discovered.", _TO_MM2
    )
    yield key(
        "consumer.auto.offset.reset",
        Kind.CHOICE,
        "earliest",
        flow_field="auto_offset_reset",
        choices=("earliest", "latest"),
        also=consumer_spellings("auto.offset.reset"),
    ).means(
        "Where to start in a partition that was never copied. Also read as `<source>.consumer.auto.offset.reset` "
        "and `<source>-><target>.source.consumer.auto.offset.reset`.",
        "Nothing is skipped unless configured.",
    )
    yield key("start.positions", Kind.STARTS, "", levels=ALL_LEVELS).means(
        "Where to start in partitions that were never copied, by topic: `orders.*=latest, "
        "payments=timestamp:2026-01-01T00:00:00Z, audit=offsets:0=100;1=250`, also `earliest` and `opposite` (after "
        "what the flow in the other direction copied). The first expression that matches the whole name applies, "
        "otherwise `consumer.auto.offset.reset`. Decided once per topic; see [start-positions.md](start-positions.md).",
        "Nothing is skipped unless configured.",
    )
    yield key(
        "consumer.isolation.level",
        Kind.CHOICE,
        "read_committed",
        flow_field="read_committed",
        choices=("read_committed", "read_uncommitted"),
        also=consumer_spellings("isolation.level"),
    ).means(
        "Which records of the source are copied; `read_uncommitted` has an effect only if "
        "`exactly.once.source.support` is not `enabled`.",
        "Aborted records would become visible on the target.",
    )


def topics_keys() -> Iterator[Key]:
    key = partial(Key, section="Remote topics")
    yield key("replication.policy.class", Kind.TEXT, "DefaultReplicationPolicy", levels=ALL_LEVELS).means(
        "How remote topics are named: `DefaultReplicationPolicy` (alias, separator, name), "
        "`IdentityReplicationPolicy` (unchanged), `MigratingReplicationPolicy` (unchanged, heartbeats as by default) "
        "or the dotted path of a Python class (docs/policies.md). Java's full class names are accepted.",
        _TO_MM2,
    )
    yield key(
        "replication.policy.switch",
        Kind.CHOICE,
        "refuse",
        levels=ALL_LEVELS,
        flow_field="policy_switch",
        choices=("refuse", "force"),
    ).means(
        "What to do if another policy or separator would rename existing copies: `refuse` stops the flow and lists "
        "them; `force` continues under the new names, and the old copies stay as they are.",
        "Consumers of the old names would silently get no more records.",
    )
    yield key("replication.policy.separator", Kind.TEXT, ".", levels=ALL_LEVELS).means(
        "Between the alias and the name of a remote topic.", _TO_MM2
    )
    yield key("replication.policy.internal.topic.separator.enabled", Kind.SWITCH, "true", levels=ALL_LEVELS).means(
        "Use the separator in the names of checkpoints and offset-syncs topics, too.", _TO_MM2
    )
    yield key("replication.factor", Kind.WHOLE, "2", minimum=-1, maximum=LARGEST_SHORT).means(
        "Replicas of new remote topics. " + _BROKER_DEFAULT + " A value above the number of the target's brokers is "
        "lowered, and the plan says so; brokers that are down count.",
        _TO_MM2,
    )
    yield key("refresh.topics.enabled", Kind.SWITCH, "true", flow_field="refresh_topics").means(
        "Look for new topics and partitions.", _TO_MM2
    )
    yield key("refresh.topics.interval.seconds", Kind.NUMBER, "600", unit="seconds").means(
        "How often at most; 0 means each run. A negative value turns it off.", _TO_MM2
    )
    yield key(
        "sync.topic.configs.enabled",
        Kind.SWITCH,
        "true",
        flow_field="sync_topic_configs",
        legacy=("sync.topic.configs",),
    ).means("Keep the topic settings of remote topics in sync with the source.", _TO_MM2)
    yield key("sync.topic.configs.interval.seconds", Kind.NUMBER, "600", unit="seconds").means(
        "How often at most; 0 means each run. A negative value turns it off.", _TO_MM2
    )
    yield key(
        "config.properties.exclude",
        Kind.PATTERNS,
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
        r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
        r"min\.insync\.replicas",
        legacy=("config.properties.blacklist",),
    ).means(
        "Topic settings that are not copied. Setting it replaces the default list. `message\\.timestamp\\..*` also "
        "leaves to the target how copies treat timestamps ([topics.md](topics.md#settings-of-copies)).",
        _TO_MM2,
    )
    yield key("use.defaults.from", Kind.CHOICE, "target", choices=("source", "target")).means(
        "Where the value of a topic setting comes from that the source leaves at its default.", _TO_MM2
    )
    yield key(
        "sync.topic.acls.enabled", Kind.SWITCH, "true", flow_field="sync_topic_acls", legacy=("sync.topic.acls",)
    ).means("Permit principals that may read a source topic to read its copy.", _TO_MM2)
    yield key("sync.topic.acls.interval.seconds", Kind.NUMBER, "600", unit="seconds").means(
        "How often at most; 0 means each run. A negative value turns it off.", _TO_MM2
    )
    yield key("sync.topic.acls.replicator.principals", Kind.TEXT, "", flow_field="acl_replicator_principals").means(
        "The principals with which the replicator writes to the target, such as `User:srm`, separated by semicolons. "
        "No DENY of the source is carried over to them, and other writers of copies are reported. Empty: the user name "
        "in the target's connection settings.",
        "Only the broker knows the principal of a certificate or a token.",
    )
    yield key(
        "sync.topic.acls.replicator.superuser", Kind.SWITCH, "false", flow_field="acl_replicator_superuser"
    ).means(
        "Whether the replicator is a super user of the target, so that no binding can shut it out. Then bindings are "
        "also created on brokers with `allow.everyone.if.no.acl.found` "
        "([acls.md](acls.md#only-the-replicator-writes)).",
        "Brokers do not tell.",
    )


_OFF = "A flow that copies bytes needs no registry."


def schema_keys() -> Iterator[Key]:
    key = partial(Key, section="Schemas")
    yield key("sync.schemas.enabled", Kind.SWITCH, "false", flow_field="sync_schemas").means(
        "Copy schemas from the source's registry to the target's, with their ids, before records are copied; both need "
        "`<alias>.schema.registry.url`, see [schemas.md](schemas.md).",
        _OFF,
    )
    yield key("sync.schemas.interval.seconds", Kind.NUMBER, "0", unit="seconds").means(
        "How often at most; 0 means each run. A negative value turns it off.",
        "A schema is there before the first record that needs it.",
    )
    yield key("schemas.subjects", Kind.PATTERNS, ".*").means(
        "Subjects to copy: an expression must match the whole name. Schemas that these refer to are copied, too.",
        "All schemas that records may need.",
    )
    yield key("schemas.subjects.exclude", Kind.PATTERNS, "").means(
        "Subjects not to copy; overrides `schemas.subjects`.", "All schemas that records may need."
    )
    yield key("schemas.context", Kind.TEXT, "").means(
        "The context of the target's registry that gets the schemas: with `east`, the subject `orders-value` is copied "
        "as `:.east:orders-value`. What came from the target in this way is not copied back. Empty: the same names.",
        "Consumers look schemas up in the default context.",
    )
    yield key("schemas.ids", Kind.CHOICE, "keep", choices=("keep", "map")).means(
        "`keep`: schemas keep their ids, which needs mode `IMPORT` of the target's registry, and records are copied "
        "unopened. `map`: the target's registry assigns new ids, as Karapace does, and records get these: the four "
        "bytes of the id that keys and values begin with are rewritten, nothing else; topics that `schemas.ids.keys` "
        "or `schemas.ids.values` match are decompressed for it, see [schemas.md](schemas.md#ids-of-the-target).",
        "A copy is the same bytes.",
    )
    yield key("schemas.ids.keys", Kind.PATTERNS, "").means(
        "With `schemas.ids = map`: topics (names at the source) whose keys begin with a zero and a schema's id: an "
        "expression must match the whole name. Keys that do not begin with a zero stay as they are.",
        "Numbers begin with a zero, too.",
    )
    yield key("schemas.ids.values", Kind.PATTERNS, ".*").means(
        "With `schemas.ids = map`: topics whose values do. An expression other than `.*` says so for certain, also for "
        "values of 8 bytes, which may be numbers.",
        "A registry is for values first of all.",
    )
    yield key("schemas.compatibility", Kind.CHOICE, "subjects", choices=("none", "subjects", "all")).means(
        "Which compatibility levels are copied: those of subjects, `all` for the registry's own level as well, or "
        "`none`.",
        "The registry's own level is also that of subjects that are not copied.",
    )
