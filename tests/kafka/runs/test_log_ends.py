"""Logs whose last offsets have no batch any more: passed over where compaction may have taken them, named elsewhere.

Brokers before Kafka 4 leave such logs when the last records before an open transaction, or before a segment that is
still empty, were compacted away; here the files of a stopped broker are made so.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.log.log_windows import LogWindows, Window
from srm_common.testing import BrokerJvm, LocalKafka
from tests.kafka.engine import Engine
from tests.kafka.records import mixed_records, produce

pytestmark = pytest.mark.kafka

KEPT, RECORDS = 300, 400


def empty_end(kafka: LocalKafka, topic: str) -> None:
    """Take the batches from offset ``KEPT`` on out of a stopped broker's log, as the cleaner does; its end stays."""
    folder = kafka.directory / "node-1" / "data" / f"{topic}-0"
    (log,) = folder.glob("*.log")
    data, at = log.read_bytes(), 0
    while int.from_bytes(data[at : at + 8], "big") < KEPT:
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    log.write_bytes(data[:at])
    for index in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
        index.unlink()
    (folder / f"{RECORDS:020d}.log").touch()


def test_an_empty_end_is_passed_over_where_compaction_took_it(
    broker_jvm: BrokerJvm, target_kafka: LocalKafka, name: str
) -> None:
    compacted, plain = f"{name}-compacted", f"{name}-plain"
    with LocalKafka(name="ends", jvm=broker_jvm) as source:
        engine = Engine(source, target_kafka, name)
        for topic, policy in ((compacted, "compact"), (plain, "delete")):
            engine.create(topic, source={"cleanup.policy": policy})
            # The cleaner of the broker leaves them all.
            records = [replace(one, key=b"key-%d" % number) for number, one in enumerate(mixed_records(RECORDS))]
            produce(source, topic, 0, records[:KEPT])
            produce(source, topic, 0, records[KEPT:])
        source.stop()
        for topic in (compacted, plain):
            empty_end(source, topic)
        source.restart()

        outcome = engine.copy(compacted, plain, retry_timeout_seconds=2.0)
        assert outcome.ranges[compacted, 0].error is None
        assert outcome.ranges[compacted, 0].position == RECORDS
        assert outcome.ranges[compacted, 0].copied.records == KEPT
        # There may be nothing to come, but nothing says so.
        error = outcome.errors[plain, 0]
        assert outcome.ranges[plain, 0].position == KEPT
        assert f"partition {plain}-0" in error
        assert f"returned nothing at offset {KEPT} " in error
        assert f"srm-control source-offsets set --topic '{plain}' --partition 0 --offset {RECORDS}" in error

        with LogWindows(ClusterSettings.plaintext("ends", source.bootstrap_servers), timeout_seconds=2.0) as windows:
            sights, faults = windows.read([Window(compacted, 0, 0, RECORDS), Window(plain, 0, 0, RECORDS)])
        assert [sight.offsets for sight in sights.values()] == [list(range(KEPT))]
        assert list(faults) == [Window(plain, 0, 0, RECORDS)]

        produce(source, plain, 0, mixed_records(10, seed=2))
        assert not engine.copy(compacted, plain).errors
        assert engine.check(plain) == KEPT + 10
