"""A flow with an objective and a deadline, and reports of its runs, for tests of health."""

from __future__ import annotations

from pathlib import Path

from srm_common.domain.flow import FlowSettings
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.settings_files.configuration import load_configuration

START = 1_700_000_000_000
OBJECTIVE = 10


def flow_of(folder: Path, *lines: str) -> FlowSettings:
    """``a->b``: lags of more than 10 records are alarms, and so are 100 seconds without a good run. ``lines`` of the
    file besides."""
    path = folder / "srm.properties"
    path.write_text(
        "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"
        f"lag.objective.records = {OBJECTIVE}\nstalled.after.seconds = 100\n" + "".join(f"{line}\n" for line in lines)
    )
    return load_configuration(path).flow("a->b")


def report(
    second: int,
    *,
    lag: int = 0,
    error: str | None = None,
    lost: int = 0,
    stopped: str | None = None,
    notes: tuple[str, ...] = (),
    skipped: int | None = None,
    letters: int | None = None,
) -> RunReport:
    """Of a run of half a second that ended at that second and copied 5 records of one partition; ``error`` is the
    partition's, ``stopped`` the run's."""
    ended = START + second * 1000
    partition = PartitionRecord(
        "t",
        "a.t",
        0,
        records=5,
        position=100,
        end=100 + lag,
        lost_records=lost,
        error=error,
        skipped_records=skipped,
        dead_letters=letters,
    )
    state = RunState.DONE if error is None and stopped is None else RunState.FAILED
    run = RunRecord("a->b", f"r{second}", ended - 500, ended, 1, state, stopped, partitions=(partition,), notes=notes)
    return RunReport("a->b", f"r{second}", ended, run, schedule_interval_seconds=30.0, lag_objective_records=OBJECTIVE)
