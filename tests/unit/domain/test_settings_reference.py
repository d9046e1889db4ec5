"""The keys of the reference tables of Streams Replication Manager and MirrorMaker 2, held name by name.

Options that the vendor shows by a title only, without a property's name, are not among them; settings of Kafka's
clients are in tests/unit/settings_files/test_keys_of_other_tools.py.
"""

from __future__ import annotations

import pytest

from srm_common.domain.settings.table import known_key

#: Key -> the default that this project shares with the table; None where it has none, or none that acts here.
SRM = {
    "clusters": None,
    "streams.replication.manager.config": None,
    "enabled": "false",
    "streams.replication.manager.driver.target.cluster": None,
    "streams.replication.manager.service.target.cluster": None,
    "tasks.max": None,
    "replication.factor": "2",
    "heartbeats.topic.replication.factor": "3",
    "checkpoints.topic.replication.factor": "3",
    "offset-syncs.topic.replication.factor": "3",
    "offset.storage.replication.factor": "3",
    "config.storage.replication.factor": "3",
    "status.storage.replication.factor": "3",
    "metrics.topic.replication.factor": None,
    "metrics.period": None,
    "metrics.topic.creation.for.possible.flows.enabled": None,
    "topics": ".*",
    "topics.exclude": r".*[\-\.]internal, .*\.replica, __.*",
    "topics.blacklist": r".*[\-\.]internal, .*\.replica, __.*",
    "groups": ".*",
    "groups.exclude": "console-consumer-.*, connect-.*, __.*",
    "groups.blacklist": "console-consumer-.*, connect-.*, __.*",
    "refresh.topics.enabled": "true",
    "refresh.topics.interval.seconds": "600",
    "refresh.groups.enabled": None,
    "refresh.groups.interval.seconds": None,
    "sync.topic.configs.enabled": "true",
    "sync.topic.configs.interval.seconds": "600",
    "sync.topic.acls.enabled": "true",
    "sync.topic.acls.interval.seconds": "600",
    "use.defaults.from": "target",
    "config.properties.exclude": r"follower\.replication\.throttled\.replicas, "
    r"leader\.replication\.throttled\.replicas, message\.timestamp\.difference\.max\.ms, "
    r"message\.timestamp\.type, unclean\.leader\.election\.enable, min\.insync\.replicas",
    "emit.heartbeats.enabled": "true",
    "emit.heartbeats.interval.seconds": "1",
    "emit.checkpoints.enabled": "true",
    "emit.checkpoints.interval.seconds": "60",
    "sync.group.offsets.enabled": "false",
    "sync.group.offsets.interval.seconds": "60",
    "cloudera.reverse.checkpointing.enabled": None,
    "offset.lag.max": "100",
    "offset-syncs.topic.location": "source",
    "emit.offset-syncs.enabled": "true",
    "heartbeats.replication.enabled": "true",
    "replication.policy.class": "DefaultReplicationPolicy",
    "replication.policy.separator": ".",
    "replication.policy.internal.topic.separator.enabled": "true",
    "srm.internal.topic.exclude.enable": None,
    "disable.source.topic.auto.creation": None,
    "copy.source.offset.in.header.enabled": None,
    "exactly.once.source.support": "enabled",
    "consumer.poll.timeout.ms": None,
    "admin.timeout.ms": "60000",
    "connect.start.task.timeout.ms": None,
    "errors.retry.timeout": None,
    "errors.retry.delay.max.ms": None,
    "errors.tolerance": None,
    "errors.log.enable": None,
    "errors.log.include.messages": None,
    "listeners": None,
    "listeners.https.ssl.keystore.location": None,
    "mm.rest.protocol": None,
    "dedicated.mode.enable.internal.rest": None,
    "streams.replication.manager.service.streams.cache.max.bytes.buffering": None,
    "streams.replication.manager.service.streams.commit.interval.ms": None,
    "streams.replication.manager.service.streams.application.connection.test.timeout": None,
    "mm.metrics.servlet.enable": None,
    "metrics.jetty.server.port": None,
    "metrics.jetty.server.secureport": None,
    "metrics.jetty.server.ssl.enabled": None,
    "metrics.jetty.server.authentication.enabled": None,
    "metrics.jetty.server.auth.username": None,
    "metrics.jetty.server.auth.password": None,
    "plugin.path": None,
    "streams.replication.manager.ssl.allowedProtocols": None,
    "streams.replication.manager.ssl.allowedCipherSuites": None,
}

MIRROR_MAKER_2 = {
    "enabled": "false",
    "source.cluster.alias": None,
    "target.cluster.alias": None,
    "admin.timeout.ms": "60000",
    "forwarding.admin.class": None,
    "metric.reporters": None,
    "topic.filter.class": "DefaultTopicFilter",
    "group.filter.class": "DefaultGroupFilter",
    "config.property.filter.class": "DefaultConfigPropertyFilter",
    "consumer.poll.timeout.ms": None,
    "name": None,
    "connector.class": None,
    "rest.advertised.host.name": None,
    "rest.advertised.port": None,
    "rest.advertised.listener": None,
    "access.control.allow.origin": None,
    "access.control.allow.methods": None,
    "response.http.headers.config": None,
    "config.providers": None,
    "config.providers.file.class": None,
    "exactly.once.support": None,
    "transaction.boundary": None,
    "offset.flush.interval.ms": None,
    "scheduled.rebalance.max.delay.ms": None,
    "consumer.auto.offset.reset": "earliest",
    "consumer.isolation.level": "read_committed",
    "key.converter": None,
    "value.converter": None,
    "header.converter": None,
    "group.id": None,
    "offset.storage.topic": None,
    "config.storage.topic": None,
    "status.storage.topic": None,
}


@pytest.mark.parametrize(("name", "default"), [*SRM.items(), *MIRROR_MAKER_2.items()])
def test_every_key_of_the_tables_is_known_and_explained(name: str, default: str | None) -> None:
    key = known_key(name)
    assert key is not None
    assert key.doc
    if default is None:
        assert key.note or key.reason
    else:
        assert key.default == default
        assert key.reason


def test_a_longer_name_is_taken_before_its_family() -> None:
    exact, family = known_key("offset.storage.replication.factor"), known_key("offset.storage.cleanup.policy")
    assert exact is not None
    assert family is not None
    assert (exact.field, family.name) == ("internal_replication_factor", "offset.storage.*")
    assert known_key("tasks.maximum") is None
