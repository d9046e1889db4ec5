"""Records that a transform cannot handle: the partition stops, they are dropped, or go to the dead letter topic."""

from __future__ import annotations

import logging
import re

import pyarrow as pa
import pytest

from srm_common.domain.runs.run_record import RunState
from srm_common.domain.transforms.chain import Step, StepKind
from srm_common.errors import ConfigError
from srm_common.records import transform
from srm_common.records.row_faults import RowFaults
from srm_common.records.transform import Mask
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.kafka.bit_flips import BitFlips
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.runs.test_replicate import positions

CHAIN = (Step("numbers", StepKind.DROP_HEADERS, ("none",)),)


@pytest.fixture(autouse=True)
def numbers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that takes numbers."""

    def numbers(step: Step, records: pa.RecordBatch, chosen: Mask | None) -> pa.RecordBatch:
        values = enumerate(records.column("value").to_pylist())
        bad = {row: f"'{value.decode()}' is no number" for row, value in values if not value.isdigit()}
        if bad:
            raise RowFaults(bad)
        return records

    monkeypatch.setitem(transform._STEPS, StepKind.DROP_HEADERS, numbers)


def write(sides: Sides, *values: str, partition: int = 0) -> None:
    sides.source.write("orders", [(b"k", value.encode()) for value in values], partition)


def test_by_default_the_partition_stops_at_the_record(sides: Sides) -> None:
    sides.source.create_topic("orders", 2)
    sides.set(transforms=CHAIN)
    write(sides, "1", "2", "x", "3")
    write(sides, "1", "2", partition=1)
    sides.refresh()
    record = sides.run()
    assert record.state is RunState.FAILED
    (failed,) = record.failed_partitions
    assert failed.trouble == "orders-0: partition orders-0: offset 2, transforms.numbers: 'x' is no number"
    assert sides.values("a.orders") == sides.values("a.orders", 1) == [b"1", b"2"]
    assert positions(sides) == {("orders", 0): 2, ("orders", 1): 2}


def test_what_an_earlier_attempt_of_a_run_has_skipped_is_told_by_the_next_one(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.set(transforms=CHAIN, errors_tolerance="all")
    write(sides, "1", "x", "3", "y")
    sides.refresh()
    for values, skipped in (([], 2), (["z", "5"], 3), ([], 3)):
        write(sides, *values)
        (partition,) = sides.run("r").partitions
        assert partition.skipped_records == partition.skipped_records_total == skipped
    (partition,) = sides.run("another").partitions
    assert (partition.skipped_records, partition.skipped_records_total, partition.dead_letters_total) == (None, 3, 0)
    sides.set(transforms=(), errors_tolerance="none")
    (partition,) = sides.run("plain").partitions
    assert partition.skipped_records_total == 3, "what is counted stays counted"


def test_flows_that_leave_out_nothing_count_nothing(sides: Sides) -> None:
    sides.source.create_topic("orders")
    write(sides, "1")
    sides.refresh()
    (partition,) = sides.run().partitions
    assert (partition.skipped_records_total, partition.dead_letters_total) == (None, None)


def test_tolerated_records_are_dropped_counted_and_logged(sides: Sides, caplog: pytest.LogCaptureFixture) -> None:
    sides.source.create_topic("orders", 2)
    sides.set(transforms=CHAIN, errors_tolerance="all")
    write(sides, "1", "x", "3", "y")
    write(sides, "z", partition=1)
    sides.refresh()
    with caplog.at_level(logging.ERROR):
        record = sides.run()
        assert "left out" not in caplog.text
        assert (record.state, record.records) == (RunState.DONE, 2)
        assert [(partition.skipped_records, partition.dead_letters) for partition in record.partitions] == [
            (2, None),
            (1, None),
        ]
        (note,) = (note for note in record.notes if "left out" in note)
        assert note == (
            "3 records of 2 partitions were left out, since a transform could not handle them (errors.tolerance = "
            "all); they were dropped"
        )
        assert positions(sides) == {("orders", 0): 4, ("orders", 1): 1}
        sides.set(errors_log_enable=True)
        write(sides, "w")
        sides.run("second")
    (line,) = (log_record.getMessage() for log_record in caplog.records if "left out" in log_record.getMessage())
    assert line == "a->b: the record of partition orders-0 at offset 4, transforms.numbers: 'w' is no number; left out"


def test_dead_letters_are_as_they_were_and_say_where_they_come_from(sides: Sides) -> None:
    sides.source.create_topic("orders", 3)
    sides.set(
        transforms=CHAIN,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="dead.letters",
        errors_deadletterqueue_context_headers_enable=True,
    )
    write(sides, "1", "x", "3", "y")
    write(sides, "z", partition=2)
    sides.refresh()
    record = sides.run()
    assert (record.state, record.records) == (RunState.DONE, 2)
    assert [(partition.skipped_records, partition.dead_letters) for partition in record.partitions] == [
        (2, 2),
        (None, None),
        (1, 1),
    ]
    assert [note for note in record.notes if note.endswith("3 of them are in dead.letters")]
    letters = sides.target.records("dead.letters")
    records = {(dict(one.headers)["__connect.errors.partition"], one.value): one for one in letters}
    assert set(records) == {(b"0", b"x"), (b"0", b"y"), (b"2", b"z")}
    original = sides.source.records("orders")[3]
    letter = records[b"0", b"y"]
    assert (letter.key, letter.timestamp_ms) == (original.key, original.timestamp_ms)
    assert dict(letter.headers) == {
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"3",
        "__connect.errors.connector.name": b"a->b",
        "__connect.errors.task.id": dict(letter.headers)["__connect.errors.task.id"],
        "__connect.errors.stage": b"TRANSFORMATION",
        "__connect.errors.class.name": b"org.apache.kafka.connect.transforms.DropHeaders",
        "__connect.errors.exception.class.name": b"srm_common.errors.TransformFailed",
        "__connect.errors.exception.message": b"transforms.numbers: 'y' is no number",
    }
    assert positions(sides) == {("orders", 0): 4, ("orders", 2): 1}
    assert sides.run("again").records == 0
    assert len(sides.target.records("dead.letters")) == 3


def test_a_dead_letter_topic_that_keeps_less_than_the_source_is_told_by_the_plan(sides: Sides) -> None:
    sides.source.create_topic("orders", config={"retention.ms": "-1"})
    sides.target.create_topic("dead", config={"retention.ms": "1000"})
    sides.set(transforms=CHAIN, errors_tolerance="all", errors_deadletterqueue_topic_name="dead")
    (notice,) = plan_topics(sides.flow).notices
    assert notice.startswith("dead letter topic dead on b has retention.ms=1000, and orders on a has retention.ms=-1: ")


def test_partitions_keep_their_order_in_a_dead_letter_topic_of_several(sides: Sides) -> None:
    sides.source.create_topic("orders", 4)
    sides.target.create_topic("dead", 2)
    sides.set(transforms=CHAIN, errors_tolerance="all", errors_deadletterqueue_topic_name="dead", chunk_bytes=1)
    for partition in range(4):
        write(sides, *(f"p{partition}.{number}" for number in range(20)), partition=partition)
    sides.refresh()
    assert sides.run().state is RunState.DONE
    for home in range(2):
        letters = [value.decode() for value in sides.values("dead", home) if value is not None]
        assert sorted(letters) == sorted(f"p{partition}.{n}" for partition in (home, home + 2) for n in range(20))
        for partition in (home, home + 2):
            own = [letter for letter in letters if letter.startswith(f"p{partition}.")]
            assert own == [f"p{partition}.{n}" for n in range(20)]


@pytest.mark.parametrize("api", ["Produce", "EndTxn"])
def test_dead_letters_come_once_whatever_is_done_again(sides: Sides, api: str) -> None:
    """The dead letters, or the commit with them, get no answer, though they arrived."""
    sides.source.create_topic("orders")
    sides.target.create_topic("dead")
    sides.set(transforms=CHAIN, errors_tolerance="all", errors_deadletterqueue_topic_name="dead")
    write(sides, "1", "x", "2", "y")
    sides.refresh()
    sides.target.drop_answer(api, times=2)
    sides.run()
    sides.run("second")
    assert sides.values("a.orders") == [b"1", b"2"]
    assert sides.values("dead") == [b"x", b"y"]
    assert positions(sides) == {("orders", 0): 4}


def test_without_transactions_dead_letters_of_a_chunk_that_is_started_over_come_as_well(sides: Sides) -> None:
    """All records are on the target when the dead letters are refused: nothing of the partition is fetched again."""
    sides.source.create_topic("orders")
    sides.target.create_topic("dead")
    sides.set(exactly_once=False, transforms=CHAIN, errors_tolerance="all", errors_deadletterqueue_topic_name="dead")
    write(sides, "1", "x", "2", "y", "3")
    sides.refresh()
    sides.target.refuse("Produce", 6, when="dead", times=1)
    record = sides.run()
    assert (record.state, sides.values("a.orders")) == (RunState.DONE, [b"1", b"2", b"3"])
    assert sides.values("dead") == [b"x", b"y"]


def test_a_dead_letter_topic_that_refuses_stops_the_partition_before_the_chunk(sides: Sides) -> None:
    sides.source.create_topic("orders", 2)
    sides.target.create_topic("dead")
    sides.set(transforms=CHAIN, errors_tolerance="all", errors_deadletterqueue_topic_name="dead")
    write(sides, "1", "x", "2")
    write(sides, "1", "2", partition=1)
    sides.refresh()
    refused = sides.target.refuse("Produce", 87, when="dead")
    record = sides.run()
    (failed,) = record.failed_partitions
    assert failed.trouble.startswith("orders-0: partition dead-0 at b: INVALID_RECORD")
    assert sides.values("a.orders", 1) == [b"1", b"2"]
    assert sides.values("a.orders") == sides.values("dead") == []
    refused.end()
    assert sides.run("second").state is RunState.DONE
    assert (sides.values("a.orders"), sides.values("dead")) == ([b"1", b"2"], [b"x"])


def test_a_dead_letter_topic_that_is_deleted_during_a_run(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition whose dead letters have no place stops, the others go on, and the next run says what is missing."""
    sides.source.create_topic("orders", 2)
    sides.target.create_topic("dead")
    sides.set(transforms=CHAIN, errors_tolerance="all", errors_deadletterqueue_topic_name="dead")
    write(sides, "1", "x", "2")
    write(sides, "1", "2", partition=1)
    sides.refresh()
    numbers = transform._STEPS[StepKind.DROP_HEADERS]

    def deletes(step: Step, records: pa.RecordBatch, chosen: Mask | None) -> pa.RecordBatch:
        if "dead" in sides.target.topics():
            sides.target.delete_topic("dead")
        return numbers(step, records, chosen)

    with monkeypatch.context() as during:
        during.setitem(transform._STEPS, StepKind.DROP_HEADERS, deletes)
        record = sides.run()
    (failed,) = record.failed_partitions
    assert failed.trouble.startswith("orders-0: partition dead-0 at b")
    assert sides.values("a.orders") == []
    assert sides.values("a.orders", 1) == [b"1", b"2"]
    with pytest.raises(ConfigError, match="dead of flow a->b does not exist on b; create it"):
        sides.run("second")
    sides.refresh()
    assert sides.run("third").state is RunState.DONE
    assert (sides.values("a.orders"), sides.values("dead")) == ([b"1", b"2"], [b"x"])


@pytest.mark.parametrize("times", [1, 10])
def test_dead_letters_with_a_bit_that_flips_are_written_again_once(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    sides.source.create_topic("orders", 2)
    sides.target.create_topic("dead")
    sides.set(
        transforms=CHAIN,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="dead",
        retry_timeout_seconds=60.0,
    )
    write(sides, "1", "x", "2")
    write(sides, "1", "2", partition=1)
    sides.refresh()
    with monkeypatch.context() as patch:
        flips = BitFlips(patch, lambda batch: batch.partition.topic == "dead" and len(flips.sent) < times)
        record = sides.run()
    assert len(flips.sent) == min(times, 2), "they are written again once, not until a time-out"
    if times > 1:
        (failed,) = record.failed_partitions
        assert failed.trouble.startswith("orders-0: partition orders-0: the chunk from offset 0 on was written twice")
        assert "partition dead-0 at b: CORRUPT_MESSAGE" in failed.trouble
        assert sides.values("a.orders") == sides.values("dead") == []
    assert sides.values("a.orders", 1) == [b"1", b"2"]
    sides.run("second")
    assert (sides.values("a.orders"), sides.values("dead")) == ([b"1", b"2"], [b"x"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dead", "dead of flow a->b does not exist on b; create it, or have it created by: srm-control apply --flow"),
        ("a.orders", "a.orders of flow a->b is the copy of orders; name another topic"),
        ("mm2-offsets.a.internal", "mm2-offsets.a.internal of flow a->b is one of its state topics; name another"),
    ],
)
def test_a_run_does_not_start_with_a_dead_letter_topic_that_it_cannot_use(sides: Sides, name: str, reason: str) -> None:
    sides.source.create_topic("orders")
    sides.refresh()
    sides.set(transforms=CHAIN, errors_tolerance="all", errors_deadletterqueue_topic_name=name)
    write(sides, "1")
    with pytest.raises(ConfigError, match=re.escape(f"errors.deadletterqueue.topic.name = {reason}")):
        sides.run()
    assert sides.values("a.orders") == []
