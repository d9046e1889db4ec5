"""A class-data archive of the broker's JVM: two fifths less CPU for each broker that uses it.

Java's dynamic class-data sharing (JEP 350): one broker writes down which classes it loaded, in the form the JVM uses;
later ones map that file instead of reading, verifying and linking the classes out of jars. The archive belongs to one
JDK and one set of jars; if it does not match, the JVM continues without it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from srm_common.errors import LocalKafkaError
from srm_common.kafka.client.librdkafka import Consumer, Producer
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION, class_archive
from srm_common.testing.local_kafka import LocalKafka

_SECONDS = 300.0


def kafka_class_archive(version: str = DEFAULT_KAFKA_VERSION) -> Path:
    """The archive, made by a broker that starts, does a little and ends when it is not there yet (15 s, 50 MB).

    Raises LocalKafkaError when that broker leaves none.
    """
    wanted = class_archive(version)
    if wanted.exists():
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wanted.parent) as folder:
        made = Path(folder) / wanted.name
        with LocalKafka(version=version, name="archive", java_options=[f"-XX:ArchiveClassesAtExit={made}"]) as kafka:
            _use(kafka)
            kafka.stop(timeout_seconds=_SECONDS)
            log = kafka.log_path().read_text(errors="replace")
        if not made.is_file():
            raise LocalKafkaError(f"Kafka {version} left no class archive; its log ends with:\n{log[-1000:]}")
        # Atomically: a process that starts meanwhile finds no file or the complete one.
        made.replace(wanted)
    return wanted


def _use(kafka: LocalKafka) -> None:
    """What most tests do with a broker, so that the classes for it are loaded."""
    kafka.create_topic("archive")
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
    producer = Producer({**settings, "transactional.id": "archive"})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    producer.produce("archive", b"x")
    producer.commit_transaction(_SECONDS)
    consumer = Consumer({**settings, "group.id": "archive", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["archive"])
        consumer.consume(1, timeout=_SECONDS)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
