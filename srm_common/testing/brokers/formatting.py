"""Formats KRaft data folders without a JVM per node.

Kafka's StorageTool runs once for each version and choice of features; its checkpoint of the feature levels that a new
cluster starts with does not depend on the cluster and is kept in the cache. ``meta.properties`` is
written here (format: ``MetaProperties``, version 1, KIP-631; ``directory.id``: KIP-858).
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from srm_common.errors import LocalKafkaError
from srm_common.testing.artifacts import cache_folder
from srm_common.testing.java import java_command


def bootstrap_checkpoint(version: str) -> Path:
    """Where the StorageTool puts it within a data folder, and the broker looks for it: since 4.4 it is the first
    snapshot of the metadata log."""
    if tuple(int(part) for part in version.split(".")[:2]) < (4, 4):
        return Path("bootstrap.checkpoint")
    return Path("__cluster_metadata-0", "00000000000000000000-0000000000.checkpoint")


def random_id() -> str:
    """A Kafka Uuid: 22 characters, never starting with '-', which command lines would take for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def format_storage(
    folder: Path, cluster_id: str, node: int, *, version: str, jars: Path, features: Mapping[str, str]
) -> None:
    """Makes ``folder`` a data folder of the node; one that is formatted already is left alone."""
    marker = folder / "meta.properties"
    if marker.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / bootstrap_checkpoint(version)
    checkpoint.parent.mkdir(exist_ok=True)
    _bring_checkpoint(checkpoint, version, jars, features)
    lines = ["version=1", f"cluster.id={cluster_id}", f"node.id={node}", f"directory.id={random_id()}"]
    marker.write_text("\n".join(lines) + "\n")


def _bring_checkpoint(checkpoint: Path, version: str, jars: Path, features: Mapping[str, str]) -> None:
    chosen = ",".join(f"{name}={level}" for name, level in sorted(features.items()))
    suffix = hashlib.sha256(chosen.encode()).hexdigest()[:12] if chosen else "default"
    kept = cache_folder() / "formatted" / f"{version}-{suffix}.checkpoint"
    if kept.exists():
        shutil.copyfile(kept, checkpoint)
        return
    with tempfile.TemporaryDirectory(prefix="srm-format-") as scratch:
        made = _run_storage_tool(Path(scratch), version, jars, features)
        shutil.copyfile(made, checkpoint)
    # A cache that this user may only read takes none: the next node needs a JVM again.
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as unfinished:
            os.replace(shutil.copy(checkpoint, unfinished), kept)


def _run_storage_tool(scratch: Path, version: str, jars: Path, features: Mapping[str, str]) -> Path:
    properties = scratch / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\n"
        "listeners=CONTROLLER://127.0.0.1:1,PLAINTEXT://127.0.0.1:2\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"log.dirs={scratch}/data\n"
    )
    command = [*java_command(), "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format"]
    command += ["-t", random_id(), "-c", str(properties)]
    for name, level in sorted(features.items()):
        command += ["--feature", f"{name}={level}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    made = scratch / "data" / bootstrap_checkpoint(version)
    if done.returncode != 0 or not made.exists():
        raise LocalKafkaError(
            f"Kafka {version} did not format a data folder: {(done.stdout + done.stderr).strip()[-600:]}"
        )
    return made
