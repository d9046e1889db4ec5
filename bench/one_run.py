"""One side copies one workload once: start, watch, stop, count."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import KafkaException

from bench.errors import BenchError
from bench.figures import Figures, Measured, Reading, figures
from bench.segment_files import read_topics
from bench.sides import Clusters, Flow, Side
from bench.source_data import SourceData
from bench.target_watch import TargetWatch
from bench.workloads import PARTITIONS, Workload

_STALLED_SECONDS = 180.0


def run_once(
    side: Side, clusters: Clusters, flow: Flow, workload: Workload, source: SourceData, folder: Path
) -> Figures:
    """Figures of one run whose copy was counted afterwards.

    Raises BenchError when the side ends early, stands still for three minutes, or the target's committed records are
    not as many as the source's.
    """
    started = Reading(time.monotonic(), 0.0, clusters.broker_cpu_seconds())
    watch = TargetWatch(clusters.target.internal_servers, flow, source.partitions)
    try:
        side.start(clusters, flow, folder)
        with side.tree() as tree:

            def look() -> Reading:
                return Reading(time.monotonic(), tree.cpu_seconds(), clusters.broker_cpu_seconds())

            _wait_for_first(watch, side)
            # In this order what is copied in between counts as CPU time, not as bytes: never to a side's favour.
            first = look()
            copied_at_first = watch.share(watch.copied())
            _wait_until_complete(watch, side)
            done = look()
            total_cpu_seconds = side.finish()
    except BaseException:
        side.abandon()
        raise
    finally:
        watch.close()
    ended = Reading(time.monotonic(), total_cpu_seconds, clusters.broker_cpu_seconds())
    _verify(clusters, flow, workload, source)
    measured = Measured(started, first, done, ended, tree.peak_bytes, copied_at_first)
    return figures(measured, source.uncompressed_bytes, source.records)


def clear(clusters: Clusters) -> None:
    """Deletes what a run left: everything on the target, state topics on the source."""
    for kafka, keep in ((clusters.source, ("__", "bench-")), (clusters.target, ("__",))):
        names = [name for name in kafka.admin().list_topics(timeout=30).topics if not name.startswith(keep)]
        if not names:
            continue
        for name, future in kafka.admin().delete_topics(names, operation_timeout=30).items():
            try:
                future.result(60)
            except KafkaException as failure:
                raise BenchError(f"topic {name} could not be deleted: {failure.args[0].str()}") from failure


def _wait_for_first(watch: TargetWatch, side: Side) -> None:
    deadline = time.monotonic() + _STALLED_SECONDS
    while not any(watch.copied().values()):
        _check(side, deadline, "copied nothing")
        time.sleep(0.02)


def _wait_until_complete(watch: TargetWatch, side: Side) -> None:
    before: dict[tuple[str, int], int] = {}
    deadline = time.monotonic() + _STALLED_SECONDS
    while True:
        copied = watch.copied()
        if watch.complete(copied):
            return
        if copied != before:
            before, deadline = copied, time.monotonic() + _STALLED_SECONDS
        _check(side, deadline, f"copied no more than {watch.share(copied):.1%}", last_look=watch)
        time.sleep(0.03)


def _check(side: Side, deadline: float, what: str, last_look: TargetWatch | None = None) -> None:
    if not side.running():
        if last_look is not None and last_look.complete(last_look.copied()):
            return  # it ended between two looks
        raise BenchError(f"{side.name} ended and {what}; its log ends with:\n{side.log_tail()}")
    if time.monotonic() > deadline:
        raise BenchError(f"{side.name} {what} within {_STALLED_SECONDS:.0f} s; its log ends with:\n{side.log_tail()}")


def _verify(clusters: Clusters, flow: Flow, workload: Workload, source: SourceData) -> None:
    remote = [flow.remote_topic(topic) for topic in workload.topics]
    content = read_topics(clusters.log_directory(clusters.target), remote, PARTITIONS)
    if content.records != source.records or content.open_records:
        raise BenchError(
            f"the target has {content.records} committed records (and {content.open_records} in open transactions), "
            f"the source {source.records}"
        )
