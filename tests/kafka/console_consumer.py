"""``kafka-console-consumer.sh``, the real one: what Java's consumer sees."""

from __future__ import annotations

import subprocess

from srm_common.testing.artifacts import kafka_tools_jars
from srm_common.testing.java import java_command
from tests.contract.parts import Cluster

_MAIN = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def seen_by_java(kafka: Cluster, topic: str, partition: int, count: int) -> list[tuple[int, bytes, bytes]]:
    """Offset, key and value of the first ``count`` committed records of a partition, ``null`` for none; neither may
    have tabs or line breaks."""
    command = [*java_command(), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{kafka_tools_jars()}/*", _MAIN]
    command += ["--bootstrap-server", kafka.internal_servers, "--topic", topic, "--partition", str(partition)]
    command += ["--isolation-level", "read_committed", "--offset", "earliest", "--max-messages", str(count)]
    command += ["--timeout-ms", "120000"]
    for name in ("print.key", "print.offset"):
        command += ["--formatter-property", f"{name}=true"]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split(b"\t") for line in done.stdout.splitlines()]
    assert len(lines) == count, done.stderr[-3000:]
    return [(int(offset.removeprefix(b"Offset:")), key, value) for offset, key, value in lines]
