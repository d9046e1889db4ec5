"""Where and with what the figures were taken."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import psutil

from srm_common.testing.java import java_command

_PACKAGES = ("srm-kafka", "pyspark", "kafka-python", "confluent-kafka", "crc32c", "cramjam")


def machine() -> dict[str, object]:
    """Processor, memory, kernel."""
    return {
        "processor": _processor(),
        "cores": _cores(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def _cores() -> int | None:
    """Those that this process may use (``taskset``), where the system says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def versions(kafka: str) -> dict[str, str]:
    """Kafka (brokers and MirrorMaker 2), Java, Python and the packages that move records."""
    found = {"kafka": kafka, "mirror_maker": kafka, "java": _java(), "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _java() -> str:
    done = subprocess.run([*java_command(), "-version"], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[0]
