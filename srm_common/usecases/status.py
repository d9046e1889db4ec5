"""How a flow stands now."""

from __future__ import annotations

import time

from srm_common.domain.flow import FlowSettings
from srm_common.domain.monitoring.status_report import StatusReport, make_report
from srm_common.errors import SrmError
from srm_common.usecases.heartbeats import heartbeat_report
from srm_common.usecases.lag_watch import lag_now
from srm_common.usecases.last_run import last_run


def status(flow: FlowSettings) -> StatusReport:
    """The last run's record, with the positions and the source's ends of this moment and the heartbeats that have come.

    A source that does not answer is said in the report, which then has the ends that the run saw.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers, where the record is.
        CorruptRecord: the record cannot be read.
    """
    run, lag, fault = last_run(flow), None, None
    if run is not None:
        try:
            lag = lag_now(flow)
        except SrmError as error:
            fault = str(error)
        else:
            fault = None if lag is None else lag.fault
    return make_report(str(flow.name), int(time.time() * 1000), run, lag, fault, heartbeat_report(flow))
