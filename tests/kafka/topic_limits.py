"""Brokers that limit the settings of topics by policies (KIP-108, KIP-133)."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from srm_common.testing.artifacts import kafka_jars
from tests.kafka.judge import need_compiler

_SOURCE = Path(__file__).parent / "java" / "TopicLimits.java"

#: Settings of brokers that are started with :func:`limits_option`.
LIMITING = {
    "create.topic.policy.class.name": "TopicLimits$OfNewTopics",
    "alter.config.policy.class.name": "TopicLimits$OfChanges",
}


def limits_option(folder: Path) -> str:
    """The Java option that gives brokers the classes of :data:`LIMITING`; files go to ``folder``."""
    need_compiler()
    subprocess.run(["javac", "-cp", f"{kafka_jars()}/*", "-d", str(folder), str(_SOURCE)], check=True, timeout=180)
    agent = folder / "topic-limits.jar"
    with zipfile.ZipFile(agent, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Premain-Class: TopicLimits\n")
        for found in sorted(folder.glob("TopicLimits*.class")):
            jar.write(found, found.name)
    return f"-javaagent:{agent}"
