"""A topic, its copy, and runs of the flow between them."""

from __future__ import annotations

from collections.abc import Sequence

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.usecases.runs.replicate import replicate
from tests.contract.parts import Cluster
from tests.kafka.flows import prepare, read
from tests.slot_worker import here


class Here:
    """Slots one after the other, in this process; counts passes."""

    def __init__(self) -> None:
        self.passes: list[list[SlotTask]] = []

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        self.passes.append(list(tasks))
        return here(job, tasks)


def values(start: int, end: int) -> list[bytes | None]:
    return [b'{"n":%d}' % number for number in range(start, end)]


def run(flow: FlowSettings, here: Here | None = None, run_id: str = "r", **options: object) -> RunRecord:
    return replicate(flow, RunOptions(run_id, **options), here or Here())  # type: ignore[arg-type]


class Pair:
    """A topic and its copy."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster, topic: str, partitions: int) -> None:
        self.flow, self.source, self.target = flow, source, target
        self.topic, self.partitions = topic, partitions
        self.copy = f"{flow.name.source}.{topic}"
        source.create_topic(topic, partitions)
        prepare(flow)

    def assert_equal(self) -> None:
        for partition in range(self.partitions):
            expected = read(self.source, self.topic, partition)
            assert read(self.target, self.copy, partition) == expected
