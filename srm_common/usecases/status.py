"""How a flow stands now."""

from __future__ import annotations

import time

from srm_common.domain.flow import FlowSettings
from srm_common.domain.monitoring.status_report import StatusReport, make_report
from srm_common.usecases.heartbeats import heartbeat_report
from srm_common.usecases.last_run import last_run
from srm_common.usecases.source_ends import source_ends


def status(flow: FlowSettings) -> StatusReport:
    """The last run's record, with the source's ends of this moment and the heartbeats that have come.

    A source that does not answer is said in the report, which then has the ends that the run saw.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers, where the record is.
        CorruptRecord: the record cannot be read.
    """
    run = last_run(flow)
    ends, fault = source_ends(flow, [(row.upstream_topic, row.partition) for row in run.partitions] if run else [])
    return make_report(str(flow.name), int(time.time() * 1000), run, ends, fault, heartbeat_report(flow))
