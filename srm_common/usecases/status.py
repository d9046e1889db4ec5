"""How a flow stands now."""

from __future__ import annotations

import time

from srm_common.domain.flow import FlowSettings
from srm_common.domain.status_report import StatusReport, make_report
from srm_common.errors import SrmError
from srm_common.kafka.admin import ClusterAdmin
from srm_common.kafka.compacted import LATEST
from srm_common.usecases.heartbeats import heartbeat_report
from srm_common.usecases.last_run import last_run

_SOURCE_SECONDS = 10.0


def status(flow: FlowSettings) -> StatusReport:
    """The last run's record, with the source's ends of this moment and the heartbeats that have come.

    A source that does not answer is said in the report, which then has the ends that the run saw.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers, where the record is.
        CorruptRecord: the record cannot be read.
    """
    run = last_run(flow)
    places = [(row.upstream_topic, row.partition) for row in run.partitions] if run else []
    answers: dict[tuple[str, int], int | SrmError] = {}
    fault: str | None = None
    if places:
        source = ClusterAdmin(flow.source, timeout_seconds=_SOURCE_SECONDS)
        try:
            # Asked first, since it fails at once for the whole cluster where the others wait for each partition.
            known = source.topics().partitions
            there = [place for place in places if place[1] < known.get(place[0], 0)]
            answers = source.offsets(there, LATEST, committed=flow.read_committed)
        except SrmError as error:
            fault = str(error)
    ends = {place: answer for place, answer in answers.items() if isinstance(answer, int)}
    refused = [answer for answer in answers.values() if isinstance(answer, SrmError)]
    if refused and fault is None:
        fault = str(refused[0])
    return make_report(str(flow.name), int(time.time() * 1000), run, ends, fault, heartbeat_report(flow))
