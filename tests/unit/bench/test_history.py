"""The reports that nobody measured are such as real flows make."""

from __future__ import annotations

from bench.history import Scenario, Shape, flow_names, reports, scenario_of, topic_names
from srm_common.domain.monitoring.run_report import RunReport

SHAPE = Shape(flows=9, topics=3, partitions=2, groups=3, days=0.5)


def of_flow(scenario: Scenario) -> list[RunReport]:
    name = flow_names(SHAPE.flows)[tuple(Scenario).index(scenario)]
    return [report for report in reports(SHAPE) if report.flow == str(name)]


def test_the_same_seed_tells_the_same() -> None:
    assert list(reports(SHAPE)) == list(reports(SHAPE))


def test_the_newest_report_is_of_the_end_and_all_are_in_order() -> None:
    times = [report.reported_ms for report in reports(SHAPE)]
    assert times == sorted(times)
    assert times[-1] == SHAPE.end_ms
    assert times[0] == SHAPE.end_ms - (SHAPE.runs - 1) * SHAPE.interval_ms


def test_names_are_all_different() -> None:
    assert len(set(flow_names(100))) == 100
    assert len(set(topic_names(1000))) == 1000


def test_the_flows_tell_their_stories() -> None:
    assert [scenario_of(index) for index in range(9)] == list(Scenario)
    runs = {scenario: [report.run for report in of_flow(scenario) if report.run is not None] for scenario in Scenario}
    lags = {scenario: [run.backlog.least for run in records] for scenario, records in runs.items()}
    assert set(lags[Scenario.STEADY]) == {0}
    assert lags[Scenario.BEHIND][-1] > 10_000 > lags[Scenario.BEHIND][0]
    assert lags[Scenario.CATCHING_UP][-1] < max(lags[Scenario.CATCHING_UP]) / 2
    assert runs[Scenario.FAILING][-1].error is not None
    assert runs[Scenario.IDLE][-1].records == 0 < runs[Scenario.IDLE][0].records
    assert len(runs[Scenario.HALF_FAILING][-1].failed_partitions) == 1
    assert sum(partition.lost_records for run in runs[Scenario.LOST] for partition in run.partitions) > 0
    assert len(runs[Scenario.SILENT]) < SHAPE.runs
    assert any(group.reason for group in of_flow(Scenario.UNTRANSLATED)[-1].groups)
