"""Keys of MirrorMaker 2, Kafka Connect and Streams Replication Manager that are recognized but have no effect.

Each says why, and what to use instead if there is a replacement. A name that ends in ``.*`` stands for all keys that
begin with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from srm_common.domain.settings.key import ALL_LEVELS, Key, Kind

_SECTION = "Known and without effect"
_NO_CONNECT = "There are no Connect workers here."
_NO_CONNECT_REST = "There are no Connect workers here that could listen; Airflow serves the REST API."
_UNOPENED = "Records are copied unopened."
_CONVERTED = "Records are copied unopened. Only transforms of fields read it, see [transforms.md](transforms.md)."
_HEADERS = (
    "Headers are copied as they are. Only transforms that make headers read it, see [transforms.md](transforms.md)."
)
_OWN_TRANSACTION = "Offsets are committed in the same transaction as the data."
_STORAGE = "State topics keep MirrorMaker 2's names and are created with the settings they need."
_METRICS = (
    "Metrics go to the metrics store, Airflow's metrics and Prometheus, and with `metrics.topic.enabled` to a topic; "
    "Java metrics reporters are not loaded."
)
_RETRIES = "A failing partition is retried for `retry.timeout.seconds` and then reported; none is skipped silently."
_BATCHES = "Batches are copied as the producer created them."
_DURABLE = "Copies are always written idempotently and acknowledged by all in-sync replicas."
_WAITS = (
    "A bounded run does not wait for new records; in a long run `chunk.linger.ms` determines how long a fetch waits."
)
_SERIALIZED = ("org.apache.kafka.common.serialization.ByteArraySerializer",)
_DESERIALIZED = ("org.apache.kafka.common.serialization.ByteArrayDeserializer",)
_BYTES = ("org.apache.kafka.connect.converters.ByteArrayConverter",)
_COMPACTED = "State topics are compacted and keep the last record of each key; change retention on the topic itself."
_SERVICE = "The Replications page and `srm-control serve` take its place; see [services.md](services.md)."
_NO_GROUP = "The driver assigns partitions to slots; there is no consumer group."
_SOCKETS = "Socket buffers have the operating system's sizes."
_REQUESTS = "`request.timeout.ms` and `retry.timeout.seconds` limit requests and retries."
_GROUPS = "Groups are listed in each round of checkpoints, so new ones are found at once; `groups` restricts them."


class Note(NamedTuple):
    """Why a key has no effect. ``matters``: it suggests other data on the target, or another cost, so that runs report
    it, too; ``anyway`` are the values that ask for what happens here anyway."""

    text: str
    matters: bool = False
    anyway: tuple[str, ...] = ()

    def key(self, name: str) -> Key:
        return Key(name, Kind.TEXT, None, _SECTION, self.text, note=self.text, matters=self.matters, anyway=self.anyway)


#: Settings of Kafka's clients without effect, whatever client they are set for.
CLIENT_NOTES: dict[str, Note] = {
    "acks": Note(_DURABLE, True, ("all", "-1")),
    "allow.auto.create.topics": Note("No client here makes brokers auto-create topics.", True, ("false",)),
    "auto.commit.interval.ms": Note(_NO_GROUP),
    "auto.include.jmx.reporter": Note(_METRICS),
    "batch.size": Note(_BATCHES, True),
    "bootstrap.controllers": Note("Brokers are queried; set bootstrap.servers."),
    "buffer.memory": Note("`fetch.bytes` and `tasks.max` limit memory.", True),
    "check.crcs": Note("Checksums are always verified.", True, ("true",)),
    "config.providers": Note("`config.providers` without a client prefix applies to the whole file."),
    "delivery.timeout.ms": Note(_REQUESTS, True),
    "enable.auto.commit": Note(_OWN_TRANSACTION),
    "enable.idempotence": Note(_DURABLE, True, ("true",)),
    "enable.metrics.push": Note(_METRICS),
    "exclude.internal.topics": Note("Internal topics are never copied."),
    "fetch.min.bytes": Note(_WAITS, True, ("1",)),
    "group.id": Note(_NO_GROUP),
    "group.instance.id": Note(_NO_GROUP),
    "group.protocol": Note(_NO_GROUP),
    "group.remote.assignor": Note(_NO_GROUP),
    "heartbeat.interval.ms": Note(_NO_GROUP),
    "interceptor.classes": Note("Java classes are not loaded.", True),
    "internal.throw.on.fetch.stable.offset.unsupported": Note(_NO_GROUP),
    "key.deserializer": Note(_UNOPENED, True, _DESERIALIZED),
    "key.serializer": Note(_UNOPENED, True, _SERIALIZED),
    "linger.ms": Note(_BATCHES, True),
    "max.block.ms": Note(_REQUESTS),
    "max.in.flight.requests.per.connection": Note("Up to five requests are in flight, in order.", True, ("5",)),
    "max.poll.interval.ms": Note(_NO_GROUP, True),
    "max.poll.records": Note("Whole record batches are read.", True),
    "max.request.size": Note("The target topic's `max.message.bytes` is the limit; larger batches are split.", True),
    "metadata.max.idle.ms": Note("Metadata is requested only for topics in use."),
    "metadata.recovery.rebootstrap.trigger.ms": Note("Every new run starts from `bootstrap.servers`."),
    "metadata.recovery.strategy": Note("Every new run starts from `bootstrap.servers`."),
    "metric.reporters": Note(_METRICS),
    "metrics.num.samples": Note(_METRICS),
    "metrics.recording.level": Note(_METRICS),
    "metrics.sample.window.ms": Note(_METRICS),
    "partition.assignment.strategy": Note(_NO_GROUP),
    "partitioner.adaptive.partitioning.enable": Note("Records keep their partition."),
    "partitioner.availability.timeout.ms": Note("Records keep their partition."),
    "partitioner.class": Note("Records keep their partition.", True),
    "partitioner.ignore.keys": Note("Records keep their partition.", True, ("false",)),
    "receive.buffer.bytes": Note(_SOCKETS, True),
    "retries": Note(_REQUESTS, True),
    "retry.backoff.max.ms": Note(_REQUESTS),
    "retry.backoff.ms": Note(_REQUESTS),
    "security.providers": Note("Java classes are not loaded.", True),
    "send.buffer.bytes": Note(_SOCKETS, True),
    "session.timeout.ms": Note(_NO_GROUP),
    "share.acknowledgement.mode": Note(_NO_GROUP),
    "share.acquire.mode": Note(_NO_GROUP),
    "socket.connection.setup.timeout.max.ms": Note("`socket.connection.setup.timeout.ms` applies to every attempt."),
    "transaction.two.phase.commit.enable": Note(_OWN_TRANSACTION),
    "transactional.id": Note("Transactional ids are MirrorMaker 2's own."),
    "value.deserializer": Note(_UNOPENED, True, _DESERIALIZED),
    "value.serializer": Note(_UNOPENED, True, _SERIALIZED),
}

_NOTES: dict[str, str | Note] = {
    # MirrorMaker 2's connectors
    "source.cluster.alias": Note("It is part of the flow's name.", True),
    "target.cluster.alias": Note("It is part of the flow's name.", True),
    "consumer.poll.timeout.ms": "Runs are bounded; nothing polls.",
    "forwarding.admin.class": Note(
        "Java classes are not loaded.", True, ("org.apache.kafka.clients.admin.ForwardingAdmin",)
    ),
    "metric.reporters": _METRICS,
    "add.source.alias.to.metrics": _METRICS,
    "use.incremental.alter.configs": "Topic settings are always changed incrementally (KIP-339).",
    "refresh.groups.enabled": _GROUPS,
    "refresh.groups.interval.seconds": _GROUPS,
    # what every Connect connector has
    "name": _NO_CONNECT,
    "connector.plugin.version": _NO_CONNECT,
    "connector.class": _NO_CONNECT,
    "tasks.max.enforce": "There are never more than `tasks.max` slots.",
    "config.action.reload": "The file is read in each run.",
    "key.converter": Note(_CONVERTED, True, _BYTES),
    "key.converter.*": _CONVERTED,
    "value.converter": Note(_CONVERTED, True, _BYTES),
    "value.converter.*": _CONVERTED,
    "header.converter": Note(_HEADERS, True, _BYTES),
    "header.converter.*": _HEADERS,
    "errors.retry.timeout": Note(_RETRIES, True, ("0",)),
    "errors.retry.delay.max.ms": Note(_RETRIES, True),
    "errors.*": _RETRIES,
    "topic.creation.*": Note(
        "Remote topics are created with the source topic's settings and `replication.factor`.", True, ("true",)
    ),
    "exactly.once.support": "See `exactly.once.source.support`.",
    "transaction.boundary": "`chunk.bytes` and `chunk.seconds` limit transactions.",
    "transaction.boundary.interval.ms": "`chunk.bytes` and `chunk.seconds` limit transactions.",
    "offsets.storage.topic": Note(_STORAGE, True),
    # Connect's workers
    "offset.flush.interval.ms": _OWN_TRANSACTION,
    "offset.flush.timeout.ms": _OWN_TRANSACTION,
    "offset.storage.topic": Note(_STORAGE, True),
    "offset.storage.*": _STORAGE,
    "config.storage.*": _STORAGE,
    "status.storage.*": _STORAGE,
    "group.id": _NO_CONNECT,
    "heartbeat.interval.ms": _NO_CONNECT,
    "session.timeout.ms": _NO_CONNECT,
    "rebalance.timeout.ms": _NO_CONNECT,
    "scheduled.rebalance.max.delay.ms": _NO_CONNECT,
    "connect.protocol": _NO_CONNECT,
    "connect.start.task.timeout.ms": "`task.execution.timeout.seconds` limits a task.",
    "task.shutdown.graceful.timeout.ms": _NO_CONNECT,
    "worker.sync.timeout.ms": _NO_CONNECT,
    "worker.unsync.backoff.ms": _NO_CONNECT,
    "topic.tracking.*": _NO_CONNECT,
    "connector.client.config.override.policy": _NO_CONNECT,
    "plugin.path": "Java classes are not loaded.",
    "plugin.discovery": "Java classes are not loaded.",
    "listeners": _NO_CONNECT_REST,
    "listeners.https.*": _NO_CONNECT_REST,
    "admin.listeners": _NO_CONNECT_REST,
    "rest.*": _NO_CONNECT_REST,
    "access.control.allow.*": _NO_CONNECT_REST,
    "response.http.headers.config": _NO_CONNECT_REST,
    "inter.worker.*": _NO_CONNECT_REST,
    "dedicated.mode.enable.internal.rest": _NO_CONNECT_REST,
    "auto.include.jmx.reporter": _METRICS,
    "metrics.*": _METRICS,
    # Streams Replication Manager
    "streams.replication.manager.service.*": _SERVICE,
    "streams.replication.manager.ssl.*": _NO_CONNECT_REST,
    "mm.rest.protocol": _NO_CONNECT_REST,
    "mm.metrics.*": _METRICS,
    "metrics.period": "Metrics are reported per run.",
    "metrics.topic.creation.for.possible.flows.enabled": "Only enabled flows have a topic for their reports.",
    "metrics.topic.replication.factor": "`offset.storage.replication.factor` applies to that topic, too.",
    "srm.internal.topic.exclude.enable": Note("Internal topics are never copied.", True, ("true",)),
    "disable.source.topic.auto.creation": "Only topics for heartbeats and offset syncs are created at the source.",
    # KIP-382, as it was written before MirrorMaker 2 came out
    "heartbeats.topic.retention.ms": _COMPACTED,
    "checkpoints.topic.retention.ms": _COMPACTED,
    "offset.syncs.topic.retention.ms": _COMPACTED,
    "key.converter.class": Note(_UNOPENED, True, _BYTES),
    "value.converter.class": Note(_UNOPENED, True, _BYTES),
    "readahead.queue.capacity": Note("`fetch.bytes` limits how far reading may be ahead of writing.", True),
}


#: Settings of Kafka's clients by the names they have without a client's prefix.
CLIENT_KEYS: dict[str, Key] = {name: note.key(name) for name, note in CLIENT_NOTES.items()}


def without_effect_keys() -> Iterator[Key]:
    for name, text in _NOTES.items():
        yield replace((text if isinstance(text, Note) else Note(text)).key(name), levels=ALL_LEVELS)
