from __future__ import annotations

import pytest

from bench.delay import figures, result
from bench.errors import BenchError
from bench.mirror_maker import mirror_maker_properties
from bench.replicator import replicator_properties
from bench.results import merged
from bench.sides import Flow
from bench.table import delay_table


def test_figures_are_of_all_records_and_a_minute() -> None:
    delay_figures = figures([float(number) for number in range(1, 1001)], 30.0, 2.0, 5.0)
    assert (delay_figures.records, delay_figures.p50_ms, delay_figures.max_ms) == (1000, 500.5, 1000.0)
    assert delay_figures.p99_ms == pytest.approx(990, abs=1)
    assert (delay_figures.cpu_seconds_per_minute, delay_figures.broker_cpu_seconds_per_minute) == (4.0, 10.0)
    with pytest.raises(BenchError, match="only 3 records"):
        figures([1.0, 2.0, 3.0], 1.0, 0.0, 0.0)


def test_an_entry_has_the_medians_of_its_rounds_and_a_table() -> None:
    rounds = [figures([float(base)] * 200, 60.0, base, base) for base in (10, 30, 20)]
    entry = result({"mm2": rounds, "srm": rounds[:1]}, "2026-01-01")
    assert (entry["mm2"]["p50_ms"], entry["srm"]["p50_ms"]) == (20, 10)
    assert len(entry["rounds"]["mm2"]) == 3
    assert delay_table(entry).row_count == 5
    assert merged({"workloads": {"idle": {}}}, "delay", entry)["workloads"].keys() == {"idle", "delay"}


def test_in_a_long_run_neither_side_waits_for_more() -> None:
    flow = Flow("east1", "bench-delay", "none", 200, exactly_once=True, run_seconds=98.0)
    assert replicator_properties(flow, "a", "b")["run.max.seconds"] == "98"
    assert mirror_maker_properties(flow, "a", "b", 1)["backup.producer.linger.ms"] == "0"
    short = Flow("east1", "bench-delay", "none", 200, exactly_once=True)
    assert "run.max.seconds" not in replicator_properties(short, "a", "b")
