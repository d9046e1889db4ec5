"""What any metrics store says of how things stand; run for SQLite and for PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import event

from srm_common.domain.amount import NONE, Amount
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import TimeRange
from srm_common.domain.monitoring.run_report import ClockSkew, GroupSample, RunReport
from srm_common.domain.runs.run_record import PartitionRecord
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.rows import FlowRow, PartitionRow, TopicRow
from tests.unit.store.made_up import DAY, FLOW, HOUR, MIDNIGHT, MINUTE, SECOND, partition, report

T = MIDNIGHT
LAST_HOUR = TimeRange(T - HOUR, T + HOUR)


class StandingBehaviour:
    @pytest.fixture
    def store(self, url: str) -> Iterator[MetricsStore]:
        store = MetricsStore(url)
        yield store
        store.close()

    def test_a_store_that_nobody_wrote_to_is_empty(self, store: MetricsStore) -> None:
        assert store.flows() == []
        assert store.flow_stats(LAST_HOUR) == {}
        assert store.topics(FLOW, LAST_HOUR).total == 0
        assert store.runs(FLOW).rows == ()
        assert store.documents(FLOW) == {}

    def test_what_is_not_known_has_no_rows(self, store: MetricsStore) -> None:
        store.write(report(T, partition()))
        assert store.flows(only=["other->flow"]) == []
        assert store.partitions("other->flow").total == 0
        assert store.groups("other->flow").total == 0
        assert store.topics("other->flow", LAST_HOUR).total == 0
        assert store.documents(FLOW, "plan") == {}

    def test_a_report_comes_back_as_it_was(self, store: MetricsStore) -> None:
        store.write(
            report(
                T,
                partition(number=0, lag=7, transactions=2, last_record_timestamp_ms=T - 5),
                partition(number=1, lag=None, error="no leader", error_kind="ClusterError", records=0),
                partition("payments", lag=3, reencoded_records=4),
                notes=("a note",),
                warnings=("a warning",),
                clock=ClockSkew(12.5, None, 1.0),
                groups=(GroupSample("g1", 2, 2, None, True, 8.5, T - 1), GroupSample("g2", 2, 1, "too old")),
                schedule_interval_seconds=30.0,
                lag_objective_records=100,
                decisions={"decisions": [{"topic": "<b>"}]},
            )
        )
        (flow,) = store.flows()
        assert (flow.flow, flow.reported_ms, flow.topics, flow.partitions, flow.failed_partitions) == (FLOW, T, 2, 3, 1)
        lag = Amount(10, 10, parts=3, unknown=1)
        history = flow.history
        assert (history.lag, history.lag_before, history.lag_over_since_ms) == (lag, None, None)
        assert (flow.groups, history.untranslated_groups, history.untranslated_text) == (
            2,
            1,
            "g2 on 1 of 2 partitions: too old",
        )
        assert (history.schedule_interval_seconds, history.lag_objective_records) == (30.0, 100)
        assert flow.warnings == ("a warning",)
        assert flow.clock == {"source_ms": 12.5, "target_ms": None, "uncertainty_ms": 1.0}
        run = flow.last_run
        assert (run.run_id, run.started_ms, run.finished_ms, run.ok, run.error) == (
            f"run-{T}",
            T - 10_000,
            T,
            False,
            None,
        )
        assert (run.records, run.bytes, run.lag, run.reencoded_records, run.notes) == (200, 3000, lag, 4, ("a note",))
        assert (run.partition_errors, run.error_kind) == (("orders-1: no leader",), "ClusterError")
        assert store.runs(FLOW).rows == [run]
        first, second, third = store.partitions(FLOW).rows
        assert (first.topic, first.remote_topic, first.partition, first.position, first.end, first.lag) == (
            *("orders", "east.orders", 0, 1000),
            *(1007, 7),
        )
        assert (first.latency_ms_min, first.latency_ms_avg, first.latency_ms_max) == (5.0, 10.0, 30.0)
        assert (first.newest_record_ms, first.reported_ms, first.error) == (T - 5, T, None)
        assert (second.end, second.lag, second.error, second.error_kind) == (None, None, "no leader", "ClusterError")
        assert third.topic == "payments"
        orders, payments = store.topics(FLOW, LAST_HOUR).rows
        assert (orders.topic, orders.partitions, orders.failed_partitions, orders.lag) == (
            *("orders", 2, 1),
            Amount(7, 7, parts=2, unknown=1),
        )
        assert (orders.error, orders.newest_record_ms) == ("partition 1: no leader", T - 5)
        assert (payments.lag, payments.error) == (Amount.exactly(3), None)
        assert [row.sample for row in store.groups(FLOW).rows] == [
            GroupSample("g2", 2, 1, "too old"),
            GroupSample("g1", 2, 2, None, True, 8.5, T - 1),
        ]
        document = store.documents(FLOW, "decisions")["decisions"]
        assert (document.value, document.reported_ms) == ({"decisions": [{"topic": "<b>"}]}, T)

    def test_the_newest_report_counts(self, store: MetricsStore) -> None:
        store.write(report(T, partition(lag=9, last_record_timestamp_ms=T - 1), plan={"n": 1}))
        store.write(report(T + MINUTE, partition(lag=4, records=0), plan={"n": 2}))
        store.write(report(T + 2 * MINUTE, partition(lag=5)))
        (flow,) = store.flows()
        assert (flow.history.lag, flow.history.lag_before) == (Amount.exactly(5), Amount.exactly(4))
        assert store.documents(FLOW)["plan"].value == {"n": 2}
        assert store.documents(FLOW)["plan"].reported_ms == T + MINUTE
        assert [run.reported_ms for run in store.runs(FLOW).rows] == [T + 2 * MINUTE, T + MINUTE, T]
        # A run that copied nothing does not make the newest record unknown.
        assert store.partitions(FLOW).rows[0].newest_record_ms == T - 1

    def test_a_document_that_is_as_it_was_is_not_written_again(self, store: MetricsStore) -> None:
        """The decisions on 10,000 topics are a megabyte."""
        sent: list[str] = []
        decisions = {"decisions": [{"topic": "ä\0", "reason": "'"}]}
        event.listen(store.engine, "before_cursor_execute", lambda *args: sent.append(args[2]))

        def writes() -> int:
            return sum("INSERT INTO document" in statement for statement in sent)

        for minute in range(3):
            store.write(report(T + minute * MINUTE, partition(), decisions=decisions))
            assert store.documents(FLOW)["decisions"].reported_ms == T + minute * MINUTE
        assert writes() == 1
        store.write(report(T + 3 * MINUTE, partition(), decisions={"decisions": []}))
        assert (writes(), store.documents(FLOW)["decisions"].value) == (2, {"decisions": []})

    def test_a_late_report_is_history_only(self, store: MetricsStore) -> None:
        store.write(report(T + MINUTE, partition(lag=1), plan={"n": 2}))
        store.write(report(T, partition(lag=50), partition("gone"), plan={"n": 1}))
        (flow,) = store.flows()
        assert (flow.reported_ms, flow.history.lag, flow.topics) == (T + MINUTE, Amount.exactly(1), 1)
        assert store.documents(FLOW)["plan"].value == {"n": 2}
        assert store.partitions(FLOW).rows[0].lag == 1
        assert store.runs(FLOW).total == 2

    def test_the_same_run_again_replaces(self, store: MetricsStore) -> None:
        store.write(report(T, partition(lag=5, error="broken"), run_id="r"))
        store.write(report(T + SECOND, partition(lag=2), run_id="r"))
        (flow,) = store.flows()
        history = flow.history
        assert (history.lag, history.lag_before, history.failing_since_ms) == (Amount.exactly(2), None, None)
        assert store.runs(FLOW).total == 1
        assert store.runs(FLOW).rows[0].ok

    def test_a_report_without_figures_takes_none_back(self, store: MetricsStore) -> None:
        """As of a report that is made once more when the target does not respond."""
        store.write(report(T, partition(records=10), run_id="r"))
        store.write(RunReport(FLOW, "r", T + MINUTE, None, fault="the target does not respond"))
        (row,) = store.runs(FLOW).rows
        assert (row.ok, row.records, row.error) == (True, 10, None)
        (flow,) = store.flows()
        assert flow.history.error == "the target does not respond"

    def test_since_when_a_flow_fails(self, store: MetricsStore) -> None:
        store.write(report(T, partition()))
        assert store.flows()[0].history.failing_since_ms is None
        store.write(report(T + MINUTE, partition(error="broken")))
        store.write(report(T + 2 * MINUTE, error="no broker answered"))
        (flow,) = store.flows()
        assert (flow.history.failing_since_ms, flow.history.good_run_ended_ms) == (T + MINUTE, T)
        # Of a run that could not begin nothing is known but that; how many partitions there are does not change.
        assert (flow.history.lag, flow.history.lag_before, flow.partitions) == (None, NONE, 1)
        assert flow.last_run.error == "no broker answered"
        store.write(RunReport(FLOW, "r4", T + 3 * MINUTE, None, fault="run r4 left no record"))
        assert store.flows()[0].last_run.error == "run r4 left no record"
        store.write(report(T + 4 * MINUTE, partition()))
        (flow,) = store.flows()
        assert (flow.history.failing_since_ms, flow.history.good_run_ended_ms) == (None, T + 4 * MINUTE)

    def test_since_when_is_known_longer_than_runs_are_kept(self, store: MetricsStore) -> None:
        lost = partition(lag=200, error="lost", lost_records=3)
        for day in range(12):
            store.write(report(T + day * DAY, lost if day else partition(), lag_objective_records=100))
        (flow,) = store.flows()
        assert store.runs(FLOW).total < 12
        known = flow.history
        assert (known.failing_since_ms, known.lag_over_since_ms, known.lost_since_ms) == (T + DAY, T + DAY, T + DAY)
        assert known.good_run_ended_ms == T

    def test_since_when_the_lag_is_over_its_objective(self, store: MetricsStore) -> None:
        for minute, lag in enumerate((200, 50, 101, 300)):
            store.write(report(T + minute * MINUTE, partition(lag=lag), lag_objective_records=100))
        assert store.flows()[0].history.lag_over_since_ms == T + 2 * MINUTE
        store.write(report(T + 5 * MINUTE, partition(lag=100), lag_objective_records=100))
        assert store.flows()[0].history.lag_over_since_ms is None

    def test_a_loss_that_stops_a_partition_is_counted_once(self, store: MetricsStore) -> None:
        store.write(report(T, partition()))
        for minute in (1, 2, 3):
            store.write(report(T + minute * MINUTE, partition(lost_records=70, error="lost")))
        (flow,) = store.flows()
        assert (flow.history.lost_records, flow.history.lost_since_ms) == (70, T + MINUTE)

    def test_losses_that_a_flow_goes_on_after_add_up(self, store: MetricsStore) -> None:
        for minute, lost in enumerate((5, 0, 20, 30)):
            store.write(report(T + minute * MINUTE, partition(lost_records=lost)))
        (flow,) = store.flows()
        assert (flow.history.lost_records, flow.history.lost_since_ms) == (50, T + 2 * MINUTE)

    def test_topics_and_partitions_that_are_not_copied_any_more_are_not_shown(self, store: MetricsStore) -> None:
        store.write(report(T, partition("a"), partition("a", 1), partition("b")))
        store.write(report(T + 2 * HOUR, partition("a")))
        after = TimeRange(T + HOUR, T + 3 * HOUR)
        assert [row.topic for row in store.topics(FLOW, after).rows] == ["a"]
        assert [(row.topic, row.partition) for row in store.partitions(FLOW).rows] == [("a", 0)]
        assert [row.topic for row in store.topics(FLOW, LAST_HOUR).rows] == ["a", "b"]

    def test_a_topic_that_is_not_copied_any_more_is_gone_with_the_next_report(self, store: MetricsStore) -> None:
        store.write(report(T, partition("a"), partition("b", lag=7)))
        store.write(report(T + MINUTE, partition("a")))
        now = TimeRange(T - HOUR, T + 2 * MINUTE)
        assert [row.topic for row in store.topics(FLOW, now).rows] == ["a"]
        # Its history can be asked for by name, and where it is asked about the past it is part of that.
        assert [row.topic for row in store.topics(FLOW, now, search="b", gone=True).rows] == ["b"]
        assert [row.topic for row in store.topics(FLOW, TimeRange(T - HOUR, T + 1)).rows] == ["a", "b"]

    def test_groups_that_are_gone_are_not_shown(self, store: MetricsStore) -> None:
        store.write(report(T, groups=(GroupSample("a", 1, 1), GroupSample("b", 1, 1))))
        store.write(report(T + MINUTE, groups=(GroupSample("b", 1, 1),)))
        assert [row.sample.group for row in store.groups(FLOW).rows] == ["b"]

    def test_pages_searches_and_orders(self, store: MetricsStore) -> None:
        names = ("B", "a", "c_1", "c%2", "ü" + "x" * 248, "<img src=x>")
        sizes = dict(zip(names, (3, 1, 2, 6, 5, 4), strict=True))
        store.write(report(T, *(partition(one, lag=lag, bytes=lag * 10) for one, lag in sizes.items())))
        by_name = [row.topic for row in store.topics(FLOW, LAST_HOUR).rows]
        assert by_name == sorted(names)
        assert [row.topic for row in store.topics(FLOW, LAST_HOUR, order="-topic").rows] == by_name[::-1]
        by_lag = [row.lag for row in store.topics(FLOW, LAST_HOUR, order="-lag", limit=3).rows]
        assert by_lag == [*map(Amount.exactly, (6, 5, 4))]
        by_rate = store.topics(FLOW, LAST_HOUR, order="byte-rate", offset=4)
        assert ([row.lag for row in by_rate.rows], by_rate.total, by_rate.offset) == (
            [*map(Amount.exactly, (5, 6))],
            *(6, 4),
        )

        def found(search: str) -> list[str]:
            return [row.topic for row in store.topics(FLOW, LAST_HOUR, search=search).rows]

        assert found("b") == ["B"]
        assert found("_") == ["c_1"]
        assert found("%") == ["c%2"]
        assert found("Ü") == ["ü" + "x" * 248]
        assert found("EAST.A") == ["a"]
        assert found("nowhere") == []
        assert [row.topic for row in store.partitions(FLOW, offset=1, limit=2).rows] == by_name[1:3]
        assert store.partitions(FLOW, topic="c_1").total == 1

    def test_failed_partitions_only(self, store: MetricsStore) -> None:
        store.write(report(T, partition(number=0), partition(number=1, error="no leader")))
        page = store.partitions(FLOW, failed_only=True)
        assert ([row.partition for row in page.rows], page.total) == ([1], 1)

    def test_totals_of_all_runs(self, store: MetricsStore) -> None:
        def totals() -> list[tuple[int | None, int | None]]:
            rows: list[FlowRow | TopicRow | PartitionRow] = [*store.flows(), *store.topics(FLOW, LAST_HOUR).rows]
            return [(row.records_total, row.bytes_total) for row in [*rows, *store.partitions(FLOW).rows]]

        def told(number: int, records: int, size: int, total: int, bytes_total: int) -> PartitionRecord:
            return partition(number=number, records=records, bytes=size, records_total=total, bytes_total=bytes_total)

        store.write(report(T, partition()))
        assert totals() == [(None, None)] * 3  # an older copier does not tell
        first = report(T + SECOND, told(0, 5, 50, 5, 50), told(1, 7, 70, 7, 70), run_id="a")
        store.write(first)
        store.write(first)
        assert totals() == [(12, 120), (12, 120), (5, 50), (7, 70)]
        # Of run b no report came.
        store.write(report(T + 3 * SECOND, told(0, 1, 10, 9, 90), told(1, 0, 0, 7, 70), run_id="c"))
        assert totals() == [(16, 160), (16, 160), (9, 90), (7, 70)]
        # Its report comes late; and that of a once more, which nobody knows by then.
        store.write(report(T + 2 * SECOND, told(0, 3, 30, 8, 80), told(1, 0, 0, 7, 70), run_id="b"))
        store.write(report(T + 4 * SECOND, told(0, 0, 0, 9, 90), told(1, 0, 0, 7, 70), run_id="a", error="no record"))
        assert totals() == [(16, 160), (16, 160), (9, 90), (7, 70)]

    def test_totals_outlive_what_is_not_copied_any_more(self, store: MetricsStore) -> None:
        def wrote(day: int, *topics: tuple[str, int, int]) -> tuple[int | None, list[int | None]]:
            at = T + day * DAY
            copied = [partition(name, records=count, records_total=total) for name, count, total in topics]
            store.write(report(at, *copied))
            of_topics = store.topics(FLOW, TimeRange(at, at + 1)).rows
            return store.flows()[0].records_total, [row.records_total for row in of_topics]

        assert wrote(0, ("a", 10, 10), ("b", 4, 4)) == (14, [10, 4])
        # Long after the run itself was forgotten.
        assert wrote(300, ("a", 1, 11)) == (15, [11])
        # The flow has forgotten b in the meantime, and counts it from the beginning: the first run copies more than all
        # of before.
        assert wrote(301, ("a", 0, 11), ("b", 9, 9)) == (24, [11, 13])
        assert wrote(302, ("a", 0, 11), ("b", 1, 10)) == (25, [11, 14])
        # With its last samples a topic is forgotten itself; the flow's total has it.
        assert wrote(900, ("a", 1, 12)) == (26, [12])
        assert wrote(901, ("a", 0, 12), ("b", 2, 12)) == (38, [12, 12])

    def test_records_that_were_left_out_are_counted_by_run_and_in_total(self, store: MetricsStore) -> None:
        def skipped(second: int, number: int, run: int, letters: int, total: int, all_letters: int) -> RunReport:
            mine = partition(
                number=number,
                skipped_records=run or None,
                dead_letters=letters or None,
                dropped_records=10 * run or None,
                skipped_records_total=total,
                dead_letters_total=all_letters,
            )
            return report(T + second * SECOND, partition("other"), mine, notes=("3 left out (errors.tolerance = all)",))

        def totals() -> dict[str, tuple[int | None, int | None]]:
            flows, topics = store.flows(), store.topics(FLOW, LAST_HOUR).rows
            return {
                **{row.flow: (row.skipped_records_total, row.dead_letters_total) for row in flows},
                **{topic.topic: (topic.skipped_records_total, topic.dead_letters_total) for topic in topics},
            }

        first = skipped(0, 0, 0, 0, 0, 0)
        store.write(first)
        assert totals() == {FLOW: (0, 0), "orders": (0, 0), "other": (None, None)}
        second = skipped(1, 0, 5, 2, 5, 2)
        for run_report in (
            second,
            second,
            skipped(3, 1, 4, 4, 4, 4),
            skipped(2, 0, 1, 0, 6, 2),
            skipped(2, 0, 1, 0, 6, 2),
        ):
            store.write(run_report)
        # The one that came late is in no total yet: the flow's own count, in its next report, has it.
        assert totals() == {FLOW: (9, 6), "orders": (9, 6), "other": (None, None)}
        (flow,) = store.flows()
        assert (flow.history.skipped_records, flow.history.dead_letters) == (10, 6)
        assert flow.history.skipped_text == "3 left out (errors.tolerance = all)"
        assert [(row.dropped_records, row.skipped_records, row.dead_letters) for row in store.runs(FLOW).rows] == [
            (40, 4, 4),
            (10, 1, 0),
            (50, 5, 2),
            (0, 0, 0),
        ]
        assert (flow.last_run.skipped_records, flow.last_run.dead_letters) == (4, 4)
        store.write(skipped(4, 0, 2, 0, 8, 2))
        assert totals() == {FLOW: (12, 6), "orders": (12, 6), "other": (None, None)}
        (orders,) = store.partitions(FLOW, topic="orders").rows
        assert (orders.partition, orders.skipped_records_total, orders.dead_letters_total) == (0, 8, 2)
        left_out = (Metric.DROPPED_RECORDS, Metric.SKIPPED_RECORDS, Metric.DEAD_LETTERS)
        by_topic = store.topics(FLOW, LAST_HOUR, metrics=left_out).rows
        sums = {
            row.topic: {metric: (stats.count, stats.sum) for metric, stats in row.stats.items()} for row in by_topic
        }
        # Of topics only runs that left out some have a sample.
        counted = zip(left_out, ((4, 120), (4, 12), (2, 6)), strict=True)
        assert sums == {"orders": dict(counted), "other": {}}

    def test_any_text_is_kept(self, store: MetricsStore) -> None:
        """Errors repeat what others sent, groups may be called anything, and who searches types anything."""
        odd, shown = "a\0b\udc80c", "a\ufffdb\ufffdc"
        group = GroupSample(odd, 1, 1)
        store.write(report(T, partition(error=odd), error=odd, notes=(odd,), groups=(group,)))
        assert [row.sample.group for row in store.groups(FLOW, search=odd).rows] == [shown]
        assert [row.error for row in store.partitions(FLOW).rows] == [shown]
        (run,) = store.runs(FLOW).rows
        assert run.error == shown
        assert store.partitions(FLOW, topic=odd).rows == []
        assert store.topics(FLOW, LAST_HOUR, search=odd).rows == []
        assert store.flows(only=[odd]) == []

    def test_flows_do_not_see_each_other(self, store: MetricsStore) -> None:
        store.write(report(T, partition(lag=1)))
        store.write(report(T, partition(lag=2), flow="west->east"))
        assert [(row.flow, row.history.lag) for row in store.flows()] == [
            ("east->west", Amount.exactly(1)),
            ("west->east", Amount.exactly(2)),
        ]
        assert [row.lag for row in store.partitions("west->east").rows] == [2]
        assert [row.flow for row in store.flows(only=["west->east"])] == ["west->east"]
