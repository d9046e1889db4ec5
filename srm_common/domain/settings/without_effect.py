"""Keys of MirrorMaker 2, Kafka Connect and Streams Replication Manager that are known here and do nothing.

Each says why, and what to use instead where there is something. A name that ends in ``.*`` stands for all keys that
begin like it.
"""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.settings.key import ALL_LEVELS, Key, Kind

_SECTION = "Known and without effect"
_NO_CONNECT = "There are no Connect workers here."
_NO_CONNECT_REST = "There are no Connect workers here, so none of them listens; Airflow serves the REST API."
_UNOPENED = "Records are copied unopened."
_OWN_TRANSACTION = "Offsets are written in the data's own transaction."
_STORAGE = "State topics keep MirrorMaker 2's names and are made with the settings they need."
_METRICS = "Figures go to Airflow's metrics and to run records; there are no metric topics and no reporter of our own."
_RETRIES = "A faulty partition is tried again for `retry.timeout.seconds` and then reported; none is skipped silently."
_BATCHES = "Batches are copied as the producer made them."
_CODEC = "Batches keep their codec."
_DURABLE = "Copies are always acknowledged by all replicas in sync, idempotently."
_FETCHES = "`fetch.bytes` and `fetch.partition.bytes` bound a fetch."
_REQUESTS = "`request.timeout.ms` and `retry.timeout.seconds` bound requests and retries."
_GROUPS = "Groups are listed with each round of checkpoints, so new ones are found at once; `groups` limits them."
_CLIENTS = (
    "Of client settings those of the connection act, and `auto.offset.reset` and `isolation.level` of consumers; "
    "`fetch.bytes`, `chunk.bytes` and `request.timeout.ms` tune the copy."
)

#: Client settings that somebody may miss, whatever client they are written for: ``consumer.``, ``producer.override.``
CLIENT_NOTES = {
    "acks": _DURABLE,
    "batch.size": _BATCHES,
    "buffer.memory": "`fetch.bytes` and `tasks.max` bound memory.",
    "client.id": "Clients are named after the flow.",
    "compression.type": _CODEC,
    "delivery.timeout.ms": _REQUESTS,
    "enable.idempotence": _DURABLE,
    "fetch.max.bytes": _FETCHES,
    "fetch.max.wait.ms": "Runs are bounded; no fetch waits for records to come.",
    "fetch.min.bytes": "Runs are bounded; no fetch waits for records to come.",
    "group.id": "Partitions are dealt to slots by the driver; there is no consumer group.",
    "interceptor.classes": "Java classes are not loaded.",
    "key.deserializer": _UNOPENED,
    "key.serializer": _UNOPENED,
    "linger.ms": _BATCHES,
    "max.block.ms": _REQUESTS,
    "max.in.flight.requests.per.connection": "Up to five requests are under way, in order.",
    "max.partition.fetch.bytes": _FETCHES,
    "max.poll.records": "Whole record batches are read.",
    "max.request.size": "The target topic's `max.message.bytes` is the limit; larger batches are divided.",
    "partitioner.class": "Records keep their partition.",
    "request.timeout.ms": _REQUESTS,
    "retries": _REQUESTS,
    "retry.backoff.ms": _REQUESTS,
    "transaction.timeout.ms": "`transaction.timeout.ms` without a client's name sets it.",
    "transactional.id": "Transactional ids are MirrorMaker 2's own.",
    "value.deserializer": _UNOPENED,
    "value.serializer": _UNOPENED,
}

_NOTES = {
    # MirrorMaker 2's connectors
    "source.cluster.alias": "The flow's name says it.",
    "target.cluster.alias": "The flow's name says it.",
    "consumer.poll.timeout.ms": "Runs are bounded; nothing polls.",
    "forwarding.admin.class": "Java classes are not loaded.",
    "metric.reporters": _METRICS,
    "add.source.alias.to.metrics": _METRICS,
    "refresh.groups.enabled": _GROUPS,
    "refresh.groups.interval.seconds": _GROUPS,
    # what every Connect connector has
    "name": _NO_CONNECT,
    "connector.class": _NO_CONNECT,
    "tasks.max.enforce": "Never more slots than `tasks.max` are used.",
    "config.action.reload": "The file is read again at each run.",
    "key.converter": _UNOPENED,
    "key.converter.*": _UNOPENED,
    "value.converter": _UNOPENED,
    "value.converter.*": _UNOPENED,
    "header.converter": _UNOPENED,
    "header.converter.*": _UNOPENED,
    "predicates": "There are no Java transformations to apply them to.",
    "predicates.*": "There are no Java transformations to apply them to.",
    "transforms.*": "Java transformations are not loaded; see `transforms`.",
    "errors.*": _RETRIES,
    "topic.creation.*": "Remote topics are made from the source topic's settings and `replication.factor`.",
    "exactly.once.support": "See `exactly.once.source.support`.",
    "transaction.boundary": "`chunk.bytes` and `chunk.seconds` bound transactions.",
    "transaction.boundary.interval.ms": "`chunk.bytes` and `chunk.seconds` bound transactions.",
    "offsets.storage.topic": _STORAGE,
    # Connect's workers
    "offset.flush.interval.ms": _OWN_TRANSACTION,
    "offset.flush.timeout.ms": _OWN_TRANSACTION,
    "offset.storage.*": _STORAGE,
    "config.storage.*": _STORAGE,
    "status.storage.*": _STORAGE,
    "group.id": _NO_CONNECT,
    "client.id": "Clients are named after the flow.",
    "heartbeat.interval.ms": _NO_CONNECT,
    "session.timeout.ms": _NO_CONNECT,
    "rebalance.timeout.ms": _NO_CONNECT,
    "scheduled.rebalance.max.delay.ms": _NO_CONNECT,
    "connect.protocol": _NO_CONNECT,
    "connect.start.task.timeout.ms": "`task.execution.timeout.seconds` bounds a task.",
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
    "streams.replication.manager.service.*": "There is no service process; figures are those of each flow's last run.",
    "streams.replication.manager.ssl.*": _NO_CONNECT_REST,
    "mm.rest.protocol": _NO_CONNECT_REST,
    "mm.metrics.*": _METRICS,
    "srm.internal.topic.exclude.enable": "Internal topics are never copied.",
    "disable.source.topic.auto.creation": "The source gets topics for heartbeats and offset syncs only.",
    "copy.source.offset.in.header.enabled": "Records stay as they are; the offset map tells where each came from.",
    # Kafka clients
    "consumer.*": _CLIENTS,
    "producer.*": _CLIENTS,
    "admin.*": _CLIENTS,
    "source.*": _CLIENTS,
    "target.*": _CLIENTS,
}


def without_effect_keys() -> Iterator[Key]:
    for name, note in _NOTES.items():
        yield Key(name, _SECTION, Kind.TEXT, None, note, levels=ALL_LEVELS, note=note)
