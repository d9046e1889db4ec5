"""``kafka-consumer-groups.sh``, the real one."""

from __future__ import annotations

import subprocess

from srm_common.testing import LocalKafka
from srm_common.testing.artifacts import kafka_tools_jars
from srm_common.testing.java import java_command

_MAIN = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_HEADER = ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]


def reset_offsets(kafka: LocalKafka, file: str, *words: str) -> set[tuple[str, str, int, int]]:
    """Carry out a file of offsets; (group, topic, partition, new offset) as the tool prints them."""
    command = [*java_command(), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{kafka_tools_jars()}/*", _MAIN]
    command += ["--bootstrap-server", kafka.bootstrap_servers, "--reset-offsets", "--from-file", file, "--execute"]
    command += ["--timeout", "120000"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert rows[0] == _HEADER, done.stdout + done.stderr[-3000:]
    return {(group, topic, int(partition), int(offset)) for group, topic, partition, offset in rows[1:]}
