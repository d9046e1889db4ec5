"""How large the offset map of what is copied gets: ``python -m bench.map_size [WORKLOAD ...]``.

Two real brokers; each workload is written to the source and copied once, by one process. What the segments topic takes
then is counted in the target's log files, headers of batches and markers of transactions included.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from bench.segment_files import LogContent, read_topics
from bench.side_by_side import BROKER_SETTINGS, SideBySide
from bench.sides import Clusters
from bench.workloads import PARTITIONS, WORKLOADS, Workload
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, names
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.topics.actions import failed
from srm_common.domain.topics.state_topics import SEGMENTS_PARTITIONS
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_reader import StateReader
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics

_KINDS = ("1k-lz4", "100b-lz4", "100b-tiny", "1k-compacted")


@click.command()
@click.argument("workloads", nargs=-1, type=click.Choice(list(WORKLOADS)))
@click.option("--megabytes", default=200, show_default=True, help="Of each workload, before compression.")
@click.option("--chunk-megabytes", default=64, show_default=True, help="Setting chunk.bytes of the flow.")
def main(workloads: tuple[str, ...], megabytes: int, chunk_megabytes: int) -> None:
    """Copy so much of each workload and print what its map takes."""
    for workload, clusters, folder in scaled(workloads or _KINDS, megabytes):
        _measure(workload, clusters, folder, chunk_megabytes << 20)


def scaled(names: Sequence[str], megabytes: float) -> Iterator[tuple[Workload, Clusters, Path]]:
    """Each workload with so much data, new clusters for it, and a folder."""
    with tempfile.TemporaryDirectory(prefix="srm-bench-") as folder:
        for name in names:
            workload = WORKLOADS[name].scaled(megabytes * 1e6 / WORKLOADS[name].uncompressed_bytes)
            with (
                LocalKafka(1, settings=BROKER_SETTINGS, name="source", tuned_for="throughput") as source,
                LocalKafka(1, settings=BROKER_SETTINGS, name="target", tuned_for="throughput") as target,
            ):
                yield workload, Clusters(source, target), Path(folder)


def copied(
    workload: Workload, clusters: Clusters, folder: Path, chunk_bytes: int = 64 << 20
) -> tuple[FlowSettings, float]:
    """Write the workload and copy it once in this process: the flow, and the CPU-seconds of the copy."""
    data = SideBySide(clusters, folder, (), lambda *_: None).prepare(workload)
    flow = _flow(clusters, workload, chunk_bytes)
    assert not failed(apply_plan(flow, plan_topics(flow)))
    begun = time.process_time()
    record = replicate(flow, RunOptions("bench"), _here)
    used = time.process_time() - begun
    assert record.records == data.records, record.error
    return flow, used


def on_target(workload: Workload, clusters: Clusters) -> LogContent:
    """The copies in the target's log files."""
    directory = clusters.log_directory(clusters.target)
    return read_topics(directory, [f"source.{topic}" for topic in workload.topics], PARTITIONS)


def _measure(workload: Workload, clusters: Clusters, folder: Path, chunk_bytes: int) -> None:
    flow, _ = copied(workload, clusters, folder, chunk_bytes)
    topic = names.segments_topic(flow.name.source)
    directory = clusters.log_directory(clusters.target)
    files = [path for number in range(SEGMENTS_PARTITIONS) for path in (directory / f"{topic}-{number}").glob("*.log")]
    size = sum(path.stat().st_size for path in files)
    content = on_target(workload, clusters)
    with StateReader(flow.target) as reader:
        segments = len(SegmentLog(reader, topic, SEGMENTS_PARTITIONS).read_all())
    print(
        f"{workload.name}: {content.wire_bytes / 1e6:.0f} MB of batches "
        f"({workload.record_bytes * content.records / 1e6:.0f} MB uncompressed), {segments} segments, "
        f"{size:,} bytes of map: "
        f"{size / content.wire_bytes * 1e9:,.0f} bytes per GB copied ({size / content.wire_bytes:.3%})",
        flush=True,
    )


def _flow(clusters: Clusters, workload: Workload, chunk_bytes: int) -> FlowSettings:
    replicas = ("internal", "status", "config", "heartbeats", "checkpoints", "offset_syncs")
    return FlowSettings(
        FlowName("source", "target"),
        ClusterSettings.plaintext("source", clusters.source.bootstrap_servers),
        ClusterSettings.plaintext("target", clusters.target.bootstrap_servers),
        topics=(workload.topic_pattern,),
        replication_factor=1,
        sync_topic_acls=False,
        chunk_bytes=chunk_bytes,
        **{f"{name}_replication_factor": 1 for name in replicas},  # type: ignore[arg-type]
    )


def _here(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
    return [copy_slot(job, task) for task in tasks]


if __name__ == "__main__":
    main()
