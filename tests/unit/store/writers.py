"""Several processes write to one store at once, and others read it meanwhile; for SQLite and for PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import TimeRange
from srm_common.store.metrics_store import MetricsStore
from tests.unit.store.made_up import FLOW, HOUR, MIDNIGHT, SECOND

_WRITERS, _REPORTS = 3, 12
_SCRIPT = """
import sys
from srm_common.store.metrics_store import MetricsStore
from tests.unit.store.made_up import MIDNIGHT, MINUTE, SECOND, partition, report
store = MetricsStore(sys.argv[1], timeout_seconds=120)
writer = int(sys.argv[2])
for number in range(int(sys.argv[3])):
    at = MIDNIGHT + number * 7 * MINUTE + writer * SECOND
    # All write about one flow, which nobody has made before, and each about one of its own.
    store.write(report(at, partition("t", 0, lag=1), partition("t", 1, lag=2), run_id=f"{writer}-{number}"))
    runs = number + 1
    told = partition("t", 0, lag=number, records=5, bytes=50, records_total=5 * runs, bytes_total=50 * runs)
    for _ in range(2):
        store.write(report(at, told, flow=f"own->w{writer}"))
    store.flows()
store.close()
"""


class WritersBehaviour:
    def test_nothing_is_lost_between_writers(self, url: str) -> None:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", _SCRIPT, url, str(writer), str(_REPORTS)],
                cwd=os.getcwd(),
                stderr=subprocess.PIPE,
                text=True,
            )
            for writer in range(_WRITERS)
        ]
        said = [process.communicate(timeout=300)[1] for process in processes]
        assert [process.returncode for process in processes] == [0] * _WRITERS, said
        store = MetricsStore(url)
        assert [row.flow for row in store.flows()] == [FLOW, *(f"own->w{writer}" for writer in range(_WRITERS))]
        assert store.runs(FLOW).total == _WRITERS * _REPORTS
        lag = store.flow_stats(TimeRange(MIDNIGHT, MIDNIGHT + 2 * HOUR))[FLOW][Metric.RECORDS_LAG]
        assert (lag.count, lag.min, lag.max) == (_WRITERS * _REPORTS, 3.0, 3.0)
        newest = MIDNIGHT + (_REPORTS - 1) * 7 * 60 * SECOND + (_WRITERS - 1) * SECOND
        assert store.flows()[0].reported_ms == newest
        assert {(row.records_total, row.bytes_total) for row in store.flows()[1:]} == {(5 * _REPORTS, 50 * _REPORTS)}
        store.close()
