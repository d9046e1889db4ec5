"""Takes a workload through all rounds: both sides, both guarantees, in turn, and the floor beside them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench import floor
from bench.figures import Figures, comparison
from bench.one_run import clear, run_once
from bench.sides import Clusters, Flow, Side
from bench.source_data import SourceData, inspect, wait_for_compaction, write
from bench.workloads import PARTITIONS, Workload

BROKER_SETTINGS = {
    # Deleted copies of earlier runs leave the disk at once, not after a minute.
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.backoff.ms": "1000",
    "log.retention.ms": "-1",
}

GUARANTEES = {"exactly-once": True, "at-least-once": False}

Report = Callable[[str, str, str, int, Figures], None]
"""Called after every run with workload, guarantee, side, round (from 1) and figures."""

_run_numbers = itertools.count(1)


class SideBySide:
    """Runs workloads on a pair of clusters that are running."""

    def __init__(self, clusters: Clusters, folder: Path, sides: Sequence[Callable[[], Side]], report: Report) -> None:
        self._clusters = clusters
        self._folder = folder
        self._sides = tuple(sides)
        self._report = report

    def prepare(self, workload: Workload) -> SourceData:
        """Writes the source topics, waits for compaction where it is wanted, and checks the log."""
        source = self._clusters.source
        log_directory = self._clusters.log_directory(source)
        write(workload, source.internal_servers, self._create_topic)
        if workload.compacted:
            wait_for_compaction(workload, log_directory, self._alter_topic)
        return inspect(workload, log_directory)

    def measure(
        self, workload: Workload, source: SourceData, guarantees: Sequence[str], rounds: int
    ) -> dict[str, dict[str, list[Figures]]]:
        """Guarantee -> side -> one entry a round. The order of the sides changes from round to round."""
        taken: dict[str, dict[str, list[Figures]]] = {guarantee: defaultdict(list) for guarantee in guarantees}
        for number in range(1, rounds + 1):
            order = self._sides if number % 2 else self._sides[::-1]
            for guarantee in guarantees:
                for make in order:
                    side = make()
                    taken[guarantee][side.name].append(self._run(side, workload, source, guarantee))
                    self._report(workload.name, guarantee, side.name, number, taken[guarantee][side.name][-1])
        return taken

    def floor(self, workload: Workload) -> floor.Floor:
        """Of the same segment files."""
        log_directory = self._clusters.log_directory(self._clusters.source)
        files = [
            file
            for topic in workload.topics
            for partition in range(PARTITIONS)
            for file in sorted((log_directory / f"{topic}-{partition}").glob("*.log"))
        ]
        return floor.measure(files)

    def _run(self, side: Side, workload: Workload, source: SourceData, guarantee: str) -> Figures:
        number = next(_run_numbers)
        flow = Flow(
            f"east{number}",
            workload.topic_pattern,
            workload.codec,
            workload.record_bytes,
            GUARANTEES[guarantee],
            transforms=workload.transforms,
            ours=workload.ours,
            security=self._clusters.security,
        )
        folder = self._folder / f"run-{number:03d}-{side.name}"
        folder.mkdir(parents=True)
        try:
            return run_once(side, self._clusters, flow, workload, source, folder)
        finally:
            clear(self._clusters)

    def _create_topic(self, name: str, partitions: int, settings: dict[str, str]) -> None:
        self._clusters.source.create_topic(name, partitions, 1, settings)

    def _alter_topic(self, name: str, settings: dict[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        for future in self._clusters.source.admin().incremental_alter_configs([resource]).values():
            future.result(30)


def workload_result(
    workload: Workload,
    source: SourceData,
    taken: dict[str, dict[str, list[Figures]]],
    measured_floor: floor.Floor,
    date: str,
) -> dict[str, Any]:
    """One entry of the results file: exactly-once figures at its top, at-least-once ones below their name."""
    floor_json = measured_floor.to_json(source.uncompressed_bytes)
    result: dict[str, Any] = {}
    for guarantee, rounds in taken.items():
        compared = comparison(rounds)
        srm = compared["srm"]
        assert isinstance(srm, dict)
        compared["times_the_floor"] = round(srm["cpu_seconds_per_gb"] / floor_json["cpu_seconds_per_gb"], 2)
        if guarantee == "exactly-once":
            result |= compared
        else:
            result[guarantee.replace("-", "_")] = compared
    return {
        **result,
        "date": date,
        "summary": workload.summary,
        "data": source.to_json(),
        "floor": floor_json,
    }
