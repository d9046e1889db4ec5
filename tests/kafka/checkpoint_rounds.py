"""Copies and the checkpoints of them on real brokers, for tests."""

from __future__ import annotations

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.state.state_reader import StateReader
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.runs.replicate import replicate
from srm_common.wire.state.mm2 import decode_checkpoint
from tests.kafka.flows import prepare
from tests.slot_worker import here


def copy(flow: FlowSettings) -> None:
    with FlowClusters(flow) as clusters:
        prepare(clusters)
        assert replicate(clusters, RunOptions("r"), here).state is RunState.DONE


def values(start: int, end: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(start, end)]


def checkpoints(flow: FlowSettings) -> list[Checkpoint]:
    """All that were written, in order."""
    with StateReader(flow.target) as reader:
        return [decode_checkpoint(r.key, r.value) for r in reader.read(names.checkpoints_topic(flow))]
