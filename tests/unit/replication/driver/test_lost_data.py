"""Records that the source lost before they were copied, and copies that the target lost records of: what runs do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.runs.data_loss import CutCopy
from srm_common.domain.topic_partition import TopicPartition
from srm_common.replication.driver.passes import Passes
from tests.unit.replication.driver.simulated_cluster import Log
from tests.unit.replication.driver.simulated_flow import SimulatedFlow, world


class TestLostData:
    def copied_then(self, change: Callable[[Log], None], **options: Any) -> tuple[SimulatedFlow, Passes]:
        there = world(10, 3)
        there.run()
        change(there.source.logs[TopicPartition("t", 0)])
        there.source.logs[TopicPartition("t", 1)].records.append(4)
        return there, there.run(**options)

    @staticmethod
    def overrun(log: Log) -> None:
        log.records += range(20, 30)
        log.expire(15)

    def test_fail_stops_that_partition_with_the_count(self) -> None:
        there, passes = self.copied_then(self.overrun)
        lost, sound = passes.tracks[TopicPartition("t", 0)], passes.tracks[TopicPartition("t", 1)]
        assert lost.error is not None
        assert "5 offsets were deleted" in lost.error
        assert lost.lost_records == 5
        assert sound.error is None
        assert there.target.offsets == {("t", 0): 10, ("t", 1): 4}
        # It stays failed until somebody decides.
        assert there.run().tracks[TopicPartition("t", 0)].error is not None

    @pytest.mark.parametrize("choice", [OnDataLoss.SKIP, OnDataLoss.RESET])
    def test_skip_and_reset_go_on_with_what_is_left(self, choice: OnDataLoss) -> None:
        there, passes = self.copied_then(self.overrun, on_data_loss=choice)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert passes.tracks[TopicPartition("t", 0)].lost_records == 5
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(25, 30)]
        assert there.run().tracks[TopicPartition("t", 0)].lost_records == 0

    def test_a_topic_created_again_is_noticed_though_its_log_is_longer_than_the_former(self) -> None:
        def again(log: Log) -> None:
            log.topic_id, log.records = "id-2", list(range(100, 150))

        there = world(10, 3)
        there.run()
        for log in there.source.logs.values():
            again(log)
        passes = there.run()
        assert [track.error is None for track in passes.tracks.values()] == [False, False]
        assert "created again" in str(passes.tracks[TopicPartition("t", 0)].error)
        assert there.run().tracks[TopicPartition("t", 1)].error is not None
        there.run(on_data_loss=OnDataLoss.SKIP)
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(100, 150)]
        there.run()
        assert there.target.records[TopicPartition("t", 1)] == [1000, 1001, 1002, *range(100, 150)]

    @pytest.mark.parametrize("choice", [OnDataLoss.SKIP, OnDataLoss.RESET])
    def test_a_topic_created_again_is_noticed_though_its_logs_are_as_long_as_the_former_ones(
        self, choice: OnDataLoss
    ) -> None:
        there = world(10, 3)
        there.run()
        for log, first in zip(there.source.logs.values(), (100, 200), strict=True):
            log.topic_id, log.records = "id-2", list(range(first, first + len(log.records)))
        assert all("created again" in str(track.error) for track in there.run().tracks.values())
        assert not any(track.error for track in there.run(on_data_loss=choice).tracks.values())
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(100, 110)]
        assert there.target.records[TopicPartition("t", 1)] == [1000, 1001, 1002, *range(200, 203)]

    def test_a_listing_that_is_older_than_the_decision_changes_nothing(self) -> None:
        """As of a broker that has not heard of the new topic yet."""
        there = world(8)
        there.run()
        log = there.source.logs[TopicPartition("t", 0)]
        log.topic_id, log.records = "id-2", list(range(100, 150))
        there.run(on_data_loss=OnDataLoss.SKIP)
        log.topic_id = "id-1"
        log.records.append(150)
        there.run(on_data_loss=OnDataLoss.SKIP)
        assert there.target.records[TopicPartition("t", 0)] == [*range(8), *range(100, 151)]
        assert there.memory.topic_id("t") == "id-2"

    def test_nothing_is_decided_about_a_topic_created_again_while_its_partitions_cannot_be_placed(self) -> None:
        there = world(8, 8)
        there.run()
        for log in there.source.logs.values():
            log.topic_id, log.records = "id-2", list(range(100, 150))
        starts = there.source.starts
        there.source.starts = lambda partitions: ({}, dict.fromkeys(partitions, "no answer"))  # type: ignore[method-assign]
        there.run(on_data_loss=OnDataLoss.FAIL, patience_seconds=1.0)
        assert there.memory.topic_id("t") == "id-1"
        there.source.starts = starts  # type: ignore[method-assign]
        assert all("created again" in str(track.error) for track in there.run().tracks.values())

    def test_partitions_that_rest_start_over_in_a_topic_that_was_created_again(self) -> None:
        """By then the id of the new one is known, and their logs may have more than they have copied."""
        there = world(8, 8, slots=2)
        there.slots.fate = lambda slot: "error" if slot == 1 and len(there.slots.passes) == 1 else ""
        logs = there.source.logs.values()

        def create_again() -> None:
            for log, first in zip(logs, (100, 200), strict=True):
                if log.topic_id != "id-2":
                    log.topic_id, log.records = "id-2", list(range(first, first + 50))

        there.while_asleep = create_again
        there.run(on_data_loss=OnDataLoss.SKIP, max_seconds=20.0)
        assert there.target.records[TopicPartition("t", 0)] == [*range(8), *range(100, 150)]
        assert there.target.records[TopicPartition("t", 1)] == [*range(1000, 1004), *range(200, 250)]
        assert any("t-1: its topic was deleted and created again" in note for note in there.notes)

    @pytest.mark.parametrize("elections", [0, 3])
    def test_a_topic_created_again_with_fewer_partitions_is_copied_whole_when_it_grows(self, elections: int) -> None:
        """What is committed for the partitions that it gets later is the former topic's."""
        there = world(8, 8)
        for _ in range(elections):
            there.source.logs[TopicPartition("t", 1)].elect()
        there.run()
        del there.source.logs[TopicPartition("t", 1)]
        there.source.logs[TopicPartition("t", 0)] = Log("id-2", records=[100, 101])
        there.run(on_data_loss=OnDataLoss.SKIP)
        there.run()
        there.source.logs[TopicPartition("t", 1)] = Log("id-2", records=list(range(200, 215)))
        assert [track.error for track in there.run().tracks.values()] == [None, None]
        assert there.target.records[TopicPartition("t", 1)] == [*range(1000, 1008), *range(200, 215)]

    def test_partitions_that_began_at_the_end_begin_at_their_start_in_a_topic_created_again(self) -> None:
        there = world(8, 8)
        there.run(auto_offset_reset="latest")
        del there.source.logs[TopicPartition("t", 1)]
        there.source.logs[TopicPartition("t", 0)] = Log("id-2", records=[100, 101])
        there.run(auto_offset_reset="latest", on_data_loss=OnDataLoss.SKIP)
        there.source.logs[TopicPartition("t", 1)] = Log("id-2", records=list(range(200, 215)))
        there.run(auto_offset_reset="latest")
        assert there.target.records[TopicPartition("t", 1)] == list(range(200, 215))

    def test_a_decision_holds_over_a_crash_before_its_first_commit(self) -> None:
        there = world(10)
        there.run()
        log = there.source.logs[TopicPartition("t", 0)]
        log.topic_id, log.records = "id-2", list(range(100, 120))
        there.target.chunk = 0
        there.slots.fate = lambda slot: "fenced"
        there.run(on_data_loss=OnDataLoss.RESET)
        there.target.chunk = 4
        there.slots.fate = lambda slot: ""
        there.run()
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(100, 120)]

    def test_a_truncated_log(self) -> None:
        def cut(log: Log) -> None:
            del log.records[6:]

        _, passes = self.copied_then(cut)
        assert "ends at offset 6, 4 offsets before" in str(passes.tracks[TopicPartition("t", 0)].error)
        there, passes = self.copied_then(cut, on_data_loss=OnDataLoss.SKIP)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        there.source.logs[TopicPartition("t", 0)].records.append(77)
        there.run()
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), 77]
        there, passes = self.copied_then(cut, on_data_loss=OnDataLoss.RESET)
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(6)]

    def test_an_open_transaction_is_not_a_truncation(self) -> None:
        def open_transaction(log: Log) -> None:
            log.unstable = 4

        _, passes = self.copied_then(open_transaction)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert passes.tracks[TopicPartition("t", 0)].lost_records == 0

    def test_lost_while_the_run_goes_on(self) -> None:
        there = world(10)

        def overrun() -> None:
            there.while_asleep = lambda: None
            log = there.source.logs[TopicPartition("t", 0)]
            log.topic_id, log.records = "id-2", list(range(100, 150))

        there.while_asleep = overrun
        there.run(max_seconds=2.0, on_data_loss=OnDataLoss.RESET)
        there.run()
        assert there.target.records[TopicPartition("t", 0)] == [*range(10), *range(100, 150)]


#: The flow stood at 5 when the copy was whole.
CUT = {("t", 0): CutCopy("a.t", 0, position=5, before=6, now=2)}


class TestCutCopies:
    """The target lost records of a copy."""

    def test_nothing_is_written_behind_the_gap(self) -> None:
        there = world(5, 5)
        there.run()
        for log in there.source.logs.values():
            log.records += [77]
        passes = there.run(find_cut=lambda committed: CUT)
        cut, other = passes.tracks[TopicPartition("t", 0)], passes.tracks[TopicPartition("t", 1)]
        assert (cut.error_kind, cut.position, cut.lag) == ("DataLost", 5, 1)
        assert "the copy a.t-0 ends at offset 2, 4 offsets before the end" in str(cut.error)
        assert other.error is None
        assert there.target.records[TopicPartition("t", 0)] == [0, 1, 2, 3, 4]
        assert there.target.records[TopicPartition("t", 1)][-1] == 77

    def test_it_is_said_where_nothing_is_new_at_the_source(self) -> None:
        there = world(5)
        there.run()
        assert there.run(find_cut=lambda committed: CUT).tracks[TopicPartition("t", 0)].error_kind == "DataLost"

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [(OnDataLoss.SKIP, [0, 1, 2, 3, 4, 77]), (OnDataLoss.RESET, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 77])],
    )
    def test_it_goes_on_as_the_operator_says(self, choice: OnDataLoss, expected: list[int]) -> None:
        there = world(5)
        there.run()
        there.source.logs[TopicPartition("t", 0)].records += [77]
        passes = there.run(find_cut=lambda committed: CUT, on_target_loss=choice)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert there.target.records[TopicPartition("t", 0)] == expected
        assert any("on.target.loss" in note for note in there.notes)
        assert not passes.points.undecided

    def test_whoever_set_the_offset_back_has_decided(self) -> None:
        there = world(3)
        there.run()
        there.source.logs[TopicPartition("t", 0)].records += [3, 4, 77]
        passes = there.run(find_cut=lambda committed: CUT)
        assert passes.tracks[TopicPartition("t", 0)].error is None
        assert there.target.records[TopicPartition("t", 0)] == [0, 1, 2, 3, 4, 77]
