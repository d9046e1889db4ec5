from __future__ import annotations

import json
from dataclasses import replace

import pytest

from srm_common.domain.amount import Amount
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.domain.runs.run_record import Installation, PartitionRecord, RunRecord, RunState, other_installation
from srm_common.errors import CorruptRecord

RECORD = RunRecord(
    flow="a->b",
    run_id="manual__1",
    started_ms=1_700_000_000_000,
    finished_ms=1_700_000_005_000,
    passes=2,
    state=RunState.FAILED,
    partitions=(
        PartitionRecord(
            "t", "a.t", 0, 10, 1000, position=90, end=100, latency_ms_min=1.5, latency_ms_max=9.0, latency_ms_avg=4.0,
            last_record_timestamp_ms=1_699_999_999_000, transactions=1, retries=2, reencoded_records=3,
            latencies=LatencyHistogram(((4, 9), (12, 1))),
        ),
        PartitionRecord("t", "a.t", 1, error="it broke", error_kind="DataLost", lost_records=7),
    ),
    notes=("created state topic x",),
)  # fmt: skip


def test_round_trip_through_json() -> None:
    assert RunRecord.from_json(json.loads(json.dumps(RECORD.to_json()))) == RECORD


def test_a_record_of_older_software_does_not_know_how_latencies_are_spread() -> None:
    document = json.loads(json.dumps(RECORD.to_json()))
    column = document["columns"].index("latencies")
    for row in (document["columns"], *document["partitions"]):
        del row[column]
    record = RunRecord.from_json(document)
    assert [partition.latencies for partition in record.partitions] == [None, None]
    assert replace(record.partitions[0], latencies=RECORD.partitions[0].latencies) == RECORD.partitions[0]


def test_sums() -> None:
    assert (RECORD.records, RECORD.bytes) == (10, 1000)
    assert RECORD.backlog == Amount(10, 10, parts=2, unknown=1)
    assert [row.partition for row in RECORD.failed_partitions] == [1]
    assert RECORD.partitions[1].lag is None


def test_a_position_beyond_the_end_is_no_lag() -> None:
    assert PartitionRecord("t", "a.t", 0, position=12, end=10).lag == 0


def test_fields_and_columns_of_newer_software_are_left_out() -> None:
    document = RECORD.to_json() | {"invented": 1}
    document["columns"] = [*document["columns"], "invented"]
    document["partitions"] = [[*row, 1] for row in document["partitions"]]
    assert RunRecord.from_json(document) == RECORD


@pytest.mark.parametrize(
    "change",
    [
        {"columns": ["upstream_topic", "downstream_topic", "partition", "latencies"], "partitions": [["t", "t", 0, 5]]},
        {"version": 2},
        {"state": "odd"},
        {"partitions": [[1]]},
        {"columns": None},
        {"partitions": None},
    ],
)
def test_other_documents_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(CorruptRecord, match="run record"):
        RunRecord.from_json(RECORD.to_json() | change)


def test_it_stays_small() -> None:
    rows = tuple(PartitionRecord(f"topic-{i // 10}", f"a.topic-{i // 10}", i % 10) for i in range(1000))
    record = RunRecord("a->b", "r", 0, None, 0, RunState.RUNNING, partitions=rows)
    assert len(json.dumps(record.to_json(), separators=(",", ":"))) < 110 * 1000


def test_an_error_names_its_partition_once() -> None:
    assert PartitionRecord("t", "a.t", 3, error="no leader").trouble == "t-3: no leader"
    assert PartitionRecord("t", "a.t", 3, error="t-3: no leader").trouble == "t-3: no leader"
    assert PartitionRecord("t", "a.t", 3).trouble == ""


HOUR = 3_600_000
LAST = Installation("one", "host-1", "r1", 10 * HOUR)


def test_another_installation_is_told() -> None:
    own = Installation("two", "host-2", "r2", 10 * HOUR + 90_000)
    found = other_installation("a->b", LAST, own)
    assert found is not None
    assert found.startswith("installation 'one' ran flow a->b 90 s ago (run 'r1' on host-1), this is 'two'")


def test_the_same_one_a_first_run_and_one_long_ago_are_not() -> None:
    assert other_installation("a->b", LAST, Installation("one", "host-2", "r2", 10 * HOUR)) is None
    assert other_installation("a->b", None, LAST) is None
    assert other_installation("a->b", LAST, Installation("two", "host-2", "r2", 35 * HOUR)) is None


def test_there_and_back_through_json() -> None:
    assert Installation.from_json(LAST.to_json()) == LAST
    assert Installation.from_json(None) is None
    assert Installation.from_json({"id": "x"}) is None


def test_what_was_left_out_is_told_where_something_was() -> None:
    assert not {"skipped_records", "dead_letters"} & set(RECORD.to_json()["columns"])
    skipped = replace(RECORD.partitions[0], skipped_records=3)
    record = replace(RECORD, partitions=(skipped, *RECORD.partitions[1:]))
    document = json.loads(json.dumps(record.to_json()))
    assert "skipped_records" in document["columns"]
    assert "dead_letters" not in document["columns"]
    assert RunRecord.from_json(document) == record
