"""Any reports that the runs of one flow can make, one after another, for property tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from srm_common.domain.monitoring.certificates import CertificateEnd
from srm_common.domain.monitoring.run_report import GroupSample, RunReport
from srm_common.domain.runs.open_transaction import OpenTransaction
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from tests.unit.domain.monitoring.reports import OBJECTIVE, START

_HELD = "some offsets were deleted; set on.data.loss to skip or reset to continue without them"
_LAGS = st.none() | st.integers(0, 2 * OBJECTIVE)
#: None of either cluster, of one, of both, of one in part.
_CERTIFICATES: tuple[tuple[CertificateEnd, ...], ...] = (
    (),
    (CertificateEnd("a", START + 5_000, "x"),),
    (CertificateEnd("a", START + 5_000, "x"), CertificateEnd("b")),
    (CertificateEnd("b", START + 9_000, "y", complete=False),),
)


@st.composite
def _partition(draw: st.DrawFn, number: int) -> PartitionRecord:
    lag = draw(_LAGS)
    lost = draw(st.sampled_from([0, 0, 0, 1, 5, 20]))
    error = draw(st.sampled_from([None, None, "it broke", _HELD]))
    # One that stands still without having found anything is one that the run did not look at.
    return PartitionRecord(
        "t",
        "a.t",
        number,
        records=draw(st.integers(0, 9)),
        position=100,
        end=None if lag is None else 100 + lag,
        lost_records=lost,
        skipped_records=draw(st.sampled_from([None, None, 3])),
        error=error,
        error_kind={None: None, _HELD: "DataLost"}.get(error, "ClusterError"),
    )


@st.composite
def _report(draw: st.DrawFn, run: int, at_ms: int, flow: str) -> RunReport:
    about: dict[str, Any] = {
        "schedule_interval_seconds": 30.0,
        "lag_objective_records": draw(st.sampled_from([None, OBJECTIVE])),
        "foreign_writers": draw(st.sampled_from([None, None, "t-0 has records of others"])),
    }
    if draw(st.integers(0, 9)) == 0:
        return RunReport(flow, f"r{run}", at_ms, None, fault="the cluster is not reachable", **about)
    partitions = tuple(draw(_partition(number)) for number in range(draw(st.integers(0, 3))))
    stopped = draw(st.sampled_from([None, None, None, "no broker answered"]))
    bad = stopped is not None or any(partition.error is not None for partition in partitions)
    return RunReport(
        flow,
        f"r{run}",
        at_ms,
        RunRecord(
            flow,
            f"r{run}",
            at_ms - 500,
            at_ms,
            1,
            RunState.FAILED if bad else RunState.DONE,
            stopped,
            partitions=partitions,
            open_transactions=draw(st.sampled_from([(), (OpenTransaction("t", 0, 3, 9, START, 7, "till"),)])),
            notes=draw(st.sampled_from([(), ("t-0: on.data.loss=skip: continuing after the gap",)])),
        ),
        groups=draw(st.sampled_from([(), (GroupSample("g", 4, 1, "too old"),), (GroupSample("g", 4, 4),)])),
        data_topics=draw(st.sampled_from([None, 0, 1])),
        certificates=draw(st.sampled_from(_CERTIFICATES)),
        **about,
    )


@st.composite
def stories(draw: st.DrawFn, flow: str = "a->b", most: int = 12) -> Sequence[RunReport]:
    """At most so many reports. Some come late, some runs are reported again."""
    told, at_ms = list[RunReport](), START
    for run in range(draw(st.integers(1, most))):
        at_ms += draw(st.sampled_from([1_000, 30_000, 3_600_000]))
        late_ms = draw(st.sampled_from([0, 0, 0, 0, 2_000]))
        number = run - draw(st.sampled_from([0, 0, 0, 0, 1]))
        told.append(draw(_report(number, at_ms - late_ms, flow)))
    return told
