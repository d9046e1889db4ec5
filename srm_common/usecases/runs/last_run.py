"""What the flow's newest run left behind."""

from __future__ import annotations

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_record import RunRecord
from srm_common.kafka.state.flow_state import FlowState


def last_run(flow: FlowSettings) -> RunRecord | None:
    """The run record that was written last, None before the first run.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
        CorruptRecord: the record is not ours to read.
    """
    with FlowState(flow) as state:
        found = state.read("run")
    return None if found is None else RunRecord.from_json(found)
